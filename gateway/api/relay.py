"""/v1/completions and /v1/embeddings: passed through to a pool, bytes as they are.

No router, no budget, no parsing: these routes carry no thoughts. Model names, keys, limits, retries, deadlines and
disconnects are the gateway's all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway import sse
from gateway.api.respond import ClientGone, headers_of, read_body, send_error, send_json, start, while_client_stays
from gateway.api.sinks import STREAM_HEADERS
from gateway.attempts import Attempts
from gateway.closing import Limit
from gateway.edge.errors import ApiError, bad_request, deadline_passed, internal_error
from gateway.edge.hygiene import checked
from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.edge.request_id import leg_id, request_id
from gateway.leg import LegFailed
from gateway.passage import Passage, Question
from gateway.pools import Pool, Worker
from gateway.query import decode_object, encode_object
from gateway.service import Service

COMPLETIONS, EMBEDDINGS = "/v1/completions", "/v1/embeddings"


class Relay(Response):
    """An ASGI answer that is another server's. Made by `relay`."""

    def __init__(self, service: Service, path: str) -> None:
        super().__init__()
        self._service = service
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, closing = headers_of(scope), self._service.closing
        shown = {REQUEST_ID: request_id(headers.get(REQUEST_ID))}
        limit = Limit(None, internal_error())
        try:
            with closing.running(limit):
                async with limit:
                    pool, body = await self._read(headers, receive)
        except ClientGone:
            return
        except ApiError as error:
            await send_error(send, error, shown)
            return
        crossing = Crossing(pool, self._path, body, shown, send)
        with closing.running(crossing):
            await while_client_stays(crossing.run(), receive)

    async def _read(self, headers: Mapping[str, str], receive: Receive) -> tuple[Pool, dict[str, Any]]:
        service = self._service
        service.gate.admit(headers)
        patience = service.config.server.body_timeout
        body = checked(decode_object(await read_body(receive, headers, limit=service.body_limit, patience=patience)))
        model = body.get("model")
        if not isinstance(model, str):
            raise bad_request("`model` must be a string.", param="model", code="missing_required_parameter")
        pool = service.registry.find(model).standard
        return pool, {**body, "model": pool.profile.model}


class Crossing:
    """One request's way to a worker and back. `run` once; exactly one terminal thing reaches the client."""

    def __init__(self, pool: Pool, path: str, body: dict[str, Any], shown: Mapping[str, str], send: Send) -> None:
        self._pool = pool
        self._path = path
        self._body = body
        self._shown = shown
        self._send = send
        self._patience = pool.config.timeouts
        self._limit = Limit(self._patience.total, deadline_passed(self._patience.total))
        self._passage: Passage | None = None
        self._is_open = False

    def break_off(self, error: ApiError) -> None:
        """End it with this error, unless it is over."""
        self._limit.break_off(error)

    async def run(self) -> None:
        """Errors go to the client; a cancellation means that it is gone."""
        try:
            async with self._limit:
                self._passage = passage = await self._launch()
                await self._tell(passage)
        except LegFailed as failed:
            await self._fail(failed.error)
        except ApiError as error:
            await self._fail(error)
        finally:
            if self._passage is not None:
                self._passage.end()

    async def _launch(self) -> Passage:
        pool = self._pool
        raw = encode_object(self._body)
        until = asyncio.get_running_loop().time() + self._patience.total
        is_streamed = self._path == COMPLETIONS and bool(self._body.get("stream"))
        attempts = Attempts(pool, until)
        await pool.wait_ready(self._patience.queue)

        async def ask(worker: Worker) -> Passage:
            name = leg_id(self._shown[REQUEST_ID], len(attempts.tried))
            question = Question(self._path, {**pool.headers, REQUEST_ID: name}, raw, is_streamed)
            return await Passage.begin(worker, question, self._patience)

        return await attempts.run(ask)

    async def _tell(self, passage: Passage) -> None:
        if passage.whole is not None:
            passage.end()
            await send_json(self._send, 200, passage.whole, self._shown)
            return
        self._is_open = True
        await start(self._send, 200, {**self._shown, **STREAM_HEADERS})
        while (data := await passage.read()) is not None:
            # The end goes with the last event: no error may come after `[DONE]`, whenever this is broken off.
            await self._send({"type": "http.response.body", "body": data, "more_body": not passage.is_complete})
        if passage.failure is not None:
            raise passage.failure

    async def _fail(self, error: ApiError) -> None:
        """Once the status is out, one error event, without `[DONE]`."""
        if self._passage is not None:
            self._passage.end()  # first the engine stops, then the client hears of it
        if self._is_open:
            await self._send({"type": "http.response.body", "body": sse.event(error.body())})
        else:
            await send_error(self._send, error, self._shown)


def relay(service: Service, path: str) -> Any:
    """A FastAPI endpoint that passes `path` through."""

    async def endpoint(request: Request) -> Response:
        del request  # read by the answer itself, so that its size is counted while it streams
        return Relay(service, path)

    return endpoint
