"""A client that leaves stops the engine: streamed or not, before the first token or in the middle of a thought."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

import pytest

from tests.doubles.engine import Double
from tests.doubles.exchange import End
from tests.harness import Gateway
from tests.service.talk import assert_complete, chat, socket_to, stream

ENDLESS: dict[str, Any] = {"think": 100_000, "delay_ms": 1}
PROMPTLY = 5.0
"""Seconds, on a busy machine; a gateway that does not close at all takes for ever."""


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "unary"])
class TestInMidThought:
    async def test_the_engine_is_stopped(self, served: Gateway, model: str, double: Double, streamed: bool) -> None:
        key = f"leaves-{streamed}-{model}"
        async with socket_to(served.port) as client:
            await client.send_chat(chat(model, key, stream=streamed, **ENDLESS))
            exchange = await double.wait_for(key, tokens=30)
            if streamed:
                await client.read_until(b"reasoning_content", 20)
            left = monotonic()
        await double.wait_end(exchange)
        assert exchange.end is End.ABORTED
        assert exchange.detected is not None
        assert exchange.detected - left < PROMPTLY
        assert 30 <= exchange.tokens < 100_000

    async def test_a_reset_counts_as_leaving(self, served: Gateway, model: str, double: Double, streamed: bool) -> None:
        key = f"resets-{streamed}-{model}"
        async with socket_to(served.port) as client:
            await client.send_chat(chat(model, key, stream=streamed, **ENDLESS))
            exchange = await double.wait_for(key, tokens=30)
            client.leave()
            await double.wait_end(exchange)
        assert exchange.end is End.ABORTED

    async def test_an_engine_that_is_silent_is_stopped_too(
        self, served: Gateway, model: str, double: Double, streamed: bool
    ) -> None:
        """Nothing is written to the client meanwhile, so a failing write cannot be what tells the gateway."""
        key = f"silent-{streamed}-{model}"
        async with socket_to(served.port) as client:
            await client.send_chat(chat(model, key, stream=streamed, stall_after=10))
            exchange = await double.wait_for(key, tokens=10)
        await double.wait_end(exchange)
        assert (exchange.end, exchange.tokens) == (End.ABORTED, 10)

    async def test_before_the_first_token(self, served: Gateway, model: str, double: Double, streamed: bool) -> None:
        key = f"early-{streamed}-{model}"
        async with socket_to(served.port) as client:
            await client.send_chat(chat(model, key, stream=streamed, first_ms=600_000))
            exchange = await double.wait_for(key)
        await double.wait_end(exchange)
        assert (exchange.end, exchange.tokens) == (End.ABORTED, 0)

    async def test_before_the_engines_status_line(
        self, served: Gateway, model: str, double: Double, streamed: bool
    ) -> None:
        key = f"heads-{streamed}-{model}"
        async with socket_to(served.port) as client:
            await client.send_chat(chat(model, key, stream=streamed, headers_ms=600_000))
            exchange = await double.wait_for(key)
        await double.wait_end(exchange)
        assert exchange.end is End.ABORTED


async def test_it_is_counted_and_nothing_stays_in_flight(served: Gateway, model: str, double: Double) -> None:
    labels = {"pool": {"v": "vllm", "s": "sglang", "l": "llama"}[model[0]], "outcome": "client_gone"}
    before = (await served.metrics()).value("thinkgate_requests_total", **labels)
    async with socket_to(served.port) as client:
        await client.send_chat(chat(model, f"gone-{model}", **ENDLESS))
        exchange = await double.wait_for(f"gone-{model}", tokens=5)
    await double.wait_end(exchange)
    await served.wait_grounded()
    await served.wait_metric("thinkgate_requests_total", labels, lambda value: value == before + 1)


async def test_the_worker_serves_on(served: Gateway, model: str, double: Double) -> None:
    for n in range(6):
        key = f"worker-{n}-{model}"
        async with socket_to(served.port) as client:
            await client.send_chat(chat(model, key, **ENDLESS))
            await double.wait_for(key, tokens=3)
    assert_complete(await stream(served.url, chat(model, f"next-{model}")), f"next-{model}")
    await double.wait_idle()


async def test_many_at_once(served: Gateway, model: str, double: Double) -> None:
    async def come_and_go(key: str) -> None:
        async with socket_to(served.port) as client:
            await client.send_chat(chat(model, key, **ENDLESS))
            await client.read_until(b"reasoning_content", 3)

    await asyncio.gather(*(come_and_go(f"crowd-{n}-{model}") for n in range(30)))
    await double.wait_idle()
    crowd = [exchange for exchange in double.aborted if exchange.key.startswith("crowd-")]
    assert len(crowd) == 30
    await served.wait_grounded()


async def test_leaving_after_the_end_is_no_abort(served: Gateway, model: str, double: Double) -> None:
    key = f"polite-{model}"
    async with socket_to(served.port) as client:
        await client.send_chat(chat(model, key))
        await client.read_until(b"data: [DONE]")
    exchange = double.of(key)[0]
    assert (await double.wait_end(exchange)).end is End.FINISHED


async def test_a_client_that_does_not_read_stops_the_reading_of_the_engine(
    served: Gateway, double: Double, model: str
) -> None:
    """Back-pressure is the socket's: what the client does not take is not heaped up in the gateway."""
    key = f"slow-{model}"
    async with socket_to(served.port, limit=1024) as client:
        await client.send_chat(chat(model, key, think=2_000_000, burst=64, body={"thinking_budget": 1_000_000}))
        exchange = await double.wait_for(key, tokens=1)
        await double.until(lambda: bool(exchange.paused) or not double.active, "a full socket")
        assert exchange.paused
    await double.wait_end(exchange)
    assert exchange.end is End.ABORTED
