"""The governor watches a flight's text as it streams, counts it, and says when to cut.

One governor a choice. It knows tokens and text, not engines or sockets: the leg does the cutting, the flight the
continuing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

FAT_EVENT = 8.0
"""Characters an event from which it cannot be one token: engines that batch (stream_interval, speculative decoding)."""

CHARACTERS_A_TOKEN = 4.0
"""Characters of Latin text a token, for engines that batch without saying how many tokens came."""

NATIVE_SLACK = 32
"""Tokens an engine's own cap may overrun before the gateway cuts: the marker and the closing phrase count too."""


class Ruling(StrEnum):
    """Why a thought must end now."""

    CAP = "cap"
    DEADLINE = "deadline"
    """Time is running out for the answer."""
    LOOP = "loop"
    """It goes round in circles."""
    SICK = "sick"
    """The worker says nothing but one character; nothing of it was told."""
    SHORT = "short"
    """The model ended it too early: it is to think on."""


@dataclass(slots=True)
class Meter:
    """Counts one channel's tokens: exactly where the engine says how many came, else by events and characters."""

    events: int = 0
    characters: int = 0
    told: int = 0

    def add(self, characters: int, tokens: int | None) -> None:
        self.events += 1
        self.characters += characters
        if tokens is not None:
            self.told += tokens

    def __add__(self, other: Meter) -> Meter:
        return Meter(self.events + other.events, self.characters + other.characters, self.told + other.told)

    @property
    def tokens(self) -> int:
        """Tokens so far. One event is one token, unless events are too fat for that."""
        if self.told:
            return self.told
        if self.events and self.characters > FAT_EVENT * self.events:
            return round(self.characters / CHARACTERS_A_TOKEN)
        return self.events


def native_limit(cap: int) -> int:
    """Tokens of thought from which an engine that was told `cap` has overrun it: below that a cap counts as held, as
    one event may hold several tokens."""
    return cap + max(NATIVE_SLACK, cap // 20)


class Governor:
    """Holds one choice to its cap.

    `cap` is in tokens, None for no cap. `native` grants the engine's own enforcement a slack before the cut.
    """

    __slots__ = ("_limit", "answer", "reasoning")

    def __init__(self, cap: int | None, *, native: bool = False) -> None:
        self._limit = native_limit(cap) if cap is not None and native else cap
        self.reasoning = Meter()
        self.answer = Meter()

    def watch_reasoning(self, text: str, tokens: int | None) -> Ruling | None:
        """Take in a piece of thought; a Ruling means that it was the last one allowed."""
        self.reasoning.add(len(text), tokens)
        if self._limit is not None and self.reasoning.tokens >= self._limit:
            return Ruling.CAP
        return None

    @property
    def over(self) -> int:
        """Tokens of thought past the limit."""
        return 0 if self._limit is None else self.reasoning.tokens - self._limit

    def watch_answer(self, text: str, tokens: int | None) -> None:
        self.answer.add(len(text), tokens)


def split_usage(
    completion: int | None, reasoning: Meter, answer: Meter, *, has_called: bool = False
) -> tuple[int, int]:
    """(completion tokens, reasoning tokens) of one leg. `has_called`: what is not counted may be a tool call.

    `completion` is the engine's own total, None if the leg was cut before it came. The engines' split cannot be
    trusted (vLLM reports 0 when the template opened the thought), their total can: the share of the thought is what
    was counted, scaled to that total where an event is not a token.
    """
    counted = reasoning.tokens + answer.tokens
    if completion is None:
        return counted, reasoning.tokens
    if not answer.events:
        if has_called:
            return completion, min(completion, reasoning.tokens)
        return completion, completion if reasoning.events else 0
    if not reasoning.events:
        return completion, 0
    if counted <= completion <= counted + 8:  # one event a token; what is missing are markers and the end token
        return completion, reasoning.tokens
    share = reasoning.characters / max(1, reasoning.characters + answer.characters)
    return completion, min(completion, round(completion * share))
