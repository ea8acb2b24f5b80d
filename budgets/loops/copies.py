"""The exact-copy tracker: how long the text has been repeating what stood `period` characters before.

As LZ77 with one live match. A match is followed block by block with one comparison; when it breaks, the places where
the last characters stood before are tried, nearest first, and the longest match becomes the live one. Any period up to
half the window is found. What must not come in: limits, and what a match means.
"""

from __future__ import annotations

from typing import Final

ANCHOR: Final = 32
"""Characters at the end of the text that are looked up: shorter ones are found all over healthy prose."""

WINDOW: Final = 32_768
"""Characters that are kept to look back at; the longest period whose every copy can still be compared."""

_SLACK: Final = 8_192
_CANDIDATES: Final = 8


class CopyTracker:
    """Follows one text. `run`: characters at its end that equal those `period` before them; 0 and 0 where none do."""

    __slots__ = ("period", "run", "seen", "text")

    def __init__(self) -> None:
        self.text = ""
        """The end of the text, at least `WINDOW` characters of it where there are so many."""
        self.seen = 0
        """Characters of the whole text."""
        self.period = 0
        self.run = 0

    def add(self, block: str) -> None:
        """Take in the next block."""
        text = self.text + block
        if len(text) > WINDOW + _SLACK:
            text = text[-WINDOW:]
        self.text = text
        self.seen += len(block)
        end, period = len(text), self.period
        start = end - len(block) - period
        if period and start >= 0 and text.startswith(block, start):
            self.run += len(block)
        else:
            self._reseed(text, end)

    def unit(self) -> str:
        """The last whole copy; it may begin in the middle of what a reader would call the unit."""
        return self.text[-self.period :] if self.period else ""

    def _reseed(self, text: str, end: int) -> None:
        anchor = text[-ANCHOR:]
        self.period = self.run = 0
        before = end - 1
        if len(anchor) < ANCHOR:
            return
        for _ in range(_CANDIDATES):
            place = text.rfind(anchor, 0, before)
            if place < 0:
                return
            period = end - ANCHOR - place
            run = _common_end(text, end, end - period)
            if run > self.run:
                self.period, self.run = period, run
            before = place + ANCHOR - 1


def _common_end(text: str, one: int, other: int) -> int:
    """How many characters before `one` equal those before `other`, which is the smaller."""
    length, step = 0, ANCHOR
    while step:
        if (
            step <= other - length
            and text[one - length - step : one - length] == text[other - length - step : other - length]
        ):
            length += step
            step *= 2
        else:
            step //= 2
    return length
