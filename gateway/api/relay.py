"""/v1/completions and /v1/embeddings: passed through to a pool, bytes as they are.

No router, no budget, no parsing: these routes carry no thoughts. Model names, keys, limits, retries, deadlines and
disconnects are the gateway's all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.api.crossing import COMPLETIONS, EMBEDDINGS, Crossing, Way
from gateway.api.fleet import Fleet
from gateway.api.prompts import choices_of, singles
from gateway.api.respond import ClientGone, headers_of, read_body, send_error, while_client_stays
from gateway.closing import Limit
from gateway.edge.errors import ApiError, bad_request, internal_error
from gateway.edge.hygiene import checked
from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.edge.request_id import request_id
from gateway.pools import Pool
from gateway.query import decode_object
from gateway.service import Service

__all__ = ["COMPLETIONS", "EMBEDDINGS", "relay"]


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
                    # One hand-off carries one prompt to one answer.
                    is_split = self._path == COMPLETIONS and pool.apart is not None
                    parts = singles(body) if is_split else [body]
        except ClientGone:
            return
        except ApiError as error:
            self._service.metrics.rejections.labels(str(error.status)).inc()
            await send_error(send, error, shown)
            return
        way = Way(pool, self._path, shown, send)
        crossing = Crossing(way, body) if len(parts) == 1 else Fleet(way, parts, choices_of(body))
        pool.crew.guests += 1
        try:
            with closing.running(crossing):
                await while_client_stays(crossing.run(), receive)
        finally:
            pool.crew.guests -= 1

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


def relay(service: Service, path: str) -> Any:
    """A FastAPI endpoint that passes `path` through."""

    async def endpoint(request: Request) -> Response:
        del request  # read by the answer itself, so that its size is counted while it streams
        return Relay(service, path)

    return endpoint
