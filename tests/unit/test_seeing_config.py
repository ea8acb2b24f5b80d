"""The keys that say what is to be seen: GPUs, prices, traces."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.config import Config, EngineKind, Pool, Tracing
from gateway.configfile import redacted
from gateway.configpool import gpus_of
from gateway.observe.trace import TracingUnavailable, tracer_of

A, B = "http://a:1", "http://b:1"


def pool(engine: EngineKind = EngineKind.VLLM, **more: Any) -> Pool:
    return Pool(model="m", engine=engine, workers=(A, B), **more)


@pytest.mark.parametrize(
    ("made", "gpus"),
    [
        (pool(), (1, 1)),
        (pool(gpus=8), (8, 8)),
        (pool(gpus=8, worker_gpus={B: 4}), (8, 4)),
        (pool(worker_gpus={B + "/v1": 0.5}), (1, 0.5)),
        (pool(EngineKind.OPENAI), (0, 0)),
        (pool(EngineKind.OPENAI, gpus=2), (2, 2)),
    ],
)
def test_gpus_of_a_worker(made: Pool, gpus: tuple[float, float]) -> None:
    assert (gpus_of(made, A), gpus_of(made, B)) == gpus


@pytest.mark.parametrize(
    "wrong", [{"gpus": -1}, {"worker_gpus": {"http://c:1": 1}}, {"worker_gpus": {A: -1}}, {"gpu_hour_price": -0.1}]
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        pool(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"endpoint": "collector:4318"},
        {"endpoint": "ftp://collector"},
        {"endpoint": "http://me:secret@collector"},
        {"endpoint": "http://collector", "headers": {"x-key": "two\nlines"}},
        {"endpoint": "http://collector", "sample": 1.5},
    ],
)
def test_an_endpoint_is_an_address_without_a_password(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        Tracing(**wrong)
    assert "secret" not in refused.value.errors(include_input=False)[0]["msg"]


def test_the_collector_s_key_is_not_shown() -> None:
    tracing = Tracing.model_validate({"endpoint": "http://collector", "headers": {"authorization": "Bearer hidden"}})
    config = Config(pools={"p": pool()}, tracing=tracing)
    assert "hidden" not in repr(config)
    assert "hidden" not in str(redacted(config))


def test_no_endpoint_no_tracer() -> None:
    assert tracer_of(Tracing()) is None


def test_a_missing_extra_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gateway.observe.otel", None)
    with pytest.raises(TracingUnavailable, match=r"pip install 'thinkgate\[otel\]'"):
        tracer_of(Tracing(endpoint="http://collector:4318/v1/traces"))
