"""How many launches of a pool may be repeats of ones that failed: a share of its traffic, so that an outage is not
multiplied by everyone who tries again.

Pure: the caller brings the clock. Whether an error is worth another try at all is `launch`'s business.
"""

from __future__ import annotations

from collections import deque

WINDOW = 10.0
"""Seconds that are looked back on."""

SHARE = 0.2
"""Repeats allowed for each first launch within the window."""

ALWAYS = 10
"""Repeats within the window that are allowed whatever the traffic: a quiet pool may still repair its one request."""


class RetryBudget:
    """One pool's."""

    def __init__(self) -> None:
        self._launches: deque[float] = deque()
        self._repeats: deque[float] = deque()

    def note_launch(self, now: float) -> None:
        self._forget(now)
        self._launches.append(now)

    def take(self, now: float) -> bool:
        """One repeat, if there is one left."""
        self._forget(now)
        if len(self._repeats) >= max(ALWAYS, SHARE * len(self._launches)):
            return False
        self._repeats.append(now)
        return True

    def _forget(self, now: float) -> None:
        for times in (self._launches, self._repeats):
            while times and times[0] <= now - WINDOW:
                times.popleft()
