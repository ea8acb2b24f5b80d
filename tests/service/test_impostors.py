"""What listens at a worker's address need not be an engine: it is never chosen, says why, and harms nobody."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from time import monotonic
from typing import Any

import httpx
import pytest

from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import LOOK_AGAIN, PATIENCE, Gateway, config, pool
from tests.service.talk import assert_complete, chat, post, stream

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\n"
HTML = b"content-type: text/html\r\ncontent-length: 15\r\n\r\n<html>It works!"
CHUNKED = OK + b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
REDIRECT = b"HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
SSH = b"SSH-2.0-OpenSSH_9.6\r\n"
TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x46"
EMPTY = OK + b"content-length: 0\r\n\r\n"
ENDLESS_HEADER = OK + b"x: " + b"x" * 10_000_000
PIECE = b"10000\r\n" + b" " * 65_536 + b"\r\n"


def says(*answers: bytes, then: bytes = b"") -> Serve:
    """One answer a request, the last one again and again; then `then` without end, if there is any."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(answers[min("/v1/models" in head.split(b"\r\n")[0].decode(), len(answers) - 1)])
        await writer.drain()
        while then:
            writer.write(then)
            await writer.drain()

    return serve


async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def greets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As sshd does, before it has heard anything, and after."""
    writer.write(SSH)
    await reader.readline()
    writer.write(b"Invalid SSH identification string.\r\n")
    await writer.drain()


IMPOSTORS: dict[str, tuple[Serve, str]] = {
    "html": (says(OK + HTML), "the model 'life' is not listed"),
    "redirect": (says(REDIRECT), "/health answers 307"),
    "http-1.0": (says(b"HTTP/1.0 404 File not found\r\n\r\n"), "/health answers 404"),
    "empty": (says(EMPTY), "the model 'life' is not listed"),
    "ssh": (greets, "its answer is broken: "),
    "tls": (says(TLS_ALERT), "its answer is broken: illegal"),
    "endless-header": (says(ENDLESS_HEADER), "its answer is broken: "),
    "endless-body": (says(CHUNKED, then=PIECE), "its answer is broken: the answer is longer than"),
    "huge-list": (says(EMPTY, OK + b"content-length: 50000000\r\n\r\n" + b" " * 50_000_000), "the answer is longer"),
    "chunked-garbage": (says(CHUNKED + b"no number\r\n"), "its answer is broken: illegal chunk header"),
    "hangs": (hangs, "it does not answer in time"),
    "closes": (says(b""), "its answer is broken: Server disconnected"),
}


@asynccontextmanager
async def listening(serves: dict[str, Serve]) -> AsyncIterator[dict[str, str]]:
    """Addresses by name."""
    tasks: set[asyncio.Task[Any]] = set()

    def serve_with(serve: Serve) -> Serve:
        async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            try:
                await serve(reader, writer)
            except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                pass
            finally:
                tasks.discard(task)
                writer.close()

        return guarded

    servers = {name: await asyncio.start_server(serve_with(serve), "127.0.0.1", 0) for name, serve in serves.items()}
    try:
        yield {name: f"http://127.0.0.1:{one.sockets[0].getsockname()[1]}" for name, one in servers.items()}
    finally:
        for server in servers.values():
            server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.sleep(0)


@contextmanager
def on_host(host: Host, serves: dict[str, Serve]) -> Iterator[dict[str, str]]:
    """The same, beside the doubles."""
    stack = AsyncExitStack()
    yield host.run(stack.enter_async_context(listening(serves)))
    host.run(stack.aclose())


@pytest.fixture(scope="module")
def honest(host: Host) -> Iterator[VllmDouble]:
    double = host.add(VllmDouble("life"))
    yield double
    host.remove(double)


async def row_of(served: Gateway, url: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = monotonic() + PATIENCE
    async with httpx.AsyncClient() as client:
        while True:
            rows = (await client.get(f"{served.url}/admin/workers")).json()["data"]
            row = next(row for row in rows if row["url"] == url)
            if holds(row):
                return row
            assert monotonic() < deadline, (url, row["state"], row["reason"])
            await asyncio.sleep(LOOK_AGAIN)


async def test_they_are_never_chosen_and_say_why(
    gateway: Callable[..., Gateway], host: Host, honest: VllmDouble
) -> None:
    other = host.add(VllmDouble("another-model"))
    try:
        with on_host(host, {name: serve for name, (serve, _) in IMPOSTORS.items()}) as urls:
            expected = {urls[name]: reason for name, (_, reason) in IMPOSTORS.items()}
            expected |= {
                other.url: "the model 'life' is not listed",
                urls["ssh"].replace("http://", "https://"): "no TLS connection can be made: ",
                "http://nowhere.invalid:8000": "its name cannot be resolved",
                "http://127.0.0.1:9": "it refuses connections",
            }
            settings = pool(honest)
            settings["workers"] += expected
            served = gateway(config({"life": settings})).wait_workers(1)
            for number in range(20):
                assert_complete(await stream(served.url, chat("life", f"among-{number}")), f"among-{number}")
            for url, reason in expected.items():
                row = await row_of(served, url, lambda row, reason=reason: reason in row["reason"])
                assert not row["ready"]
                assert row["in_flight"] == 0
                assert len(row["reason"]) < 200
            assert (await served.metrics()).value("thinkgate_worker_ready") == 1
    finally:
        host.remove(other)


STREAM = b"content-type: text/event-stream\r\n"
TURNCOATS: dict[str, bytes] = {
    "ssh": SSH,
    "tls": TLS_ALERT,
    "html": OK + HTML,
    "redirect": REDIRECT,
    "no-key": b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n",
    "endless-header": ENDLESS_HEADER,
    "endless-interim": b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000,
    "empty": EMPTY,
    "empty-stream": OK + STREAM + b"content-length: 0\r\n\r\n",
    "http-1.0": b"HTTP/1.0 200 OK\r\n" + HTML,
    "chunked-garbage": OK + STREAM + b"transfer-encoding: chunked\r\n\r\nno number\r\n",
    "no-events": OK + STREAM + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "short": OK + STREAM + b"content-length: 1000\r\n\r\ndata: {",
}
CARD = json.dumps({"object": "list", "data": [{"id": "life"}]}).encode()
CANARY = b'data: {"choices":[{"delta":{"content":"Hello"},"finish_reason":"length"}]}\n\ndata: [DONE]\n\n'


def turncoat(said: bytes) -> Serve:
    """Well in every check, and then this."""

    def answer(head: bytes, body: bytes) -> bytes:
        path = head.split(b" ")[1]
        if path == b"/health":
            return EMPTY
        if path == b"/v1/models":
            return OK + b"content-length: %d\r\n\r\n" % len(CARD) + CARD
        if path != b"/v1/chat/completions":
            return said if b"#double" in body else b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
        return said if b"#double" in body else OK + STREAM + b"content-length: %d\r\n\r\n" % len(CANARY) + CANARY

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lengths = [line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            body = await reader.readexactly(int(lengths[0])) if lengths else b""
            told = answer(head, body)
            writer.write(told)
            await writer.drain()
            if told is said:
                return

    return serve


CASES = [("chat", name) for name in TURNCOATS] + [
    ("passed", name) for name in ("html", "redirect", "empty-stream", "chunked-garbage", "no-events", "short")
]
PATHS = {"chat": "/v1/chat/completions", "passed": "/v1/completions"}


@pytest.fixture(scope="module")
def turned(gateway: Callable[..., Gateway], host: Host, honest: VllmDouble) -> Iterator[Gateway]:
    """A pool for each case: an engine, and something that only looks like one."""
    with on_host(host, {f"{kind}-{name}": turncoat(TURNCOATS[name]) for kind, name in CASES}) as urls:
        pools: dict[str, dict[str, Any]] = {}
        for name, url in urls.items():
            model = name.replace(".", "-")
            pools[model] = pool(honest, model=model, upstream_model="life", selection="rotation")
            pools[model]["workers"] = [honest.url, url]
        yield gateway(config(pools)).wait_workers(2 * len(pools))


@pytest.mark.parametrize(("kind", "name"), CASES)
async def test_one_that_turns_out_to_be_none_is_left_alone_and_no_client_sees_it(
    turned: Gateway, honest: VllmDouble, kind: str, name: str
) -> None:
    model = f"{kind}-{name}".replace(".", "-")
    for number in range(12):
        key = f"{model}-{number}"
        body = chat(model, key)
        if kind == "passed":
            body = {"model": model, "prompt": body["messages"][0]["content"], "stream": True}
        answer = await post(turned.url, body, PATHS[kind])
        assert answer.status_code == 200, answer.text
        assert answer.text.endswith("data: [DONE]\n\n")
        assert len(honest.of(key)) == 1
    metrics = await turned.metrics()
    assert metrics.value("thinkgate_worker_verdicts_total", pool=model, verdict="failure") >= 1
