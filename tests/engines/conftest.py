"""The engines, one after the other, and a gateway in front of each.

`engine` runs a test on every engine, `vllm` on the vLLM that holds a cap by itself. Only one vLLM runs at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.engines.install_vllm import Installation
from tests.engines.real_vllm import RealVllm
from tests.engines.under_test import Engine, Llama, Vllm
from tests.harness import Gateway, config

URL: Final = os.environ.get("THINKGATE_VLLM_URL", "").rstrip("/")
FORMAT: Final = os.environ.get("THINKGATE_VLLM_FORMAT", "think")
PHRASE: Final = "\n\nTime is up; I answer now.\n"
LONGEST: Final = 600
"""Seconds for one test: a thought of a thousand tokens, twice, on a slow machine."""

VLLM: Final = "vllm"
BARE: Final = "vllm-bare"
"""Without a reasoning parser: it cannot hold a cap, and leaves it to the gateway to find the thought in its text."""
EMBEDDED: Final = "embedded"
ENGINES: Final = (VLLM, BARE, EMBEDDED)


def on(names: str, places: Sequence[object]) -> pytest.MarkDecorator:
    """Run on these engines, the first of `names` being `where`. pytest is told the scope, since it would start an
    engine for each test that has another parameter besides."""
    return pytest.mark.parametrize(names, places, indirect=["where"], scope="session")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Time enough, and engine after engine, file after file: starting one takes a minute, a gateway some seconds."""
    ours = [item for item in items if Path(__file__).parent in item.path.parents]
    for item in ours:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LONGEST))
    places = [place for place, item in enumerate(items) if item in set(ours)]
    for place, item in zip(places, sorted(ours, key=_place_of), strict=True):
        items[place] = item


def _place_of(item: pytest.Item) -> tuple[int, Path]:
    name = (
        item.callspec.params.get("where") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
    )
    return (ENGINES.index(name) if name else -1), item.path


@pytest.fixture(scope="session", params=ENGINES)
def where(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """The address of the engine, None for the one inside the gateway. Ended before the next one starts."""
    name: str = request.param
    if name == EMBEDDED:
        yield None
    elif URL and name == VLLM:
        yield URL
    elif URL or not Installation().is_complete:
        pytest.skip("THINKGATE_VLLM_URL names another" if URL else "vLLM is not installed: run `make test-engines`")
    else:
        with RealVllm(parser=name == VLLM) as vllm:
            yield vllm.url


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], where: str | None) -> Gateway:
    """Pool `cut` is always cut by the gateway; pool `native` lets an engine that can hold a cap do so."""
    if where is None:
        pools = {"cut": _pool("embedded"), "native": _pool("embedded")}
        settings: dict[str, Any] = {"embedded": {"context": 2048}}
    else:
        model = httpx.get(f"{where}/v1/models").json()["data"][0]["id"]
        more = {"upstream_model": model, "workers": [where]}
        pools = {"cut": _pool("vllm", native_cap=False) | more, "native": _pool("vllm") | more}
        settings = {}
    return gateway(config({name: {"model": name, **pool} for name, pool in pools.items()}, **settings)).wait_workers(2)


@pytest.fixture(scope="module")
def engine(served: Gateway, where: str | None) -> Engine:
    workers = httpx.get(f"{served.url}/admin/workers").json()["data"]
    worker = next(one for one in workers if one["pool"] == "native")
    if where is None:
        return Llama(worker["url"])
    return Vllm(where, parser=worker["capabilities"]["native_cap"])


@pytest.fixture(scope="module")
def vllm(engine: Engine) -> Vllm:
    assert isinstance(engine, Vllm)
    return engine


@pytest.fixture(params=[True, False], ids=["streamed", "unary"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return request.param


def _pool(engine: str, **thinking: Any) -> dict[str, Any]:
    return {
        "engine": engine,
        "format": "think" if engine == "embedded" else FORMAT,
        "timeouts": {"first_token": 120, "idle": 120, "total": 600},
        "loops": {"action": "off"},  # so small a model goes round in circles; here only the cap is to end a thought
        "thinking": {"closing_phrase": PHRASE, "answer_reserve": 32, **thinking},
    }
