"""A naive balancer for an SGLang pair, as one writes it from the protocol's description: one random room of 31 bits in
both bodies, both sent at once, decode's answer returned, prefill's not looked at. It stands here to fail."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import cycle

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route


def naive_sglang(prefills: Sequence[tuple[str, int]], decodes: Sequence[str]) -> Starlette:
    """`prefills`: URL and bootstrap port. `decodes`: URLs. Both are taken in turn."""
    turns = cycle(prefills), cycle(decodes)
    client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None), verify=False)

    async def answer(request: Request) -> Response:
        (prefill, port), decode = next(turns[0]), next(turns[1])
        body = await request.json()
        body |= {"bootstrap_host": "127.0.0.1", "bootstrap_port": port, "bootstrap_room": random.randint(0, 2**31 - 1)}
        headers = {"x-request-id": f"naive-{body['bootstrap_room']}"}
        legs = [
            client.build_request("POST", f"{url}{request.url.path}", json=body, headers=headers)
            for url in (prefill, decode)
        ]
        first, second = await asyncio.gather(*(client.send(leg, stream=True) for leg in legs))
        if body.get("stream"):
            return StreamingResponse(
                relay(first, second), status_code=second.status_code, media_type="text/event-stream"
            )
        await first.aread()
        await second.aread()
        return JSONResponse(second.json(), second.status_code)

    async def relay(first: httpx.Response, second: httpx.Response) -> AsyncIterator[bytes]:
        try:
            async for data in second.aiter_bytes():
                yield data
        finally:
            await first.aclose()
            await second.aclose()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await client.aclose()

    paths = ("/v1/chat/completions", "/v1/completions")
    return Starlette(routes=[Route(path, answer, methods=["POST"]) for path in paths], lifespan=lifespan)
