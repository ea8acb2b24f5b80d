"""Where a flight ends up on the client's side: an event stream or one JSON body, over plain ASGI.

The status line is held back until the engine has begun, so that its errors can still be answered with their own
status; only after a long silence is a stream opened with a comment, since proxies and clients give up before that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.types import Send

from gateway import sse
from gateway.api.emit import Emitter
from gateway.api.respond import send_error, send_json, start
from gateway.api.whole import Assembler
from gateway.deltas import Delta
from gateway.edge.errors import ApiError
from gateway.landing import Landing
from gateway.output import Output
from gateway.reading import Identity

STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # nginx would hold 16 KB back
}


class StreamSink:
    """Server-sent events. `silence` is in seconds, 0 for no comments. `close` must be called."""

    def __init__(
        self,
        send: Send,
        headers: Mapping[str, str],
        *,
        model: str,
        output: Output,
        include_usage: bool,
        silence: float,
    ) -> None:
        self._send = send
        self._headers = {**headers, **STREAM_HEADERS}
        self._emitter = Emitter(model, output)
        self._include_usage = include_usage
        self._silence = silence
        self._is_open = False
        self._is_over = False
        self._loop = asyncio.get_running_loop()
        self._last_sent = self._loop.time()
        self._timer = self._loop.call_later(silence, self._beat) if silence else None
        self._beating: asyncio.Task[None] | None = None

    async def write(self, deltas: list[Delta], identity: Identity) -> None:
        data = self._emitter.encode(deltas, identity)
        if data:
            await self._body(data, more=True)

    async def land(self, landing: Landing) -> None:
        await self._body(self._emitter.land(landing, include_usage=self._include_usage), more=False)

    async def fail(self, error: ApiError) -> None:
        """One terminal error event, without `[DONE]`; a plain error answer if nothing was sent yet."""
        if self._is_open:
            await self._body(sse.event(error.body()), more=False)
        else:
            self._is_over = True
            await send_error(self._send, error, self._headers_of_an_error())

    def close(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._beating is not None:
            self._beating.cancel()

    def _headers_of_an_error(self) -> dict[str, str]:
        return {name: value for name, value in self._headers.items() if name not in STREAM_HEADERS}

    async def _body(self, data: bytes, *, more: bool) -> None:
        if not more:
            self._is_over = True
        await self._open()
        self._last_sent = self._loop.time()
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def _open(self) -> None:
        if not self._is_open:
            self._is_open = True
            await start(self._send, 200, self._headers)

    def _beat(self) -> None:
        """One timer a stream: it looks whether there was silence, and sleeps on until the next could be due."""
        now = self._loop.time()
        due = self._last_sent + self._silence
        if now >= due and not self._is_over and (self._beating is None or self._beating.done()):
            self._beating = self._loop.create_task(self._comment())
            due = now + self._silence
        self._timer = self._loop.call_at(due, self._beat)

    async def _comment(self) -> None:
        await self._open()
        if not self._is_over:
            self._last_sent = self._loop.time()
            await self._send({"type": "http.response.body", "body": sse.KEEP_ALIVE, "more_body": True})


class WholeSink:
    """One `chat.completion` body at the end."""

    def __init__(self, send: Send, headers: Mapping[str, str], *, model: str, output: Output) -> None:
        self._send = send
        self._headers = headers
        self._assembler = Assembler(model, output.reasoning)

    async def write(self, deltas: list[Delta], identity: Identity) -> None:
        self._assembler.add(deltas, identity)

    async def land(self, landing: Landing) -> None:
        await send_json(self._send, 200, self._assembler.body(landing), self._headers)

    async def fail(self, error: ApiError) -> None:
        await send_error(self._send, error, self._headers)

    def close(self) -> None:
        """Nothing is held."""
