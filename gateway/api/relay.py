"""/v1/completions and /v1/embeddings: passed through to a pool, bytes as they are.

No router, no budget, no parsing: these routes carry no thoughts. Model names, keys, limits and disconnects are the
gateway's all the same.
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
from gateway.edge.errors import ApiError, bad_request, engine_failed, engine_refused, engine_silent
from gateway.edge.hygiene import checked
from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.edge.request_id import request_id
from gateway.pools import Pool
from gateway.pools.pressure import BYTES_A_TOKEN
from gateway.pools.verdict import NEUTRAL, SUCCESS, Verdict, judge, judge_transport
from gateway.query import decode_object, encode_object
from gateway.service import Service
from gateway.upstream import End, UpstreamError, read_whole
from gateway.upstream import Response as EngineResponse
from gateway.wire import read_error


class Relay(Response):
    """An ASGI answer that is another server's. Made by `relay`."""

    def __init__(self, service: Service, path: str) -> None:
        super().__init__()
        self._service = service
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        shown = {REQUEST_ID: request_id(headers.get(REQUEST_ID))}
        try:
            self._service.gate.admit(headers)
            patience = self._service.config.server.body_timeout
            raw = await read_body(receive, headers, limit=self._service.body_limit, patience=patience)
            pool, body = self._shape(raw)
        except ClientGone:
            return
        except ApiError as error:
            await send_error(send, error, shown)
            return
        await while_client_stays(self._carry(pool, body, shown, send), receive)

    def _shape(self, raw: bytes) -> tuple[Pool, dict[str, Any]]:
        body = checked(decode_object(raw))
        model = body.get("model")
        if not isinstance(model, str):
            raise bad_request("`model` must be a string.", param="model", code="missing_required_parameter")
        pool = self._service.registry.find(model).standard
        return pool, {**body, "model": pool.profile.model}

    async def _carry(self, pool: Pool, body: dict[str, Any], shown: Mapping[str, str], send: Send) -> None:
        patience = pool.config.timeouts
        try:
            raw = encode_object(body)
            await pool.wait_ready(patience.queue)
            worker = pool.pick()
        except ApiError as error:
            await send_error(send, error, shown)
            return
        seat, verdict = worker.seat(len(raw) // BYTES_A_TOKEN), NEUTRAL
        response: EngineResponse | None = None
        how = End.ABANDONED
        try:
            headers = {**pool.headers, REQUEST_ID: shown[REQUEST_ID]}
            async with asyncio.timeout(patience.first_token):
                response = await worker.client.post(self._path, headers, raw)
            if response.status != 200:
                refused = engine_refused(response.status, read_error(await read_whole(response)), response.headers)
                verdict = judge(refused, response.headers)
                await send_error(send, refused, shown)
                return
            response.watch(patience.idle)
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                verdict = await _stream(response, shown, send)
            else:
                whole = await read_whole(response)
                verdict = SUCCESS
                await send_json(send, 200, whole, shown)
            how = End.FINISHED
        except TimeoutError:
            verdict = judge(engine_silent(patience.first_token))
            await send_error(send, engine_silent(patience.first_token), shown)
        except UpstreamError as error:
            verdict = judge_transport(error)
            await send_error(send, engine_failed(error), shown)
        finally:
            worker.let_go(seat, verdict, aborted=False)
            if response is not None:
                response.end(how)


async def _stream(response: EngineResponse, shown: Mapping[str, str], send: Send) -> Verdict:
    """Bytes as they come; a break-off becomes one error event, since the status is out."""
    await start(send, 200, {**shown, **STREAM_HEADERS})
    last, verdict = b"", SUCCESS
    try:
        while data := await response.read():
            await send({"type": "http.response.body", "body": data, "more_body": True})
    except UpstreamError as error:
        last, verdict = sse.event(engine_failed(error).body()), judge_transport(error)
    await send({"type": "http.response.body", "body": last})
    return verdict


def relay(service: Service, path: str) -> Any:
    """A FastAPI endpoint that passes `path` through."""

    async def endpoint(request: Request) -> Response:
        del request  # read by the answer itself, so that its size is counted while it streams
        return Relay(service, path)

    return endpoint
