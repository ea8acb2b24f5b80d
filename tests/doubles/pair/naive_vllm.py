"""A naive proxy for a NIXL pair, as one writes it from the protocol's description: the client's fields go on, prefill
gets `max_tokens: 1`, decode gets what prefill gave. It stands here to fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import cycle
from typing import Any
from uuid import uuid4

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route


def naive_vllm(prefills: Sequence[str], decodes: Sequence[str]) -> Starlette:
    """`prefills`, `decodes`: URLs of workers, taken in turn."""
    turns = cycle(prefills), cycle(decodes)
    client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None), verify=False)

    async def answer(request: Request) -> Response:
        body, path = await request.json(), request.url.path
        headers = {"x-request-id": str(uuid4())}
        first: dict[str, Any] = {**body, "stream": False, "max_tokens": 1}
        first["kv_transfer_params"] = {"do_remote_decode": True, "do_remote_prefill": False}
        first.pop("stream_options", None)
        prefilled = await client.post(f"{next(turns[0])}{path}", json=first, headers=headers)
        prefilled.raise_for_status()
        if params := prefilled.json().get("kv_transfer_params"):
            body["kv_transfer_params"] = params
        url = f"{next(turns[1])}{path}"
        if body.get("stream"):
            return StreamingResponse(relay(url, body, headers), media_type="text/event-stream")
        decoded = await client.post(url, json=body, headers=headers)
        decoded.raise_for_status()
        return JSONResponse(decoded.json())

    async def relay(url: str, body: dict[str, Any], headers: dict[str, str]) -> AsyncIterator[bytes]:
        async with client.stream("POST", url, json=body, headers=headers) as response:
            response.raise_for_status()
            async for data in response.aiter_bytes():
                yield data

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await client.aclose()

    paths = ("/v1/chat/completions", "/v1/completions")
    return Starlette(routes=[Route(path, answer, methods=["POST"]) for path in paths], lifespan=lifespan)
