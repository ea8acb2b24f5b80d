"""A worker that slows down is found by its peers, left alone and taken back; of a slow pool only the metric tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import httpx
import pytest

from tests.doubles.script import Script
from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import assert_complete, chat, stream

pytestmark = pytest.mark.alone

FAST, SLOW = Script(delay_ms=10), Script(delay_ms=120)
CLIENTS = 12
SETTINGS: dict[str, Any] = {"selection": "rotation", "health": {"pace_window": 1, "slow_start": 0}}


@pytest.fixture(scope="module")
def trio(host: Host) -> Iterator[list[VllmDouble]]:
    doubles = [host.add(VllmDouble("trio", default=FAST)) for _ in range(3)]
    yield doubles
    for double in doubles:
        host.remove(double)


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], trio: list[VllmDouble]) -> Gateway:
    return gateway(config({"trio": pool(*trio, **SETTINGS)})).wait_workers(3)


@asynccontextmanager
async def traffic(served: Gateway) -> AsyncIterator[None]:
    """As long as this is open, all clients ask one thing after the other, and get each whole."""
    numbers, has_ended = count(), asyncio.Event()

    async def ask() -> None:
        while not has_ended.is_set():
            key = f"paced-{next(numbers)}"
            assert_complete(await stream(served.url, chat("trio", key)), key)

    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(ask())
        try:
            yield
        finally:
            has_ended.set()


async def ejections(served: Gateway, **labels: str) -> float:
    return (await served.metrics()).value("thinkgate_worker_ejections_total", **labels)


async def test_one_that_is_slow_is_left_alone_until_it_is_fast_again(served: Gateway, trio: list[VllmDouble]) -> None:
    slow = trio[1]
    name = slow.url.split("//")[1]
    async with traffic(served):
        await served.wait_metric("thinkgate_requests_total", {}, lambda answered: answered >= 30)
        slow.default = SLOW
        await served.wait_metric(
            "thinkgate_worker_ejections_total", {"worker": name, "cause": "slow"}, lambda times: times == 1
        )
        async with httpx.AsyncClient() as client:
            rows = (await client.get(f"{served.url}/admin/workers")).json()["data"]
        assert [row["reason"] for row in rows if row["url"] == slow.url] == ["it generates much slower than its pool"]
        slow.default = FAST
        returns = {"worker": name, "state": "ready"}
        await served.wait_metric("thinkgate_worker_transitions_total", returns, lambda times: times == 2)
        before = len(slow.generations)
        await slow.until(lambda: len(slow.generations) > before + 5, "traffic again")
    canaries = [one for one in slow.generations if not one.key.startswith("paced-") and one.json["max_tokens"] == 8]
    assert len(canaries) == 2, "one when it first came, one before it came back"
    assert await ejections(served) == 1


async def test_where_all_are_slow_nobody_is_ejected_and_the_metric_says_so(
    served: Gateway, trio: list[VllmDouble]
) -> None:
    labels = {"pool": "trio"}
    before = await ejections(served)
    async with traffic(served):
        await served.wait_metric("thinkgate_pool_pace_ratio", labels, lambda ratio: ratio > 0.7)
        for double in trio:
            double.default = SLOW
        await served.wait_metric("thinkgate_pool_pace_ratio", labels, lambda ratio: 0 < ratio < 0.3)
        rounds = [len(double.generations) + 2 * CLIENTS // 3 for double in trio]
        for double, wanted in zip(trio, rounds, strict=True):
            await double.until(lambda double=double, wanted=wanted: len(double.generations) >= wanted, "slow answers")
        assert await ejections(served) == before
        assert (await served.metrics()).value("thinkgate_worker_ready", **labels) == 3
        for double in trio:
            double.default = FAST
