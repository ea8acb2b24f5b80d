"""What a flight must know of a leg while it streams: how much it has thought and said, how it ended, what it cost.

One a leg. It passes deltas on or holds them back, and says when a thought must end; it starts and ends nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from budgets import Governor, Meter, Ruling, split_usage
from gateway.deltas import Begin, Delta, Finish, Text, ToolCalls, Usage
from parsers import Field


@dataclass(slots=True)
class Transcript:
    """What a flight's client has been told so far, over all legs, of choice 0 where there are several legs."""

    begun: set[int] = field(default_factory=set[int])
    thought: list[str] = field(default_factory=list[str])
    said: list[str] = field(default_factory=list[str])
    is_answered: bool = False
    """Has anything but blanks been said, or a tool been called?"""


class LegWatch:
    """`cap` is in tokens, None for none; `native` grants the engine's own enforcement a slack; `choices` is the
    request's `n`."""

    __slots__ = ("_cap", "_choices", "_governors", "_native", "_transcript", "finishes", "usage")

    def __init__(self, transcript: Transcript, *, cap: int | None, native: bool, choices: int) -> None:
        self._transcript = transcript
        self._cap = cap
        self._native = native
        self._choices = choices
        self._governors: dict[int, Governor] = {}
        self.finishes: dict[int, Finish] = {}
        self.usage: Usage | None = None

    def take(self, deltas: list[Delta]) -> tuple[list[Delta], Ruling | None]:
        """The deltas of one read that the client gets, and whether the last of them was the last one allowed."""
        passed: list[Delta] = []
        told = self._transcript
        for delta in deltas:
            if isinstance(delta, Text):
                passed.append(delta)
                if delta.field is Field.REASONING:
                    told.thought.append(delta.text)
                    ruling = self._governor(delta.index).watch_reasoning(delta.text, delta.tokens)
                    if ruling is not None:
                        return passed, ruling
                else:
                    told.said.append(delta.text)
                    told.is_answered = told.is_answered or not delta.text.isspace()
                    self._governor(delta.index).watch_answer(delta.text, delta.tokens)
            elif isinstance(delta, Finish):
                self.finishes[delta.index] = delta
            elif isinstance(delta, Usage):
                self.usage = self._merged(delta)
            elif isinstance(delta, Begin):
                if delta.index not in told.begun:
                    told.begun.add(delta.index)
                    passed.append(delta)
            else:
                told.is_answered = told.is_answered or isinstance(delta, ToolCalls)
                passed.append(delta)
        return passed, None

    def count(self) -> tuple[int, int]:
        """(completion, reasoning) tokens of this leg, as far as it came."""
        governors = self._governors.values()
        thought = sum((governor.reasoning for governor in governors), Meter())
        answer = sum((governor.answer for governor in governors), Meter())
        return split_usage(None if self.usage is None else self.usage.completion, thought, answer)

    def _governor(self, index: int) -> Governor:
        governor = self._governors.get(index)
        if governor is None:
            governor = self._governors[index] = Governor(self._cap, native=self._native)
        return governor

    def _merged(self, usage: Usage) -> Usage:
        """llama-server reports each choice by itself, the others once for all; a running total is only replaced."""
        known = self.usage
        if known is None or self._choices == 1 or known.is_running or usage.is_running:
            return usage
        return Usage(usage.prompt, known.completion + usage.completion, usage.cached)
