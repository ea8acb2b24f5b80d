"""Load from one process over loopback: many streams at once, each checked for completeness and order."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence

_TOKEN = re.compile(rb"t(\d{5}) ")


def request_bytes(prompt: str, *, stream: bool, headers: Sequence[str] = ()) -> bytes:
    """`headers`: lines to send beside the usual ones."""
    body = json.dumps({"model": "mock", "stream": stream, "messages": [{"role": "user", "content": prompt}]}).encode()
    lines = ("POST /v1/chat/completions HTTP/1.1", "host: bench", "content-type: application/json", *headers)
    return "\r\n".join((*lines, f"content-length: {len(body)}", "", "")).encode() + body


async def one(port: int, request: bytes, tokens: int) -> None:
    """One request on a connection of its own. Raises if a token is missing or out of order."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    try:
        writer.write(request)
        got = b""
        while b"[DONE]" not in got[-64:]:
            data = await reader.read(2**18)
            if not data:
                break
            got += data
    finally:
        writer.close()
    seen = [int(number) for number in _TOKEN.findall(got)]
    if seen != list(range(tokens)):
        raise AssertionError(f"{len(seen)} tokens of {tokens}, or out of order")


async def streams(
    port: int, prompt: str, tokens: int, *, at_once: int, total: int, headers: Sequence[str] = ()
) -> None:
    """`total` streams, `at_once` at a time."""
    request = request_bytes(prompt, stream=True, headers=headers)
    turn = asyncio.Semaphore(at_once)

    async def limited() -> None:
        async with turn:
            await one(port, request, tokens)

    async with asyncio.TaskGroup() as group:
        for _ in range(total):
            group.create_task(limited())


async def unary(port: int, prompt: str, *, at_once: int, total: int, headers: Sequence[str] = ()) -> None:
    """`total` unary requests over `at_once` kept connections."""
    request = request_bytes(prompt, stream=False, headers=headers)

    async def worker(count: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(count):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise AssertionError(head)
            if length := re.search(rb"content-length: (\d+)", head, re.IGNORECASE):
                await reader.readexactly(int(length[1]))
            else:
                await reader.readuntil(b"0\r\n\r\n")
        writer.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker(total // at_once))
