"""A client that hides nothing: every event as it came, the head of the answer, and a socket to close at will."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.doubles.script import ask, expected_answer, thought
from tests.harness import PATIENCE

JSON = {"content-type": "application/json"}


def chat(
    model: str, key: str, *, stream: bool = True, usage: bool = True, body: Any = None, **controls: Any
) -> dict[str, Any]:
    """A chat body that makes a double say `key`'s text; `body` adds fields."""
    asked: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": ask(key, **controls)}]}
    if stream:
        asked["stream"] = True
        if usage:
            asked["stream_options"] = {"include_usage": True}
    return {**asked, **(body or {})}


@dataclass
class Stream:
    """A streamed answer, event by event."""

    status: int
    headers: httpx.Headers
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    comments: list[str] = field(default_factory=list[str])
    done: bool = False
    after_done: int = 0
    body: bytes = b""

    def feed(self, line: str) -> None:
        if not line:
            return
        self.after_done += self.done
        if line.startswith(":"):
            self.comments.append(line)
        elif line == "data: [DONE]":
            self.done = True
        else:
            assert line.startswith("data: "), f"no SSE line: {line!r}"
            self.events.append(json.loads(line.removeprefix("data: ")))

    @property
    def deltas(self) -> list[dict[str, Any]]:
        return [choice["delta"] for event in self.events for choice in event.get("choices") or []]

    @property
    def thought(self) -> str:
        return "".join(delta.get("reasoning_content") or "" for delta in self.deltas)

    @property
    def answer(self) -> str:
        return "".join(delta.get("content") or "" for delta in self.deltas)

    @property
    def usages(self) -> list[dict[str, Any]]:
        return [event["usage"] for event in self.events if event.get("usage")]

    @property
    def errors(self) -> list[dict[str, Any]]:
        return [event["error"] for event in self.events if "error" in event]

    @property
    def reasons(self) -> list[str]:
        choices = [choice for event in self.events for choice in event.get("choices") or []]
        return [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]

    @property
    def extension(self) -> dict[str, Any]:
        """thinkgate's own object, from wherever in the stream it came."""
        found: list[dict[str, Any]] = [event["thinkgate"] for event in self.events if "thinkgate" in event]
        assert len(found) == 1, found
        return found[0]


class Listener:
    """A client like an SDK, compression accepted, who knows when he has heard the `tokens` that an engine says before
    it is held."""

    def __init__(self, model: str, tokens: int) -> None:
        self._model, self._tokens, self._has_heard_all = model, tokens, asyncio.Event()
        self.heard = 0

    async def listen(self, url: str, key: str) -> Stream:
        body, headers = chat(self._model, key, stall_after=self._tokens), {"accept-encoding": "gzip"}
        async with (
            httpx.AsyncClient(timeout=60) as client,
            client.stream("POST", f"{url}/v1/chat/completions", json=body, headers=headers) as response,
        ):
            told = Stream(response.status_code, response.headers)
            async for line in response.aiter_lines():
                told.feed(line)
                self.heard = sum(bool(delta.get("reasoning_content")) for delta in told.deltas)
                if self.heard >= self._tokens:
                    self._has_heard_all.set()
        return told

    async def wait(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._has_heard_all.wait()


async def stream(url: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> Stream:
    """Send and read to the end."""
    async with (
        httpx.AsyncClient(timeout=60, verify=False) as client,
        client.stream("POST", f"{url}/v1/chat/completions", json=body, headers=headers) as response,
    ):
        told = Stream(response.status_code, response.headers)
        if "text/event-stream" in response.headers.get("content-type", ""):
            async for line in response.aiter_lines():
                told.feed(line)
        else:
            told.body = await response.aread()
        return told


async def post(
    url: str, body: Any, path: str = "/v1/chat/completions", headers: dict[str, str] | None = None
) -> httpx.Response:
    """Send a JSON body (or raw bytes), and return the whole answer."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with httpx.AsyncClient(timeout=60, verify=False) as client:
        return await client.post(f"{url}{path}", content=content, headers={**JSON, **(headers or {})})


def assert_complete(told: Stream, key: str, think: int = 24, ans: int = 12) -> None:
    """Everything `key` says, once, in order, well ended."""
    assert told.status == 200
    assert told.errors == []
    assert told.thought.strip() == thought(key, think)
    assert told.answer.strip() == expected_answer(key, thought(key, think), ans)
    assert told.reasons == ["stop"]
    assert told.done
    assert told.after_done == 0
    assert "think>" not in told.thought + told.answer


def assert_error(response: httpx.Response, status: int, kind: str, code: str | None = None) -> dict[str, Any]:
    """An OpenAI-shaped error."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"].startswith("application/json")
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    assert error["type"] == kind, error
    if code is not None:
        assert error["code"] == code, error
    return error


class Socket:
    """A raw client connection, to send what no library sends and to leave when it suits the test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send_chat(self, body: dict[str, Any]) -> None:
        raw = json.dumps(body).encode()
        head = "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\n"
        await self.send(f"{head}content-length: {len(raw)}\r\n\r\n".encode() + raw)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def read_until(self, marks: bytes, times: int = 1) -> bytes:
        """Read until `marks` has come so many times."""
        seen = b""
        async with asyncio.timeout(PATIENCE):
            while seen.count(marks) < times:
                data = await self.reader.read(65_536)
                assert data, f"the gateway closed after {seen[-300:]!r}"
                seen += data
        return seen

    async def read_all(self) -> bytes:
        async with asyncio.timeout(PATIENCE):
            return await self.reader.read()

    def leave(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def socket_to(port: int, *, limit: int = 65_536) -> AsyncIterator[Socket]:
    """`limit`: bytes taken from the socket before anyone reads them."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=limit)
    try:
        yield Socket(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
