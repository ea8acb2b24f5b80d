"""The loop detector: feed it one channel of one choice as it streams, and it says when the text has begun to loop.

It cuts the text into blocks at fixed places, so that the same text gives the same verdict at the same character under
any chunking, and asks each judge after each block. What must not come in: what to do about a loop, how its signs are
measured, and limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from budgets.loops.copies import CopyTracker
from budgets.loops.density import STRETCH
from budgets.loops.finding import Channel, Finding, LoopState
from budgets.loops.fingerprint import fingerprint
from budgets.loops.floods import FloodCounter
from budgets.loops.judges import judge_blanks, judge_copies, judge_flood
from budgets.loops.limits import ANSWER_ROPE, ASKED_ROPE
from budgets.loops.stagnation import Stagnation
from budgets.loops.verdict import SUSPECT, Verdict

BLOCK: Final = 128
"""Characters between two looks, about 32 tokens of Latin text: what a look costs is shared by so many."""


@dataclass(frozen=True, slots=True)
class Signals:
    """What the last look saw, for people.

    `exact` and `flood`: used shares of the limits for exact copies and for floods, 1 and above is a loop. `copied`:
    share of the last 1,024 characters' passages of three words that stood before. `fresh`: share of their words that
    are new. `compressed`: compressed share of the last 4 KiB, None where the text was too fresh to look.
    """

    exact: float
    flood: float
    copied: float
    fresh: float
    compressed: float | None


class LoopDetector:
    """Watches one channel of one choice. `asked_for_repetition`: the prompt did, see `asks_for_repetition`.

    `patience` multiplies all limits: 1.0 is what was measured, 2.0 waits twice as long. Raises ValueError unless it is
    a number above 0. Memory is bounded, about half a megabyte; a piece of four characters costs about a microsecond.
    """

    __slots__ = ("_channel", "_copies", "_exact", "_fences", "_flood", "_floods", "_pending", "_room", "_rope",
                 "_stagnation", "finding", "state")  # fmt: skip

    def __init__(
        self, channel: Channel = Channel.REASONING, *, asked_for_repetition: bool = False, patience: float = 1.0
    ) -> None:
        if not 0 < patience < float("inf"):
            raise ValueError("patience must be a number above 0")
        self.state = LoopState.OK
        self.finding: Finding | None = None
        """The loop, from LOOP on; it never changes then."""
        answer = ANSWER_ROPE if channel is Channel.ANSWER else 1.0
        self._rope = patience * answer * (ASKED_ROPE if asked_for_repetition else 1.0)
        self._channel = channel
        self._pending: list[str] = []
        self._room = BLOCK
        self._fences = 0
        self._exact = self._flood = 0.0
        self._copies = CopyTracker()
        self._floods = FloodCounter()
        self._stagnation = Stagnation(self._rope)

    @property
    def seen(self) -> int:
        """Characters that were looked at: all that were fed, but for less than a block. Stands still after LOOP."""
        return self._copies.seen

    @property
    def signals(self) -> Signals:
        stagnation = self._stagnation
        return Signals(self._exact, self._flood, stagnation.copied, stagnation.fresh, stagnation.compressed)

    def feed(self, text: str) -> LoopState:
        """Take in the next piece of text, of any length. After LOOP nothing is looked at any more."""
        self._pending.append(text)
        self._room -= len(text)
        if self._room > 0:
            return self.state
        return self._look()

    def _look(self) -> LoopState:
        text = "".join(self._pending)
        self._pending.clear()
        start = 0
        while self.finding is None and start + BLOCK <= len(text):
            self._take(text[start : start + BLOCK])
            start += BLOCK
        self._room = BLOCK
        if self.finding is None and start < len(text):
            self._pending.append(text[start:])
            self._room -= len(text) - start
        return self.state

    def _take(self, block: str) -> None:
        self._fences += block.count("```")
        floods, copies = self._floods, self._copies
        floods.add(block)
        copies.add(block)
        flood = judge_blanks(floods, copies, self._rope) if floods.blanks else judge_flood(floods, copies, self._rope)
        exact = judge_copies(copies, self._rope, fenced=self._fences % 2 == 1)
        self._flood, self._exact = flood.share, exact.share
        verdict = flood.verdict or exact.verdict
        if verdict is None and copies.seen % STRETCH == 0:
            verdict = self._stagnation.add(copies.text, copies.seen)
        if verdict is not None:
            self._find(verdict)
        elif max(flood.share, exact.share) >= SUSPECT or self._stagnation.suspicious:
            self.state = LoopState.SUSPECT
        else:
            self.state = LoopState.OK

    def _find(self, verdict: Verdict) -> None:
        self.state = LoopState.LOOP
        self.finding = Finding(
            kind=verdict.kind,
            channel=self._channel,
            onset=verdict.onset,
            keep=verdict.keep,
            at=self._copies.seen,
            period=verdict.period,
            copies=verdict.copies,
            confidence=verdict.confidence,
            fingerprint=fingerprint(verdict.unit),
            reason=verdict.reason,
        )
