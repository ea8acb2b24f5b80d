"""The pooled HTTP/1.1 client of the streaming path: one POST out, bytes back as they arrive.

Small on purpose: asyncio transports, httptools for the grammar, TLS by asyncio. No redirects, no cookies, no proxies,
no retries but one (below). Health checks, metrics and anything slow go through httpx instead.

A connection that an engine closed while it lay idle fails on its first use. Such a request is sent once more on a
fresh connection, and only if not one byte of an answer had come: then the engine cannot have begun.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from urllib.parse import urlsplit

from gateway.upstream_connection import Connection, UpstreamError, UpstreamFault

__all__ = ["Client", "PooledClient", "Response", "Target", "Terms", "UpstreamError", "UpstreamFault", "read_whole"]


class Target:
    """Where a worker listens. `base` is the path in front of /v1, empty for most."""

    __slots__ = ("authority", "base", "host", "is_tls", "port")

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.is_tls = parts.scheme == "https"
        self.host = parts.hostname or ""
        self.port = parts.port or (443 if self.is_tls else 80)
        self.base = parts.path.rstrip("/")
        self.authority = parts.netloc


class End(StrEnum):
    """How a response is let go."""

    FINISHED = "finished"
    """All that matters has come: the connection may go back once its last bytes are read."""
    ABANDONED = "abandoned"
    """The engine must stop now: the connection is closed."""


class Response(Protocol):
    """An answer whose head has come. `read` gives what arrived since the last call, b"" at the end."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    async def read(self) -> bytes: ...
    def watch(self, idle: float) -> None: ...
    def end(self, how: End) -> None: ...


@dataclass(frozen=True, slots=True)
class Terms:
    """How connections are kept: seconds to open one, seconds one may lie unused, how many there may be."""

    connect: float
    idle: float
    limit: int


class Client(Protocol):
    """One worker's client. The streaming path knows nothing else of HTTP."""

    async def post(
        self, path: str, headers: Mapping[str, str], body: bytes, sent: asyncio.Event | None = None
    ) -> Response:
        """Send one request, wait for the head of its answer. `sent` is set once it is on its way, and such a request is
        never sent twice. Raises UpstreamError."""
        ...

    def retune(self, terms: Terms) -> None: ...
    def close(self) -> None: ...


MAX_REPLY = 64 * 1024 * 1024
"""Bytes of an unstreamed reply (an error, token ids, embeddings) that are kept; a larger one is a failure."""


async def read_whole(response: Response) -> bytes:
    """An unstreamed reply. Raises UpstreamError, also for one beyond `MAX_REPLY`."""
    parts: list[bytes] = []
    size = 0
    while data := await response.read():
        size += len(data)
        if size > MAX_REPLY:
            raise UpstreamError(UpstreamFault.NOT_HTTP, f"the engine's reply is larger than {MAX_REPLY} bytes")
        parts.append(data)
    return b"".join(parts)


class PooledClient:
    """Connections to one worker: last used first."""

    def __init__(self, url: str, terms: Terms, tls: ssl.SSLContext | None = None) -> None:
        self._target = Target(url)
        self._terms = terms
        self._tls = tls if self._target.is_tls else None
        self._free: deque[Connection] = deque()
        self._open: set[Connection] = set()
        self._connecting = 0
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def connections(self) -> int:
        """Open connections, used and idle."""
        return len(self._open)

    async def post(
        self, path: str, headers: Mapping[str, str], body: bytes, sent: asyncio.Event | None = None
    ) -> Response:
        """As `Client` has it."""
        request = self._encode(path, headers, body)
        connection = self._take_idle()
        if connection is not None:
            try:
                return await self._exchange(connection, request, sent)
            except UpstreamError as error:
                if not error.before_first_byte or sent is not None:
                    raise
        return await self._exchange(await self._connect(), request, sent)

    def retune(self, terms: Terms) -> None:
        """Other terms for what is opened or given back from now on; running answers keep their connections."""
        self._terms = terms

    def close(self) -> None:
        """Close every connection; running answers end with an UpstreamError."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in tuple(self._open):
            connection.abort()

    async def _exchange(self, connection: Connection, request: bytes, sent: asyncio.Event | None) -> _PooledResponse:
        response = _PooledResponse(self, connection)
        try:
            connection.send(request)
            if sent is not None:
                sent.set()
            await connection.head()
        except BaseException:
            response.end(End.ABANDONED)
            raise
        return response

    def _encode(self, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = [f"POST {self._target.base}{path} HTTP/1.1", f"host: {self._target.authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += ["content-type: application/json", f"content-length: {len(body)}", "", ""]
        return "\r\n".join(lines).encode("latin-1") + body  # one write: head and body leave in one packet

    def _take_idle(self) -> Connection | None:
        now = asyncio.get_running_loop().time()
        while self._free:
            connection = self._free.pop()
            if connection.is_usable and now - connection.idle_since < self._terms.idle:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> Connection:
        if len(self._open) + self._connecting >= self._terms.limit:
            message = f"all {self._terms.limit} connections to the worker are in use"
            raise UpstreamError(UpstreamFault.NO_CONNECTION, message)
        loop = asyncio.get_running_loop()
        self._connecting += 1
        try:
            async with asyncio.timeout(self._terms.connect):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._open.discard), self._target.host, self._target.port, ssl=self._tls
                )
        except TimeoutError as error:
            raise UpstreamError(UpstreamFault.CONNECT, "connecting took too long") from error
        except OSError as error:
            raise UpstreamError(UpstreamFault.CONNECT, error.strerror or "cannot connect") from error
        finally:
            self._connecting -= 1
        self._open.add(connection)
        return connection

    def give_back(self, connection: Connection) -> None:
        """A connection whose exchange is complete."""
        if not connection.is_usable:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._free.append(connection)
        if self._sweeper is None:
            self._sweeper = loop.call_later(self._terms.idle, self._sweep)

    def _sweep(self) -> None:
        """Close what lay idle too long: the oldest stand on the left."""
        loop = asyncio.get_running_loop()
        while self._free and loop.time() - self._free[0].idle_since >= self._terms.idle:
            self._free.popleft().abort()
        self._sweeper = loop.call_later(self._terms.idle, self._sweep) if self._free else None


class _PooledResponse:
    """One exchange on a pooled connection."""

    __slots__ = ("_client", "_connection", "_over")

    DRAIN = 1.0
    """Seconds the last bytes of a finished answer may take before the connection is closed instead of kept."""

    def __init__(self, client: PooledClient, connection: Connection) -> None:
        self._client = client
        self._connection = connection
        self._over = False

    @property
    def status(self) -> int:
        return self._connection.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._connection.headers

    async def read(self) -> bytes:
        """Raises UpstreamError if the answer breaks off, is not HTTP, or is silent for longer than `watch` allows."""
        return await self._connection.read()

    def watch(self, idle: float) -> None:
        """From now on, `idle` seconds without a byte are a failure. One timer an answer, none a token."""
        self._connection.watch(idle)

    def end(self, how: End) -> None:
        """Let the connection go; safe to call twice. Never waits."""
        if self._over:
            return
        self._over = True
        if how is End.ABANDONED:
            self._connection.abort()
        else:
            self._connection.drain(self.DRAIN, self._client.give_back)
