"""One answer as a client of the gateway reads it, streamed or whole, and what must hold of every one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from tests.harness import Gateway
from tests.service.talk import Stream, stream

ANSWER: Final = 64
"""Tokens that are left to an answer, with the phrase; and a ninth of the cap, or the gateway would lower it."""
SLOW: Final = 300.0
"""Seconds until a whole answer: a thought of a thousand tokens on a busy machine."""
GREEDY: Final[dict[str, Any]] = {"temperature": 0, "seed": 7}
STORY: Final = "Tell of the river, the bridge, the mill and the town behind it."


def ask(model: str, text: str, *, streamed: bool, cap: int | None = None, **fields: Any) -> dict[str, Any]:
    """A greedy request. `cap` is the thinking budget; what is left of `max_tokens` is enough for a short answer."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "seed": 7,
    }
    room = cap or 0
    body["max_tokens"] = room + room // 9 + ANSWER
    if cap is not None:
        body["thinking_budget"] = cap
    if streamed:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return {**body, **fields}


@dataclass(frozen=True)
class Told:
    """`calls` are (name, arguments), `report` is thinkgate's own object, `pieces` a stream's events with text."""

    thought: str
    answer: str
    finish: str
    usage: dict[str, Any]
    report: dict[str, Any]
    calls: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    pieces: int = 0

    @property
    def thinking(self) -> dict[str, Any]:
        return self.report["thinking"]

    @property
    def legs(self) -> int:
        return self.report["legs"]

    @property
    def completion(self) -> int:
        return self.usage["completion_tokens"]

    @property
    def reasoning(self) -> int:
        """As the usage tells it, with the closing phrase."""
        return self.usage["completion_tokens_details"]["reasoning_tokens"]

    @property
    def generated(self) -> int:
        """Tokens that the model made of what is told: all but the words that the gateway put in."""
        return self.completion - self.thinking["injected_tokens"]


async def tell(served: Gateway, body: dict[str, Any]) -> Told:
    """Ask, and check what holds of any answer: told once, ended once, and the figures add up."""
    told = await _streamed(served, body) if body.get("stream") else await _whole(served, body)
    usage, thinking = told.usage, told.thinking
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert told.completion <= body["max_tokens"]
    assert told.reasoning <= told.completion
    assert thinking["tokens"] <= told.reasoning <= thinking["tokens"] + thinking["injected_tokens"]
    assert bool(told.thought) == (told.reasoning > 0), (told.thought, usage)
    return told


async def _streamed(served: Gateway, body: dict[str, Any]) -> Told:
    events: Stream = await stream(served.url, body)
    assert events.status == 200, events.body
    assert events.errors == []
    assert (events.done, events.after_done) == (True, 0)
    assert len(events.reasons) == 1
    assert len(events.usages) == 1
    last = next(event for event in events.events if event.get("usage"))
    assert last["choices"] == []
    pieces = sum(bool(delta.get("content") or delta.get("reasoning_content")) for delta in events.deltas)
    calls = _calls([call for delta in events.deltas for call in delta.get("tool_calls") or ()])
    said = events.thought, events.answer, events.reasons[0], events.usages[0]
    return Told(*said, report=events.extension, calls=calls, pieces=pieces)


async def _whole(served: Gateway, body: dict[str, Any]) -> Told:
    async with httpx.AsyncClient(timeout=SLOW) as client:
        response = await client.post(f"{served.base_url}/chat/completions", json=body)
    assert response.status_code == 200, response.text
    whole = response.json()
    [choice] = whole["choices"]
    message = choice["message"]
    said = message.get("reasoning_content") or "", message["content"] or "", choice["finish_reason"], whole["usage"]
    return Told(*said, report=whole["thinkgate"], calls=_calls(message.get("tool_calls") or []))


def _calls(parts: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Whole tool calls, put together from their parts as a client does it."""
    calls: dict[int, list[str]] = {}
    for place, part in enumerate(parts):
        function = part["function"]
        call = calls.setdefault(part.get("index", place), ["", ""])
        call[0] += function.get("name") or ""
        call[1] += function.get("arguments") or ""
    return [(name, arguments) for name, arguments in calls.values()]
