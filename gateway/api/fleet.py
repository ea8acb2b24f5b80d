"""A legacy completion of several choices over a pool that hands one prompt to one answer at a time.

Each choice crosses by itself, and the client sees one answer. The first that fails fails all: what has been told of the
others is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from gateway import sse
from gateway.api.crossing import Way
from gateway.api.prompts import Joiner, whole_of
from gateway.api.respond import send_error, send_json, start
from gateway.api.sinks import STREAM_HEADERS
from gateway.edge.errors import ApiError
from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.leg import LegFailed


class Fleet:
    """`run` once; exactly one terminal thing reaches the client."""

    def __init__(self, way: Way, parts: Sequence[dict[str, Any]], each: int) -> None:
        """`each`: how many of the parts in a row are for the same prompt."""
        self._way = way
        self._parts = parts
        self._limit = way.limit()
        self._each = each
        self._joiner = Joiner(len(parts), each)
        self._lock = asyncio.Lock()
        self._is_open = False

    def break_off(self, error: ApiError) -> None:
        """End it with this error, unless it is over."""
        self._limit.break_off(error)

    async def run(self) -> None:
        """Errors go to the client; a cancellation means that it is gone."""
        try:
            async with self._limit:
                await self._cross()
        except ApiError as error:
            await self._fail(error)

    async def _cross(self) -> None:
        tasks: list[asyncio.Task[bytes | None]] = []
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._one(index, body)) for index, body in enumerate(self._parts)]
        except BaseExceptionGroup as failed:
            raise _first(failed) from failed
        wholes = [whole for task in tasks if (whole := task.result()) is not None]
        if wholes:
            await send_json(self._way.send, 200, whole_of(wholes, self._each), self._way.shown)
            return
        usage = self._joiner.end()
        last = (sse.event(usage) if usage is not None else b"") + sse.DONE_EVENT
        await self._way.send({"type": "http.response.body", "body": last})

    async def _one(self, index: int, body: dict[str, Any]) -> bytes | None:
        """One choice: its whole answer, or None where it was told as a stream."""
        passage = await self._way.launch(body, f"{self._way.shown[REQUEST_ID]}-c{index}")
        try:
            if passage.whole is not None:
                return passage.whole
            while (data := await passage.read()) is not None:
                await self._tell(index, data)
            if passage.failure is not None:
                raise passage.failure
            return None
        finally:
            passage.end()

    async def _tell(self, index: int, data: bytes) -> None:
        events = (event for event in sse.Splitter().feed(data) if event != sse.DONE)
        told = b"".join(sse.event(joined) for event in events if (joined := self._joiner.event(index, event)))
        if not told:
            return
        async with self._lock:
            if not self._is_open:
                self._is_open = True
                await start(self._way.send, 200, {**self._way.shown, **STREAM_HEADERS})
            await self._way.send({"type": "http.response.body", "body": told, "more_body": True})

    async def _fail(self, error: ApiError) -> None:
        if self._is_open:
            await self._way.send({"type": "http.response.body", "body": sse.event(error.body())})
        else:
            await send_error(self._way.send, error, self._way.shown)


def _first(failed: BaseExceptionGroup[BaseException]) -> BaseException:
    """What the client is told of: the first failure; anything else is a fault of ours."""
    for one in failed.exceptions:
        if isinstance(one, LegFailed):
            return one.error
        if isinstance(one, ApiError):
            return one
    return failed
