"""A worker that comes back may be another build: it is asked anew what it can do, and nothing else is disturbed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import httpx
import pytest

from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import LOOK_AGAIN, PATIENCE, Gateway, config, pool
from tests.service.talk import assert_complete, chat, stream


@pytest.fixture(scope="module")
def pair(host: Host) -> Iterator[list[VllmDouble]]:
    doubles = [host.add(VllmDouble("pair")) for _ in range(2)]
    yield doubles
    for double in doubles:
        host.remove(double)


@pytest.fixture(scope="module")
def liar(host: Host) -> Iterator[VllmDouble]:
    double = host.add(VllmDouble("liar", overruns=True))
    yield double
    host.remove(double)


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], pair: list[VllmDouble], liar: VllmDouble) -> Gateway:
    settings = [pool(pair[0], pair[1]), pool(liar)]
    for one in settings:
        one["format"] = "qwen3"
        one.pop("context_window")
    return gateway(config({"pair": settings[0], "liar": settings[1]})).wait_workers(3)


async def until_row(served: Gateway, double: VllmDouble, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = monotonic() + PATIENCE
    async with httpx.AsyncClient() as client:
        while True:
            rows = (await client.get(f"{served.url}/admin/workers")).json()["data"]
            [row] = [row for row in rows if row["url"] == double.url]
            if holds(row):
                return row
            assert monotonic() < deadline, row
            await asyncio.sleep(LOOK_AGAIN)


async def test_one_that_was_away_is_asked_anew(served: Gateway, pair: list[VllmDouble]) -> None:
    away, stays = pair
    known = await until_row(served, away, lambda row: bool(row["capabilities"]))
    assert (known["capabilities"]["native_cap"], known["capabilities"]["context"]) == (True, 32_768)
    away.down()
    await until_row(served, away, lambda row: not row["ready"])
    running = asyncio.create_task(stream(served.url, chat("pair", "meanwhile", think=24, stall_after=10)))
    exchange = await stays.wait_for("meanwhile", tokens=10)
    away.parser, away.version, away.context = False, "0.33.0", 4_096
    away.up()
    row = await until_row(served, away, lambda row: row["ready"])
    found = row["capabilities"]
    assert (found["native_cap"], found["version"], found["context"]) == (False, "0.33.0", 4_096)
    exchange.release()
    assert_complete(await running, "meanwhile")
    assert stays.of("meanwhile") == [exchange]


async def test_a_restart_between_two_polls_is_seen_by_its_start(served: Gateway, pair: list[VllmDouble]) -> None:
    """What runs goes on: nobody is ejected for it."""
    other = pair[1]
    await until_row(served, other, lambda row: row["capabilities"]["version"] == "0.32.0")
    ejections = (await served.metrics()).value("thinkgate_worker_ejections_total")
    running = asyncio.create_task(stream(served.url, chat("pair", "through", think=24, stall_after=10)))
    await asyncio.wait([asyncio.create_task(double.wait_for("through", tokens=10)) for double in pair],
                       return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
    other.version, other.context, other.began = "0.34.0", 8_192, other.began + 60
    row = await until_row(served, other, lambda row: row["capabilities"]["version"] == "0.34.0")
    assert (row["ready"], row["capabilities"]["context"]) == (True, 8_192)
    [exchange] = [exchange for double in pair for exchange in double.of("through")]
    exchange.release()
    assert_complete(await running, "through")
    assert (await served.metrics()).value("thinkgate_worker_ejections_total") == ejections


async def test_what_is_held_against_a_process_ends_with_it(served: Gateway, liar: VllmDouble) -> None:
    body = {"thinking_budget": 40}
    told = await stream(served.url, chat("liar", "lies", think=300, delay_ms=1, body=body))
    assert told.extension["thinking"]["ended_by"] == "cap"
    await until_row(served, liar, lambda row: row["capabilities"]["native_cap"] is False)
    liar.overruns, liar.began = False, liar.began + 60
    await until_row(served, liar, lambda row: row["capabilities"]["native_cap"] is True)
    told = await stream(served.url, chat("liar", "honest", think=300, delay_ms=1, body=body))
    assert "how=native" in told.headers["x-thinkgate-thinking-cap"]
    assert len(liar.of("honest")) == 1
