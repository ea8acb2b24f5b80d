"""GPU-seconds through a real gateway: what the flights are charged is the time the doubles were really busy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import httpx
import pytest

from gateway.edge.keys import hash_key
from tests.doubles.engine import Double
from tests.doubles.exchange import Exchange
from tests.doubles.server import Host
from tests.doubles.sglang import SglangDouble
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, Metrics, config, pool
from tests.service.talk import assert_error, chat, post, stream

pytestmark = pytest.mark.alone

GPUS = 4
RESIDUAL = 0.02
"""Of the busy time that may be missing or too much: the gateway sees a request some milliseconds longer."""
PRICE = 3.6


def busy(exchanges: Iterable[Exchange]) -> float:
    """Seconds in which at least one of these ran, by the double's own clock."""
    total, until = 0.0, 0.0
    for start, end in sorted((one.started, one.ended_at) for one in exchanges if one.ended_at is not None):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def settled(now: Metrics, name: str) -> float:
    """Handed out, or known to be nobody's; nothing is pending."""
    labels = {"pool": name}
    assert now.value("thinkgate_gpu_pending_seconds", **labels) == pytest.approx(0, abs=1e-6)
    booked = now.value("thinkgate_gpu_seconds_total", **labels)
    nobodys = now.value("thinkgate_gpu_seconds_unattributed_total", **labels)
    assert booked + nobodys == pytest.approx(now.value("thinkgate_gpu_busy_seconds_total", **labels))
    assert now.value("thinkgate_gpu_seconds_by_band_total", **labels) == pytest.approx(booked)
    return booked


@pytest.mark.parametrize("kind", [VllmDouble, SglangDouble], ids=["time-sums", "kv-tokens"])
async def test_the_sum_over_flights_is_the_busy_time(
    gateway: Callable[..., Gateway], host: Host, kind: type[VllmDouble | SglangDouble]
) -> None:
    """Streams that overlap, one that is cut and one that fails; polls fall in the midst of them."""
    double: Double = host.add(kind("g-model"))
    settings = pool(double, gpus=GPUS, gpu_hour_price=PRICE, thinking={"native_cap": False})
    one = gateway(config({"gpu": settings})).wait_workers(1)
    before = len(double.generations)
    flown: dict[str, dict[str, Any]] = {
        "long": {"think": 400, "delay_ms": 12},
        "short": {"think": 20, "delay_ms": 25},
        "waits": {"first_ms": 700, "think": 30, "delay_ms": 10},
        "fails": {"think": 80, "delay_ms": 10, "error_after": 50},
    }
    bodies = [chat("g-model", key, **controls) for key, controls in flown.items()]
    bodies.append(chat("g-model", "cut", think=200, delay_ms=8, body={"thinking_budget": 90}))
    async with httpx.AsyncClient(
        timeout=60
    ) as client:  # one for all: making one holds up the doubles, and their clocks
        await client.get(f"{one.url}/livez")
        async with asyncio.TaskGroup() as group:
            for body in bodies:
                group.create_task(client.post(f"{one.url}/v1/chat/completions", json=body))
    await double.wait_idle()
    await one.wait_grounded()
    await one.wait_metric("thinkgate_gpu_pending_seconds", {"pool": "gpu"}, lambda value: abs(value) < 1e-6)
    await one.wait_metric("thinkgate_gpu_seconds_total", {"outcome": "cut_answered"}, lambda value: value > 0)
    now = await one.metrics()
    truth = GPUS * busy(double.generations[before:])
    booked = settled(now, "gpu")
    assert booked == pytest.approx(truth, rel=RESIDUAL)
    assert now.value("thinkgate_gpu_cost_total", pool="gpu") == pytest.approx(booked / 3600 * PRICE)
    assert now.value("thinkgate_gpu_seconds_total", outcome="failed") > 0
    assert now.value("thinkgate_successes_total", pool="gpu") == 4
    if kind is VllmDouble:
        assert now.value("thinkgate_engine_request_seconds_total", phase="decode") > 0
    host.remove(double)


async def test_a_hosted_api_has_no_gpus_of_ours(gateway: Callable[..., Gateway], host: Host) -> None:
    double = host.add(VllmDouble("hosted"))
    one = gateway(config({"hosted": {**pool(double), "engine": "openai"}})).wait_workers(1)
    await stream(one.url, chat("hosted", "hosted-a"))
    await one.wait_metric("thinkgate_successes_total", {"pool": "hosted"}, lambda value: value == 1)
    assert (await one.metrics()).value("thinkgate_gpu_busy_seconds_total") == 0
    host.remove(double)


class TestFeedback:
    async def test_a_verdict_is_counted_beside_what_the_answer_cost(self, served: Gateway) -> None:
        told = await stream(served.url, chat("v-model", "judged"), {"x-request-id": "judged-1"})
        assert told.done
        await served.wait_grounded()
        answer = await post(served.url, {"request_id": "judged-1", "verdict": "good"}, "/v1/feedback")
        assert answer.status_code == 200
        assert answer.json() == {
            "object": "thinkgate.feedback",
            "request_id": "judged-1",
            "verdict": "good",
            "pool": "vllm",
            "outcome": "answered",
        }
        now = await served.metrics()
        assert now.value("thinkgate_feedback_total", pool="vllm", verdict="good") == 1
        await served.wait_metric("thinkgate_feedback_gpu_seconds_total", {"verdict": "good"}, lambda value: value > 0)
        again = await post(served.url, {"request_id": "judged-1", "verdict": "bad"}, "/v1/feedback")
        assert_error(again, 409, "invalid_request_error", "verdict_exists")

    @pytest.mark.parametrize(
        ("body", "status", "code"),
        [
            ({"request_id": "never-was", "verdict": "good"}, 404, "request_not_found"),
            ({"request_id": "x", "verdict": "so-so"}, 400, "invalid_value"),
            ({"request_id": 7, "verdict": "good"}, 400, "missing_required_parameter"),
            ({"verdict": "good"}, 400, "missing_required_parameter"),
            ({"request_id": "x", "verdict": "good", "why": "text"}, 400, "unknown_parameter"),
            (b"{", 400, "invalid_json"),
            (b"[" * 5000, 413, "request_too_large"),
        ],
    )
    async def test_what_cannot_be_taken_is_said(self, served: Gateway, body: Any, status: int, code: str) -> None:
        assert_error(await post(served.url, body, "/v1/feedback"), status, "invalid_request_error", code)

    async def test_it_is_the_word_of_the_key_that_asked(self, gateway: Callable[..., Gateway], host: Host) -> None:
        double = host.add(VllmDouble("f-model"))
        keys = [{"alias": name, "hash": hash_key(f"tg-{name}")} for name in ("ours", "theirs")]
        one = gateway(config({"vllm": pool(double)}, keys=keys)).wait_workers(1)
        ours, theirs = ({"authorization": f"Bearer tg-{name}"} for name in ("ours", "theirs"))
        assert (await stream(one.url, chat("f-model", "ours"), {**ours, "x-request-id": "ours-1"})).done
        await one.wait_grounded()
        verdict = {"request_id": "ours-1", "verdict": "bad"}
        nobody = await post(one.url, verdict, "/v1/feedback")
        assert_error(nobody, 401, "authentication_error")
        assert_error(await post(one.url, verdict, "/v1/feedback", theirs), 404, "invalid_request_error")
        assert (await post(one.url, verdict, "/v1/feedback", ours)).status_code == 200
        now = await one.metrics()
        assert now.value("thinkgate_feedback_total") == now.value("thinkgate_feedback_total", verdict="bad") == 1
        assert now.value("thinkgate_key_requests_total", key="ours", outcome="answered") == 1
        host.remove(double)
