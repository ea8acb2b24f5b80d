"""What one worker says in what time: counted by its legs as they stream, taken window by window by `pace`."""

from __future__ import annotations

from time import monotonic

LEAST_WAIT = 0.001
"""Seconds below which a read did not wait: its text lay ready, because the client is slow. It says nothing of the
engine."""


class Stride:
    """Characters that were waited for, and the seconds of waiting: two streams for one second are two."""

    __slots__ = ("_said", "_seconds", "_since", "_waiting")

    def __init__(self) -> None:
        self._waiting = 0
        self._said = 0
        self._seconds = 0.0
        self._since = monotonic()

    def wait(self) -> float:
        """A stream waits for its engine. To be given to `heard`, whatever ends the wait."""
        now = self._settle()
        self._waiting += 1
        return now

    def heard(self, began: float, characters: int) -> None:
        now = self._settle()
        self._waiting -= 1
        if now - began >= LEAST_WAIT:
            self._said += characters

    def take(self) -> tuple[int, float]:
        """What was said since this was last asked, and in how many seconds of waiting."""
        self._settle()
        taken = self._said, self._seconds
        self._said, self._seconds = 0, 0.0
        return taken

    def _settle(self) -> float:
        now = monotonic()
        self._seconds += self._waiting * (now - self._since)
        self._since = now
        return now
