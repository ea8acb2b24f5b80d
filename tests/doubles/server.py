"""The ground every double stands on: connections that keep to HTTP/1.1, or break it exactly where a script says.

All doubles of a test run live on one event loop in one thread (`Host`), so a test may block, run its own loop or
end it. Each connection belongs to one double; it reads a request, records it as an `Exchange`
and hands both to the double.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Coroutine
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tests.doubles.exchange import Exchange
from tests.doubles.http1 import LAST_CHUNK, BadRequest, Head, chunk, head_bytes, parse_head, take_chunked

if TYPE_CHECKING:
    from tests.doubles.engine import Double

T = TypeVar("T")
D = TypeVar("D", bound="Double")
PATIENCE: Final = 20.0
"""Seconds any wait of a test may take before it fails: a bound, never a measure of speed."""


class Host:
    """One thread, one event loop, all doubles."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.doubles: list[Double] = []
        self.seen: Counter[str] = Counter()
        self._thread = Thread(target=self.loop.run_forever, name="doubles", daemon=True)
        self._thread.start()

    def add(self, double: D) -> D:
        """Start a double here."""
        double.host = self
        self.run(double.listen())
        self.doubles.append(double)
        return double

    def remove(self, double: Double) -> None:
        self.run(double.close())
        self.doubles.remove(double)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this on the doubles' loop, and block until it is done."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE + 5)

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this on the doubles' loop, and await it from another."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    def close(self) -> None:
        for double in list(self.doubles):
            self.remove(double)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)
        self.loop.close()


class Connection(asyncio.Protocol):
    """One socket from the gateway. Serves one request at a time; a pipelined one waits, and is a violation."""

    def __init__(self, double: Double, number: int) -> None:
        self.double = double
        self.number = number
        self.served = 0
        self.exchange: Exchange | None = None
        self.transport: asyncio.Transport
        self._buffer = bytearray()
        self._head: Head | None = None
        self._task: asyncio.Task[None] | None = None
        self._wire: Wire | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.double.opened(self)
        self._wait_idle()

    def data_received(self, data: bytes) -> None:
        self._stop_idle()
        self._buffer += data
        if self._task is None:
            self._advance()
        elif self._wire is None or not self._wire.is_told:  # else the next request follows a whole answer
            self.double.violate("pipelined", f"{len(data)} bytes before the answer to request {self.served} ended")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_idle()
        self._writable.set()
        if self._task is None and (self._head or self._buffer):
            self.double.violate("cut-request", "the connection closed inside a request; a wrong Content-Length?")
        if self.exchange is not None:
            self.exchange.peer_left()
        if self._task is not None:
            self._task.cancel()
        self.double.lost(self)

    def pause_writing(self) -> None:
        self._writable.clear()
        if self.exchange is not None:
            self.exchange.paused += 1
            self.double.changed()

    def resume_writing(self) -> None:
        self._writable.set()

    @property
    def idle(self) -> bool:
        return self._task is None and self._head is None and not self._buffer

    # Reading

    def _advance(self) -> None:
        try:
            taken = self._take()
        except BadRequest as error:
            self.double.violate("malformed-http", str(error))
            self.transport.write(head_bytes(400, [("content-length", "0"), ("connection", "close")]))
            self.transport.close()
            return
        if taken is None:
            return
        head, body = taken
        self.served += 1
        self.exchange = self.double.received(head, body, self)
        self._task = asyncio.create_task(self._serve(self.exchange))

    def _take(self) -> tuple[Head, bytes] | None:
        if self._head is None:
            if (end := self._buffer.find(b"\r\n\r\n")) < 0:
                return None
            self._head = parse_head(bytes(self._buffer[:end]))
            del self._buffer[: end + 4]
        head = self._head
        length = head.length
        if length is None:
            if (body := take_chunked(self._buffer)) is None:
                return None
        elif len(self._buffer) < length:
            return None
        else:
            body = bytes(self._buffer[:length])
            del self._buffer[:length]
        self._head = None
        return head, body

    async def _serve(self, exchange: Exchange) -> None:
        wire = self._wire = Wire(self, exchange)
        try:
            await self.double.serve(exchange, wire)
        finally:
            self._task = None
            exchange.ended()
        if wire.must_close or self.transport.is_closing():
            self.transport.close()
        elif self._buffer:
            self._advance()
        else:
            self._wait_idle()

    # Idle connections

    def _wait_idle(self) -> None:
        if self.double.idle_close is not None:
            loop = asyncio.get_running_loop()
            self._idle = loop.call_later(self.double.idle_close, self.transport.close)

    def _stop_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    # Writing

    async def drain(self) -> None:
        await self._writable.wait()

    def reset(self) -> None:
        """RST, not FIN: what was sent and not yet read is lost, as when a process is killed."""
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


class Wire:
    """The answering side of one exchange."""

    def __init__(self, connection: Connection, exchange: Exchange) -> None:
        self.connection = connection
        self.exchange = exchange
        self.must_close = False
        self.started = False
        self.is_told = False
        """Has the whole answer been written?"""

    async def answer(
        self,
        status: int,
        body: bytes,
        *,
        kind: str = "application/json",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """A whole response with Content-Length."""
        self.exchange.status = status
        lines = [*self.connection.double.headers(), *headers, ("content-length", str(len(body)))]
        if body or kind != "application/json":
            lines.append(("content-type", kind))
        self.connection.transport.write(head_bytes(status, lines) + body)
        self.is_told = True
        await self.connection.drain()

    def start(self, kind: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        """The head of a chunked 200."""
        self.exchange.status = 200
        self.started = True
        lines = [*self.connection.double.headers(), *headers, ("content-type", kind), ("transfer-encoding", "chunked")]
        self.connection.transport.write(head_bytes(200, lines))

    async def send(self, data: bytes, pieces_of: int = 0) -> None:
        """One HTTP chunk, or many small ones, each in its own write."""
        parts = [data[i : i + pieces_of] for i in range(0, len(data), pieces_of)] if pieces_of else [data]
        for part in parts:
            self.connection.transport.write(chunk(part))
            await self.connection.drain()
            await asyncio.sleep(0)

    async def finish(self) -> None:
        self.connection.transport.write(LAST_CHUNK)
        self.is_told = True
        await self.connection.drain()

    def raw(self, data: bytes) -> None:
        """Bytes outside any framing."""
        self.connection.transport.write(data)

    def close(self) -> None:
        self.must_close = True
        self.connection.transport.close()

    def reset(self) -> None:
        self.must_close = True
        self.connection.reset()
