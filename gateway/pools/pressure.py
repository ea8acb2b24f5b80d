"""How busy a worker is: what its engine last told of itself, and what this gateway has sent there since.

Numbers only; who is chosen by them is `selection`'s. An engine's word grows old: a stale or missing one means "not
known", never "idle".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from gateway.engines import Call
from gateway.engines.load import Load

STALE_AFTER = 3
"""Polls missed after which a word no longer counts."""

WAITING_COSTS = 0.1
"""KV pressure that each waiting request adds: llm-d calls a worker saturated at five in the queue, or 0.8 of its KV."""

EXPECTED_OUTPUT = 2_048
"""Tokens a leg is taken to generate, unless its limit is lower."""

BYTES_A_TOKEN = 4
"""Of a prompt that nobody has counted."""


class Gauge:
    """Of one worker. Tokens and legs of this gateway are counted at dispatch and given back when a leg ends."""

    __slots__ = ("legs", "load", "seen_at", "tokens", "tokens_seen")

    def __init__(self) -> None:
        self.legs = 0
        self.tokens = 0
        self.load: Load | None = None
        self.seen_at = 0.0
        self.tokens_seen = 0

    def begin(self, tokens: int) -> None:
        self.legs += 1
        self.tokens += tokens

    def end(self, tokens: int) -> None:
        self.legs -= 1
        self.tokens -= tokens
        self.tokens_seen = min(self.tokens_seen, self.tokens)

    def note(self, load: Load, now: float) -> None:
        """The engine's word, which covers all that was dispatched before it."""
        self.load, self.seen_at, self.tokens_seen = load, now, self.tokens

    def pressure(self, now: float, interval: float) -> float | None:
        """The KV cache in use (0..1, more with a queue), None if it is not known; `interval`: seconds between polls."""
        load = self.load
        if load is None or load.kv is None or load.capacity is None or now - self.seen_at > STALE_AFTER * interval:
            return None
        return load.kv + (self.tokens - self.tokens_seen) / load.capacity + WAITING_COSTS * load.waiting


def tokens_of(call: Call) -> int:
    """KV tokens a call may come to hold, roughly: its prompt by its length, its output by its limit."""
    limit = call.body.get("max_completion_tokens", call.body.get("max_tokens"))
    output = min(limit, EXPECTED_OUTPUT) if isinstance(limit, int) else EXPECTED_OUTPUT
    return prompt_tokens_of(call) + output


def prompt_tokens_of(call: Call) -> int:
    """Tokens that a call gives to read, roughly, by their length."""
    asked = sum(_text(question) for question in call.tokenize)
    return len(call.prompt_ids) + (_text(call.body) + asked) // BYTES_A_TOKEN


def _text(body: Mapping[str, Any]) -> int:
    """Characters of text in a body's messages or prompt; an image's data is not text."""
    size = 0
    waiting: list[object] = [body.get("messages"), body.get("prompt")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, list):
            items = cast("list[object]", value)
            if items and isinstance(items[0], int):  # a prompt in tokens
                size += len(items) * BYTES_A_TOKEN
            else:
                waiting += items
        elif isinstance(value, dict):
            fields = cast("dict[str, object]", value)
            waiting += (fields.get(name) for name in ("content", "text", "reasoning", "reasoning_content"))
    return size
