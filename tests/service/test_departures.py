"""An aborted leg is not gone before its engine says so: until then its worker is not the first to be chosen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import httpx
import pytest

from tests.doubles.engine import Double
from tests.doubles.llamaserver import LlamaDouble
from tests.doubles.server import Host
from tests.doubles.sglang import SglangDouble
from tests.doubles.vllm import VllmDouble
from tests.harness import LOOK_AGAIN, PATIENCE, Gateway, config, pool
from tests.service.talk import assert_complete, chat, socket_to, stream

MAKE: dict[str, Callable[[str], Double]] = {"vllm": VllmDouble, "sglang": SglangDouble, "llama": LlamaDouble}
THINKING = {"native_cap": False}


@pytest.fixture(scope="module")
def pairs(host: Host) -> Iterator[dict[str, list[Double]]]:
    """Two workers of each engine."""
    found = {name: [host.add(make(name)) for _ in range(2)] for name, make in MAKE.items()}
    yield found
    for double in (double for pair in found.values() for double in pair):
        host.remove(double)


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], pairs: dict[str, list[Double]]) -> Gateway:
    pools = {name: pool(*pair, thinking=THINKING) for name, pair in pairs.items()}
    return gateway(config(pools)).wait_workers(6)


async def leaving(served: Gateway, name: str) -> dict[str, int]:
    async with httpx.AsyncClient() as client:
        rows: list[dict[str, Any]] = (await client.get(f"{served.url}/admin/workers")).json()["data"]
    return {row["url"]: row["leaving"] for row in rows if row["pool"] == name}


async def until_leaving(served: Gateway, name: str, count: int) -> None:
    deadline = monotonic() + PATIENCE
    while sum((await leaving(served, name)).values()) != count:
        assert monotonic() < deadline, await leaving(served, name)
        await asyncio.sleep(LOOK_AGAIN)


async def leave_in_mid_thought(served: Gateway, name: str, key: str) -> None:
    async with socket_to(served.port) as socket:
        await socket.send_chat(chat(name, key, think=3_000, delay_ms=2))
        await socket.read_until(b"reasoning_content", 5)
        socket.leave()


@pytest.mark.parametrize("name", MAKE)
async def test_an_engine_that_stops_is_seen_to_have_stopped(
    served: Gateway, pairs: dict[str, list[Double]], name: str
) -> None:
    await leave_in_mid_thought(served, name, f"gone-{name}")
    await served.wait_metric("thinkgate_abort_seconds_count", {"pool": name}, lambda count: count >= 1)
    assert sum((await leaving(served, name)).values()) == 0
    assert all(double.active == [] for double in pairs[name])


@pytest.mark.parametrize("name", MAKE)
async def test_one_that_seems_to_run_on_is_not_the_first_to_be_chosen(
    served: Gateway, pairs: dict[str, list[Double]], name: str
) -> None:
    await leave_in_mid_thought(served, name, f"first-{name}")
    busy = next(double for double in pairs[name] if double.of(f"first-{name}"))
    other = next(double for double in pairs[name] if double is not busy)
    await until_leaving(served, name, 0)
    busy.linger(on=True)
    try:
        while not any(one.key.startswith("lingers-") for one in busy.generations):
            await leave_in_mid_thought(served, name, f"lingers-{name}-{len(other.generations)}")
        await until_leaving(served, name, 1)
        for number in range(4):
            assert_complete(await stream(served.url, chat(name, f"next-{name}-{number}")), f"next-{name}-{number}")
            assert other.of(f"next-{name}-{number}")
            assert (await leaving(served, name))[busy.url] == 1
    finally:
        busy.linger(on=False)
    await until_leaving(served, name, 0)
