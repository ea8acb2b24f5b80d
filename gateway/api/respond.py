"""Plain ASGI answers, and the reading of plain ASGI requests: headers, bodies within a limit, a client's leaving."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any

from starlette.types import Receive, Scope, Send

from gateway.edge.errors import ApiError, bad_request, body_too_large, shutting_down
from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.edge.request_id import request_id

TURNED_AWAY_PATIENCE = 1.0
"""Seconds that the body of a request may take that is turned away anyway."""


class ClientGone(Exception):
    """The client left before its request was complete."""


async def start(send: Send, status: int, headers: Mapping[str, str]) -> None:
    raw = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})


async def send_json(send: Send, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    shown = {**headers, "content-type": "application/json", "content-length": str(len(body))}
    await start(send, status, shown)
    await send({"type": "http.response.body", "body": body})


async def send_error(send: Send, error: ApiError, headers: Mapping[str, str]) -> None:
    await send_json(send, error.status, error.body(), {**headers, **error.headers})


def headers_of(scope: Scope) -> dict[str, str]:
    """A request's headers, names in lower case; of a repeated one the first counts."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return found


async def read_body(receive: Receive, headers: Mapping[str, str], *, limit: int, patience: float) -> bytes:
    """The whole body. Raises ApiError (413 beyond `limit` bytes, also when no length was announced; 408 after
    `patience` seconds) and ClientGone."""
    announced = headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced) > limit:
        raise body_too_large(limit)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(patience):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientGone
                part: bytes = message.get("body", b"")
                size += len(part)
                if size > limit:
                    raise body_too_large(limit)
                parts.append(part)
                if not message.get("more_body", False):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError as error:
        raise bad_request(f"The body did not arrive within {patience:g} s.", code="body_timeout") from error


async def turn_away(scope: Scope, receive: Receive, send: Send, *, limit: int) -> None:
    """A request that comes while the service drains. Its body is read first, as far as it comes: a connection that is
    closed upon unread bytes may lose the answer."""
    headers = headers_of(scope)
    with suppress(ApiError, ClientGone):
        await read_body(receive, headers, limit=limit, patience=TURNED_AWAY_PATIENCE)
    await send_error(send, shutting_down(), {REQUEST_ID: request_id(headers.get(REQUEST_ID))})


async def while_client_stays(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Do the work in this task; if the client leaves first, cancel it at once, and with it what an engine does."""
    worker = asyncio.current_task()
    assert worker is not None
    has_left = False

    def on_left(watcher: asyncio.Task[None]) -> None:
        nonlocal has_left
        if not watcher.cancelled():
            has_left = True
            worker.cancel()

    watcher = asyncio.get_running_loop().create_task(_until_disconnect(receive))
    watcher.add_done_callback(on_left)
    try:
        await work
    except asyncio.CancelledError:
        if not has_left:
            raise
        worker.uncancel()
    finally:
        watcher.remove_done_callback(on_left)
        watcher.cancel()


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
