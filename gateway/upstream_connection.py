"""One HTTP/1.1 connection to an engine: an asyncio protocol with httptools behind it, one exchange at a time.

It turns a socket into "head, then reads" with back-pressure, an idle watch and an immediate abort. Which connection
serves which request is `upstream`'s business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import cast

import httptools

HIGH_WATER = 256 * 1024
"""Bytes an engine may be ahead of a client that does not read, before its socket is no longer read either."""


MAX_HEAD = 64 * 1024
"""Bytes the head of an answer may have: an endless header must not fill the memory."""


class UpstreamFault(StrEnum):
    """What went wrong between the gateway and an engine."""

    CONNECT = "connect"
    NO_CONNECTION = "no_connection"
    CLOSED = "closed"
    TIMEOUT = "timeout"
    NOT_HTTP = "not_http"


class UpstreamError(Exception):
    """A transport failure. `before_first_byte`: not one byte of an answer had come."""

    def __init__(self, fault: UpstreamFault, message: str, *, before_first_byte: bool = False) -> None:
        super().__init__(message)
        self.fault = fault
        self.before_first_byte = before_first_byte


class Connection(asyncio.Protocol):
    """Calls `on_lost` with itself once, when the socket is gone."""

    def __init__(self, on_lost: Callable[[Connection], None]) -> None:
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self.idle_since = 0.0
        self._reset()

    def _reset(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._raw_headers: dict[str, str] = {}
        self._chunks: list[bytes] = []
        self._buffered = 0
        self._has_head = False
        self._head_size = 0
        self._is_complete = False
        self._is_busy = False
        self._got_bytes = False
        self._is_paused = False
        self._error: UpstreamError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle = 0.0
        self._last_data = 0.0
        self._on_drained: Callable[[Connection], None] | None = None
        self._drain_timer: asyncio.TimerHandle | None = None
        self._must_close = False

    # --- what the pool and the response use

    @property
    def is_usable(self) -> bool:
        """May another request be sent?"""
        transport = self._transport
        return transport is not None and not transport.is_closing() and not self._is_busy and not self._must_close

    @property
    def status(self) -> int:
        return self._parser.get_status_code()

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""
        return self._raw_headers

    def send(self, request: bytes) -> None:
        assert self._transport is not None
        self._reset()
        self._is_busy = True
        self._transport.write(request)

    async def head(self) -> None:
        """Wait for the head of the answer."""
        while not self._has_head:
            if self._error is not None:
                raise self._error
            await self._wait()

    async def read(self) -> bytes:
        """All of the body that arrived since the last call; b"" at its end."""
        while True:
            if self._chunks:
                data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
                self._chunks.clear()
                self._buffered = 0
                self._resume()
                return data
            if self._is_complete:
                return b""
            if self._error is not None:
                raise self._error
            await self._wait()

    def watch(self, idle: float) -> None:
        self._idle = idle
        self._last_data = self._loop.time()
        if self._idle_timer is None:
            self._idle_timer = self._loop.call_later(idle, self._check_idle)

    def drain(self, patience: float, then: Callable[[Connection], None]) -> None:
        """Read and forget what is left of the answer, then call `then`; give up after `patience` seconds."""
        self._stop_watch()
        if self._is_complete:
            self._is_busy = False
            then(self)
            return
        if self._error is not None:
            self.abort()
            return
        self._on_drained = then
        self._chunks.clear()
        self._buffered = 0
        self._resume()
        self._drain_timer = self._loop.call_later(patience, self.abort)

    def abort(self) -> None:
        """Close at once: the engine sees it as the client's disconnect."""
        self._stop_watch()
        if self._drain_timer is not None:
            self._drain_timer.cancel()
            self._drain_timer = None
        self._on_drained = None
        if self._transport is not None and not self._transport.is_closing():
            self._transport.abort()
            self._on_lost(self)  # its place is free now, not when the loop comes round to `connection_lost`

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._got_bytes = True
        self._last_data = self._loop.time()
        if not self._is_busy:  # bytes nobody asked for: this connection cannot be trusted
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(UpstreamFault.NOT_HTTP, f"the engine's answer is not HTTP: {error}")
            self.abort()
            return
        self._head_size += 0 if self._has_head else len(data)
        if self._head_size > MAX_HEAD:
            self._fail(UpstreamFault.NOT_HTTP, f"the head of the engine's answer is longer than {MAX_HEAD} bytes")
            self.abort()
            return
        if self._buffered > HIGH_WATER and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # a reset and a clean close mean the same here: the answer is complete, or it is not
        self._stop_watch()
        if self._is_busy and not self._is_complete:
            if self._has_head and self._ends_with_connection():
                self._is_complete = True
            elif self._error is None:
                reason = (
                    "the engine broke the connection off" if self._got_bytes else "the engine closed the connection"
                )
                self._fail(UpstreamFault.CLOSED, reason)
        if self._drain_timer is not None:
            self._drain_timer.cancel()
            self._drain_timer = None
        self._on_lost(self)
        self._wake()

    # --- httptools callbacks

    def on_message_begin(self) -> None:
        if self._is_complete:  # a second answer to one request: whose would it be?
            raise ValueError("bytes after the end of the answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._raw_headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() >= 200:  # 1xx are only interim
            self._has_head = True
            self._must_close = not self._parser.should_keep_alive()
        else:
            self._raw_headers.clear()

    def on_body(self, body: bytes) -> None:
        if self._on_drained is None:
            self._chunks.append(body)
            self._buffered += len(body)

    def on_message_complete(self) -> None:
        if not self._has_head:
            return
        self._is_complete = True
        self._stop_watch()
        if self._on_drained is not None:
            then, self._on_drained = self._on_drained, None
            if self._drain_timer is not None:
                self._drain_timer.cancel()
                self._drain_timer = None
            self._is_busy = False
            then(self)

    # --- inside

    def _ends_with_connection(self) -> bool:
        headers = self._raw_headers
        return "content-length" not in headers and "chunked" not in headers.get("transfer-encoding", "").lower()

    def _fail(self, fault: UpstreamFault, message: str) -> None:
        self._error = UpstreamError(fault, message, before_first_byte=not self._got_bytes)
        self._wake()

    def _check_idle(self) -> None:
        """An engine that may not write, because the client does not read, is not silent."""
        self._idle_timer = None
        now = self._loop.time()
        due = now + self._idle if self._is_paused or self._chunks else self._last_data + self._idle
        if due > now:
            self._idle_timer = self._loop.call_at(due, self._check_idle)
            return
        self._fail(UpstreamFault.TIMEOUT, f"the engine was silent for {self._idle:g} s")
        self.abort()

    def _stop_watch(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _resume(self) -> None:
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
