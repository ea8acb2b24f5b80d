"""Watches what a leg says for loops: one detector a channel of a choice, and one look at how the leg begins.

It finds and remembers; what a finding leads to is the leg watch's and the flight's business. Nothing about engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from budgets import one_copy
from budgets.loops import Channel, Finding, Kind, LoopDetector, LoopState, asks_for_repetition
from budgets.loops.fingerprint import fingerprint
from gateway.config import LoopAction
from gateway.deltas import Text
from parsers import Field

_REASONING: Final = Field.REASONING
_LOOP: Final = LoopState.LOOP
"""Looked up for every token."""

QUIET = 256
"""Characters of a channel before a detector is made for it: most answers are short, and a detector is not small."""

FLOOD_CHARACTER = "!"
"""What a worker with broken numbers says from its first token on: it is token 0 of the byte-level vocabularies."""


@dataclass(frozen=True, slots=True)
class LoopOrders:
    """`patience` multiplies all limits; `prompt` is what the user said last, it may ask for repetition; `finish` is the
    reason told for an answer that loops."""

    action: LoopAction = LoopAction.OFF
    patience: float = 1.0
    prompt: str = ""
    finish: str = "length"


@dataclass(frozen=True, slots=True)
class Found:
    """A loop, and the choice it is in."""

    index: int
    finding: Finding


def engine_found(channel: Channel, text: str) -> Finding:
    """A loop that an engine has found and ended by itself, as far as the text shows it."""
    keep, period = one_copy(text)
    return Finding(
        kind=Kind.EXACT,
        channel=channel,
        onset=keep - period,
        keep=keep,
        at=len(text),
        period=period,
        copies=(len(text) - keep) / period + 1 if period else 0.0,
        confidence=1.0,
        fingerprint=fingerprint(text[keep - period : keep]),
        reason="the engine's own detector has ended it",
    )


class LoopWatch:
    """One leg's."""

    __slots__ = ("_answers", "_orders", "_quiet", "_thoughts", "found")

    def __init__(self, orders: LoopOrders) -> None:
        self._orders = orders
        self._quiet: dict[tuple[int, Field], list[str]] = {}
        self._thoughts: dict[int, LoopDetector] = {}
        self._answers: dict[int, LoopDetector] = {}
        self.found: list[Found] = []

    def feed(self, delta: Text) -> Finding | None:
        """The finding, once, when this piece completes it."""
        if delta.field is _REASONING:
            detectors = self._thoughts
        else:
            detectors = self._answers
            self._thoughts.pop(delta.index, None)  # a thought that is over needs no detector, and they are not small
        text, detector = delta.text, detectors.get(delta.index)
        if detector is None:
            heard = self._quiet.setdefault((delta.index, delta.field), [])
            heard.append(text)
            if sum(map(len, heard)) < QUIET:
                return None
            text = "".join(heard)
            detector = detectors[delta.index] = self._new_detector(delta.field)
        if detector.feed(text) is not _LOOP or detector.finding is None:
            return None
        if any(found.finding is detector.finding for found in self.found):
            return None
        self.found.append(Found(delta.index, detector.finding))
        return detector.finding

    def _new_detector(self, field: Field) -> LoopDetector:
        orders = self._orders
        channel = Channel.REASONING if field is _REASONING else Channel.ANSWER
        asked = asks_for_repetition(orders.prompt)
        return LoopDetector(channel, asked_for_repetition=asked, patience=orders.patience)


class Opening:
    """A leg's first words, held back as long as they are nothing but a sick worker's: then it can be asked elsewhere,
    and the client never sees them."""

    __slots__ = ("_detector", "_held", "_orders", "is_over")

    def __init__(self, orders: LoopOrders) -> None:
        self._orders = orders
        self._held: list[Text] = []
        self._detector: LoopDetector | None = None
        self.is_over = False
        """Has the leg said anything else?"""

    def holds(self, delta: Text) -> bool:
        """Take in the next piece: True if it is held back too."""
        if self.is_over or delta.text.strip(FLOOD_CHARACTER):
            return False
        if self._detector is None:
            if self._orders.action is not LoopAction.RESCUE or asks_for_repetition(self._orders.prompt):
                self.is_over = True  # somebody wants to see them
                return False
            self._detector = LoopDetector(patience=self._orders.patience)
        self._held.append(delta)
        self._detector.feed(delta.text)
        return True

    @property
    def tokens(self) -> int:
        """Of what is held back; an event whose tokens nobody counted is one."""
        return sum(1 if delta.tokens is None else delta.tokens for delta in self._held)

    @property
    def finding(self) -> Finding | None:
        """The flood, once it is too long to be a word."""
        return None if self._detector is None or self.is_over else self._detector.finding

    def release(self) -> list[Text]:
        """What was held back, in its order; nothing is held any more."""
        held, self._held, self.is_over = self._held, [], True
        return held
