"""A raw HTTP server for tests of the upstream client: each connection behaves as a coroutine says, byte by byte."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from gateway.upstream import End, PooledClient, Response, Terms, UpstreamError, read_whole

PATIENCE = 5.0
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Peer:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.heads: list[bytes] = []
        self.left = asyncio.Event()

    async def request(self) -> bytes:
        """The body of the next request."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
        return await self.reader.readexactly(length)

    async def linger(self) -> None:
        """Say nothing more until the client closes."""
        await self.reader.read()

    async def gone(self) -> None:
        """Wait until the client has closed."""
        async with asyncio.timeout(PATIENCE):
            await self.left.wait()

    def reset(self) -> None:
        self.writer.transport.abort()


Behaviour = Callable[[Peer], Awaitable[None]]


class Engine:
    """Every connection goes to the next behaviour, the last one serves all further ones."""

    def __init__(self, *behaviours: Behaviour) -> None:
        self.behaviours = list(behaviours)
        self.peers: list[Peer] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.url = ""

    @property
    def requests(self) -> int:
        return sum(len(peer.heads) for peer in self.peers)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.append(task)
        peer = Peer(reader, writer)
        self.peers.append(peer)
        behaviour = self.behaviours[min(len(self.peers), len(self.behaviours)) - 1]
        try:
            await behaviour(peer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            peer.left.set()
            writer.transport.abort()


@asynccontextmanager
async def engine(*behaviours: Behaviour, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Engine]:
    served = Engine(*behaviours)
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0, ssl=tls)
    served.url = f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield served
    finally:
        server.close()
        for task in served.tasks:
            task.cancel()
        await asyncio.gather(*served.tasks, return_exceptions=True)


@asynccontextmanager
async def client(
    served: Engine, *, idle: float = 60, limit: int = 10, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[PooledClient]:
    """Afterwards no task, no timer and no connection of it is left."""
    before = asyncio.all_tasks() | set(served.tasks)
    pooled = PooledClient(served.url, Terms(PATIENCE, idle, limit), tls)
    try:
        yield pooled
    finally:
        pooled.close()
        await until(lambda: pooled.connections == 0)
    await until(lambda: asyncio.all_tasks() - before <= set(served.tasks))
    timers = [timer for timer in asyncio.get_running_loop()._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
    assert not [timer for timer in timers if "gateway" in repr(timer)]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


async def post(pooled: PooledClient, body: bytes = b"{}") -> Response:
    return await pooled.post("/v1/x", {"x-a": "b"}, body)


async def fetch(pooled: PooledClient) -> bytes:
    response = await post(pooled)
    body = await read_whole(response)
    response.end(End.FINISHED)
    return body


async def fails(pooled: PooledClient) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await fetch_or_abandon(pooled)
    return caught.value


async def fetch_or_abandon(pooled: PooledClient) -> None:
    response = await post(pooled)
    try:
        await read_whole(response)
    finally:
        response.end(End.ABANDONED)


def answers(*parts: bytes, close: bool = False) -> Behaviour:
    """Answer every request with these writes."""

    async def behave(peer: Peer) -> None:
        while True:
            await peer.request()
            for part in parts:
                peer.writer.write(part)
                await peer.writer.drain()
            if close:
                return

    return behave


async def half_an_answer(peer: Peer) -> None:
    await peer.request()
    peer.writer.write(CHUNKED + b"1\r\na\r\n")
    await peer.linger()


async def silent(peer: Peer) -> None:
    await peer.request()
    await peer.linger()
