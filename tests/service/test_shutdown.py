"""The end of the process: what runs may finish; what cannot is told so, once, and its engine stops."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.doubles.exchange import End
from tests.doubles.llamaserver import LlamaDouble
from tests.doubles.script import ask
from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import Socket, assert_complete, assert_error, chat, post, socket_to, stream

ENDLESS: dict[str, Any] = {"think": 20_000, "delay_ms": 2}
KEYS = ("streamed-v", "streamed-l", "several", "unary", "mute", "passed", "passed-whole")
EXIT = 20
"""Seconds a process may take to end once its drain is over, on a busy machine."""


@pytest.fixture
def engines(host: Host) -> Iterator[tuple[VllmDouble, LlamaDouble]]:
    vllm, llama = host.add(VllmDouble("v")), host.add(LlamaDouble("l"))
    yield vllm, llama
    host.remove(vllm)
    host.remove(llama)


def settings(vllm: VllmDouble, llama: LlamaDouble, drain: float) -> dict[str, Any]:
    """A gateway of two engines, and of a pool whose worker never comes."""
    never = pool(vllm, model="never", workers=["http://127.0.0.1:9"], timeouts={"queue": 600, "connect": 1})
    pools = {"vllm": pool(vllm), "never": never, "llama": pool(llama)}
    return config(pools, server={"drain": drain}, logs={"format": "json"})


def completion(key: str, *, streamed: bool) -> dict[str, Any]:
    return {"model": "v", "prompt": ask(key, ans=20_000, delay_ms=2), "stream": streamed}


def outcomes(one: Gateway) -> Counter[str]:
    """What the log says became of the flights."""
    lines = [json.loads(line) for line in one.stderr_text().splitlines() if line.startswith("{")]
    return Counter(line["outcome"] for line in lines if line["event"] == "flight")


async def ended(one: Gateway) -> int:
    return await asyncio.to_thread(one.process.wait, EXIT)


def assert_shut_down(error: dict[str, Any]) -> None:
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("server_error", "shutting_down")


async def test_what_cannot_finish_is_told_so_once_and_stops_its_engine(
    gateway: Callable[..., Gateway], engines: tuple[VllmDouble, LlamaDouble]
) -> None:
    vllm, llama = engines
    one = gateway(settings(vllm, llama, 1)).wait_workers(2)
    async with asyncio.TaskGroup() as group:
        streams = [
            group.create_task(stream(one.url, chat(model, f"streamed-{model}", **ENDLESS))) for model in ("v", "l")
        ]
        several = group.create_task(stream(one.url, chat("l", "several", body={"n": 2}, **ENDLESS)))
        wholes = [
            group.create_task(post(one.url, chat("v", "unary", stream=False, **ENDLESS))),
            group.create_task(post(one.url, chat("v", "mute", first_ms=600_000))),
            group.create_task(post(one.url, chat("never", "queued"))),
            group.create_task(post(one.url, completion("passed-whole", streamed=False), "/v1/completions")),
        ]
        passed = group.create_task(post(one.url, completion("passed", streamed=True), "/v1/completions"))
        for key in ("streamed-v", "unary", "passed", "passed-whole"):
            await vllm.wait_for(key, tokens=20)
        await vllm.wait_for("mute")
        for key, legs in (("streamed-l", 1), ("several", 2)):
            await llama.wait_for(key, tokens=20, legs=legs)
        await one.wait_metric("thinkgate_flights_in_flight", {"pool": "never"}, lambda count: count == 1)
        one.process.send_signal(signal.SIGTERM)
    for told in (*(done.result() for done in streams), several.result()):
        assert told.status == 200
        assert told.thought, "it was in the midst of it"
        assert len(told.errors) == 1
        assert told.events[-1] == {"error": told.errors[0]}
        assert_shut_down(told.errors[0])
        assert not told.done
        assert told.reasons == []
    for done in wholes:
        answer = done.result()
        assert_error(answer, 503, "server_error", "shutting_down")
        assert answer.headers["connection"] == "close"
        assert 1 <= int(answer.headers["retry-after"]) <= 60
    blocks = passed.result().text.rstrip().split("\n\n")
    assert sum('"error"' in block for block in blocks) == 1
    assert_shut_down(json.loads(blocks[-1].removeprefix("data: "))["error"])
    assert await ended(one) == 0
    assert (vllm.active, llama.active) == ([], [])
    legs = [exchange for double in engines for key in KEYS for exchange in double.of(key)]
    assert [exchange.end for exchange in legs] == [End.ABORTED] * 8
    assert outcomes(one) == {"shut_down": 6}
    vllm.pardon("not-streamed")


async def test_who_comes_while_it_drains_is_sent_elsewhere_and_who_runs_finishes(
    gateway: Callable[..., Gateway], engines: tuple[VllmDouble, LlamaDouble]
) -> None:
    vllm, llama = engines
    one = gateway(settings(vllm, llama, 60)).wait_workers(2)
    async with (
        httpx.AsyncClient(base_url=one.url) as kept,
        httpx.AsyncClient(base_url=one.url) as fresh,
        asyncio.TaskGroup() as group,
    ):
        assert (await kept.get("/readyz")).status_code == 200
        running = group.create_task(stream(one.url, chat("v", "runs", think=24, stall_after=20)))
        exchange = await vllm.wait_for("runs", tokens=20)
        one.process.send_signal(signal.SIGTERM)
        while (answer := await kept.get("/readyz")).status_code == 200:
            pass  # until the signal has come
        assert (answer.status_code, answer.json()["draining"], answer.json()["ready"]) == (503, True, False)
        for client in (kept, fresh):
            for path in ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/route"):
                refused = await client.post(path, json=chat("v", "late"))
                assert_error(refused, 503, "server_error", "shutting_down")
                assert refused.headers["connection"] == "close"
                assert 1 <= int(refused.headers["retry-after"]) <= 60
                assert refused.headers["x-request-id"]
            assert_error(await client.get("/v1/models"), 503, "server_error", "shutting_down")
            assert (await client.get("/livez")).status_code == 200
            assert "thinkgate_flights_in_flight" in (await client.get("/metrics")).text
            assert (await client.get("/admin/workers")).status_code == 200
        assert vllm.of("late") == []
        assert one.process.poll() is None
        exchange.release()
    assert_complete(running.result(), "runs")
    assert await ended(one) == 0
    assert outcomes(one) == {"answered": 1}


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_does_not_wait_for_the_drain(
    gateway: Callable[..., Gateway], engines: tuple[VllmDouble, LlamaDouble], second: signal.Signals
) -> None:
    vllm, llama = engines
    one = gateway(settings(vllm, llama, 600)).wait_workers(2)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(stream(one.url, chat("v", f"hurried-{second.name}", **ENDLESS)))
        await vllm.wait_for(f"hurried-{second.name}", tokens=20)
        one.process.send_signal(signal.SIGTERM)
        async with httpx.AsyncClient(base_url=one.url) as client:
            while (await client.get("/readyz")).status_code == 200:
                pass  # two signals at once may be delivered as one
        one.process.send_signal(second)
    [error] = running.result().errors
    assert_shut_down(error)
    assert await ended(one) == 0
    assert vllm.active == []


async def test_clients_that_neither_read_nor_write_do_not_hold_it_up(
    gateway: Callable[..., Gateway], engines: tuple[VllmDouble, LlamaDouble]
) -> None:
    vllm, _ = engines
    limits = {"thinking": {"max_cap": 1_000_000}, "context_window": 10_000_000}
    told = config({"vllm": pool(vllm, **limits)}, server={"drain": 1}, logs={"format": "json"})
    one = gateway(told).wait_workers(1)
    async with socket_to(one.port, limit=1024) as deaf, socket_to(one.port) as mute, socket_to(one.port):
        body = chat("v", "deaf", think=2_000_000, burst=64, body={"thinking_budget": 1_000_000})
        await deaf.send_chat(body)
        await half_a_request(mute)
        exchange = await vllm.wait_for("deaf", tokens=1)
        await vllm.until(lambda: bool(exchange.paused), "a full socket")
        one.process.send_signal(signal.SIGTERM)
        assert await ended(one) == 0
        assert b"shutting_down" in await mute.read_all()
    assert (await vllm.wait_end(exchange)).end is End.ABORTED
    assert outcomes(one) == {"shut_down": 1}


async def half_a_request(client: Socket) -> None:
    await client.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\ncontent-length: 1000\r\n\r\n{")


async def test_with_nothing_to_do_it_ends_at_once(
    gateway: Callable[..., Gateway], engines: tuple[VllmDouble, LlamaDouble]
) -> None:
    one = gateway(settings(*engines, 600)).wait_workers(2)
    async with httpx.AsyncClient(base_url=one.url) as idle:
        await idle.get("/livez")
        one.process.send_signal(signal.SIGTERM)
        assert await ended(one) == 0
