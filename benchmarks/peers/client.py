"""A client as any SDK is one: what it sent, what it saw, and how its stream ended."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import httpx

from benchmarks.peers.systems import KEY, MODEL

PATIENCE = 40.0
"""Seconds an answer may take."""


@dataclass
class Seen:
    """`broke`: the exception that ended the stream, by name. `fields`: names under which thoughts came."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    thought: str = ""
    answer: str = ""
    fields: set[str] = field(default_factory=set[str])
    error: str = ""
    done: bool = False
    finish: str | None = None
    broke: str = ""
    seconds: float = 0.0

    def take(self, message: dict[str, Any]) -> None:
        """A delta, or a whole message."""
        thoughts = {name: message[name] for name in ("reasoning_content", "reasoning") if message.get(name)}
        self.fields |= thoughts.keys()
        self.thought += next(iter(thoughts.values()), "")
        self.answer += message.get("content") or ""


def body_of(prompt: str, *, stream: bool, **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "stream": stream, "messages": [{"role": "user", "content": prompt}], **more}


class Client:
    def __init__(self, url: str) -> None:
        self._http = httpx.AsyncClient(
            base_url=url, timeout=PATIENCE, headers={"authorization": f"Bearer {KEY}", "x-request-id": "comparison-1"}
        )

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def ask(self, prompt: str, *, stream: bool = True, **more: Any) -> Seen:
        """To the end, whichever it is."""
        seen, began = Seen(), monotonic()
        body = body_of(prompt, stream=stream, **more)
        try:
            async with self._http.stream("POST", "/v1/chat/completions", json=body) as response:
                seen.status, seen.headers = response.status_code, dict(response.headers)
                if response.status_code == 200 and stream:
                    async for line in response.aiter_lines():
                        _read(seen, line)
                else:
                    _read_whole(seen, await response.aread())
        except httpx.HTTPError as error:
            seen.broke = type(error).__name__
        seen.seconds = monotonic() - began
        return seen


def _read(seen: Seen, line: str) -> None:
    if not line.startswith("data:"):
        return
    data = line.removeprefix("data:").strip()
    if data == "[DONE]":
        seen.done = True
        return
    event = json.loads(data)
    if event.get("error"):
        seen.error = str(event["error"])
    for choice in event.get("choices") or ():
        seen.take(choice.get("delta") or {})
        seen.finish = choice.get("finish_reason") or seen.finish


def _read_whole(seen: Seen, raw: bytes) -> None:
    try:
        event = json.loads(raw)
    except ValueError:
        seen.error = raw[:80].decode("utf-8", "replace")
        return
    if "choices" in event:
        seen.take(event["choices"][0]["message"])
        seen.finish = event["choices"][0].get("finish_reason")
    else:
        seen.error = str(event)[:200]
