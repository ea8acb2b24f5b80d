"""A front door on the doubles' own loop: any ASGI app, on loopback, for the length of a block."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from tests.doubles.server import Host


@contextmanager
def front_door(host: Host, app: Any) -> Iterator[str]:
    """The URL of this app. At the end nothing is waited for: what it left undone is for its workers to show."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="on"))
    serving = host.run(_start(server))
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        host.run(_stop(server, serving))


async def _start(server: uvicorn.Server) -> asyncio.Task[None]:
    serving = asyncio.create_task(server.serve())
    while not server.started:
        assert not serving.done(), "the front door did not start"
        await asyncio.sleep(0.005)
    return serving


async def _stop(server: uvicorn.Server, serving: asyncio.Task[None]) -> None:
    server.should_exit = True
    for answering in list(server.server_state.tasks):
        answering.cancel()
    await serving
