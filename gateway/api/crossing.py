"""What is passed through to one worker: the way there, and the one answer that comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.types import Send

from gateway import sse
from gateway.api.respond import send_error, send_json, start
from gateway.api.sinks import STREAM_HEADERS
from gateway.attempts import Attempts
from gateway.closing import Limit
from gateway.edge.errors import ApiError, deadline_passed
from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.edge.request_id import leg_id
from gateway.engines import Call
from gateway.leg import LegFailed
from gateway.passage import Passage, Question
from gateway.pools import Pool, Worker
from gateway.query import encode_object
from parsers import Start

COMPLETIONS, EMBEDDINGS = "/v1/completions", "/v1/embeddings"


@dataclass(frozen=True, slots=True)
class Way:
    """Where a request goes, and where its answer does. `shown`: headers of every answer, with the request's id."""

    pool: Pool
    path: str
    shown: Mapping[str, str]
    send: Send

    def limit(self) -> Limit:
        total = self.pool.config.timeouts.total
        return Limit(total, deadline_passed(total))

    async def launch(self, body: dict[str, Any], name: str | None = None) -> Passage:
        """To a worker that answers. `name`: of this part of the request, where it is sent in parts. Raises LegFailed
        and ApiError."""
        pool, patience, raw = self.pool, self.pool.config.timeouts, encode_object(body)
        attempts = Attempts(pool, asyncio.get_running_loop().time() + patience.total)
        await pool.wait_ready(patience.queue)

        async def ask(worker: Worker) -> Passage:
            named = leg_id(name or self.shown[REQUEST_ID], len(attempts.tried))
            is_streamed = self.path == COMPLETIONS and bool(body.get("stream"))
            question = Question(self.path, {**pool.headers, REQUEST_ID: named}, body, raw, is_streamed)
            hand_off = None
            if self.path == COMPLETIONS:
                call = Call(self.path, body, Start.CLOSED, None)
                hand_off = pool.hand_off(worker, call, key=None, tried=attempts.failed_before, is_warm=False)
            return await Passage.begin(worker, question, patience, hand_off)

        return await attempts.run(ask)


class Crossing:
    """One request's way to a worker and back. `run` once; exactly one terminal thing reaches the client."""

    def __init__(self, way: Way, body: dict[str, Any]) -> None:
        self._way = way
        self._body = body
        self._limit = way.limit()
        self._passage: Passage | None = None
        self._is_open = False

    def break_off(self, error: ApiError) -> None:
        """End it with this error, unless it is over."""
        self._limit.break_off(error)

    async def run(self) -> None:
        """Errors go to the client; a cancellation means that it is gone."""
        try:
            async with self._limit:
                self._passage = passage = await self._way.launch(self._body)
                await self._tell(passage)
        except LegFailed as failed:
            await self._fail(failed.error)
        except ApiError as error:
            await self._fail(error)
        finally:
            if self._passage is not None:
                self._passage.end()

    async def _tell(self, passage: Passage) -> None:
        if passage.whole is not None:
            passage.end()
            await send_json(self._way.send, 200, passage.whole, self._way.shown)
            return
        self._is_open = True
        await start(self._way.send, 200, {**self._way.shown, **STREAM_HEADERS})
        while (data := await passage.read()) is not None:
            # The end goes with the last event: no error may come after `[DONE]`, whenever this is broken off.
            await self._way.send({"type": "http.response.body", "body": data, "more_body": not passage.is_complete})
        if passage.failure is not None:
            raise passage.failure

    async def _fail(self, error: ApiError) -> None:
        """Once the status is out, one error event, without `[DONE]`."""
        if self._passage is not None:
            self._passage.end()  # first the engine stops, then the client hears of it
        if self._is_open:
            await self._way.send({"type": "http.response.body", "body": sse.event(error.body())})
        else:
            await send_error(self._way.send, error, self._way.shown)
