"""Hundreds of flights at once, some dropped by their client, some broken by their engine. The survivors are whole,
and afterwards nothing is left: no flight, no connection, no token being made for nobody."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.doubles.engine import Double
from tests.doubles.exchange import End
from tests.doubles.llamaserver import LlamaDouble
from tests.doubles.server import Host
from tests.doubles.sglang import SglangDouble
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import assert_complete, assert_error, chat, post, socket_to, stream

pytestmark = pytest.mark.alone

FLIGHTS = 200
MODELS = ["v-model", "s-model", "l-model"]
STYLES: list[dict[str, Any]] = [
    {"delay_ms": 2},
    {"delay_ms": 1, "burst": 7},
    {"write_bytes": 61},
    {"burst": 50},
    {"per_event": 5},
    {"first_ms": 50},
]


@pytest.fixture(scope="module")
def replicas(host: Host) -> Iterator[list[Double]]:
    """Two of each engine."""
    engines: list[type[Double]] = [VllmDouble, SglangDouble, LlamaDouble]
    doubles: list[Double] = []
    for engine, model in zip(engines, MODELS, strict=True):
        doubles += [host.add(engine(model)), host.add(engine(model))]
    yield doubles
    for double in doubles:
        host.remove(double)


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], replicas: list[Double]) -> Gateway:
    names = ["vllm", "sglang", "llama"]
    pools = {
        name: pool(replicas[2 * i], replicas[2 * i + 1], idle_connection=0.5, thinking={"native_cap": False})
        for i, name in enumerate(names)
    }
    return gateway(config(pools)).wait_workers(6)


async def assert_nothing_is_left(served: Gateway, replicas: list[Double]) -> None:
    await served.wait_grounded()
    for double in replicas:
        await double.wait_idle()
        await double.until(
            lambda double=double: all(one.idle for one in double.connections), "no connection with a request on it"
        )


async def test_survivors_are_whole_and_nothing_is_left(served: Gateway, replicas: list[Double]) -> None:
    fates: Counter[str] = Counter()

    async def fly(n: int) -> None:
        model, style, key = MODELS[n % 3], STYLES[n % len(STYLES)], f"storm-{n}"
        if n % 20 == 7:
            async with socket_to(served.port) as client:
                await client.send_chat(chat(model, key, think=50_000, delay_ms=2))
                await client.read_until(b"reasoning_content", 1 + n % 9)
            fates["left"] += 1
        elif n % 20 == 13:
            told = await stream(served.url, chat(model, key, die_after=8, times=1, delay_ms=1))
            assert_complete(told, key)
            fates["broken"] += 1
        elif n % 5 == 3:
            response = await post(served.url, chat(model, key, stream=False, **style))
            assert response.status_code == 200
            fates["unary"] += 1
        elif n % 5 == 4:
            body = {"thinking_budget": 40}
            told = await stream(served.url, chat(model, key, think=300, delay_ms=1, body=body))
            assert told.extension["thinking"]["ended_by"] == "cap"
            assert told.done
            fates["cut"] += 1
        else:
            assert_complete(await stream(served.url, chat(model, key, **style)), key)
            fates["whole"] += 1

    await asyncio.gather(*(fly(n) for n in range(FLIGHTS)))
    assert fates["left"] == fates["broken"] == FLIGHTS // 20
    assert fates.total() == FLIGHTS
    await assert_nothing_is_left(served, replicas)
    ends = Counter(one.end for double in replicas for one in double.generations)
    assert ends[End.BROKEN] == fates["broken"]
    assert ends[End.ABORTED] == fates["left"] + fates["cut"]


async def test_idle_connections_are_closed_by_the_gateway_first(served: Gateway, replicas: list[Double]) -> None:
    """Kept for half a second here; only the health polls' own come and go."""
    await stream(served.url, chat("v-model", "last"))
    double = next(double for double in replicas if double.of("last"))
    number = double.of("last")[0].connection
    await double.until(
        lambda: all(one.number != number for one in double.connections), "the connection of a flight closed"
    )


async def test_a_replica_that_dies_takes_only_its_own_streams(served: Gateway, replicas: list[Double]) -> None:
    """And not one token of them: all go on elsewhere. New requests do not notice."""

    async def long(n: int) -> None:
        told = await stream(served.url, chat("v-model", f"dies-{n}", think=60, delay_ms=5))
        assert_complete(told, f"dies-{n}", think=60)

    def talking(double: Double) -> int:
        return len([one for one in double.active if one.tokens])

    flights = [asyncio.create_task(long(n)) for n in range(20)]
    waits = [
        asyncio.ensure_future(double.until(lambda double=double: talking(double) >= 5, "five streams on it"))
        for double in replicas[:2]
    ]
    _, others = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for other in others:
        other.cancel()
    first = max(replicas[:2], key=talking)
    second = replicas[1] if first is replicas[0] else replicas[0]
    first.down()
    try:
        for n in range(10):
            assert_complete(await stream(served.url, chat("v-model", f"other-{n}")), f"other-{n}")
        await asyncio.gather(*flights)
        assert all(one.end is not End.RUNNING for one in first.generations)
    finally:
        first.up()
    await served.wait_metric("thinkgate_worker_ready", {"pool": "vllm"}, lambda ready: ready == 2)
    await assert_nothing_is_left(served, [first, second])


async def test_all_dead_is_an_error_for_everyone(served: Gateway, replicas: list[Double]) -> None:
    dead = replicas[2:4]
    for double in dead:
        double.down()
    try:
        answers = await asyncio.gather(*(post(served.url, chat("s-model", f"dead-{n}")) for n in range(50)))
        for answer in answers:
            assert answer.status_code in {502, 503}
            assert_error(answer, answer.status_code, "server_error")
    finally:
        for double in dead:
            double.up()
    await served.wait_metric("thinkgate_worker_ready", {"pool": "sglang"}, lambda ready: ready == 2)
    assert_complete(await stream(served.url, chat("s-model", "alive")), "alive")


async def test_a_storm_of_leavers_leaves_no_trace(served: Gateway, replicas: list[Double]) -> None:
    async def come_and_go(n: int) -> None:
        async with socket_to(served.port) as client:
            await client.send_chat(chat(MODELS[n % 3], f"leaver-{n}", stream=n % 2 == 0, think=50_000, delay_ms=2))
            if n % 4:
                double = replicas[2 * (n % 3)], replicas[2 * (n % 3) + 1]
                await asyncio.wait(
                    [asyncio.ensure_future(one.wait_for(f"leaver-{n}")) for one in double],
                    return_when=asyncio.FIRST_COMPLETED,
                )

    await asyncio.gather(*(come_and_go(n) for n in range(100)))
    await assert_nothing_is_left(served, replicas)
    for model in MODELS:
        assert_complete(await stream(served.url, chat(model, f"calm-{model}")), f"calm-{model}")
