"""The life of a worker as one small state machine. Who moves it, and why, is the roster's and the health watch's.

pending ─▶ warming ─▶ ready ─▶ draining ─▶ gone
              ▲         │
              └─ ejected ◀┘   (and from pending or warming, when it never becomes ready)
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class State(StrEnum):
    PENDING = "pending"
    """Was never seen to answer."""
    WARMING = "warming"
    """Answers, and has not proved yet that it generates: loading, compiling, or back from an ejection."""
    READY = "ready"
    """May be chosen. The only such state."""
    EJECTED = "ejected"
    """Was ready and is left alone: it failed its health checks, failed requests, or generated nonsense. Also one that
    did not become ready in all the time it is given."""
    DRAINING = "draining"
    """Gets nothing new; what it runs may finish there."""
    GONE = "gone"
    """Runs nothing, and never will again."""


NEXT: Mapping[State, frozenset[State]] = {
    State.PENDING: frozenset({State.WARMING, State.EJECTED, State.DRAINING, State.GONE}),
    State.WARMING: frozenset({State.READY, State.EJECTED, State.DRAINING, State.GONE}),
    State.READY: frozenset({State.EJECTED, State.DRAINING, State.GONE}),
    State.EJECTED: frozenset({State.WARMING, State.DRAINING, State.GONE}),
    State.DRAINING: frozenset({State.GONE}),
    State.GONE: frozenset(),
}
"""There is no way to ready but through warming, and no way back from draining."""


class Life:
    """`since`: when it came to its state, in seconds of whatever clock the mover reads."""

    __slots__ = ("reason", "since", "state")

    def __init__(self, now: float) -> None:
        self.state = State.PENDING
        self.reason = "not checked yet"
        self.since = now

    def move(self, to: State, reason: str, now: float) -> bool:
        """Go there, if there is a way: a late result for a worker that drains changes nothing. Was it a change?"""
        if to is self.state:
            self.reason = reason
            return False
        if to not in NEXT[self.state]:
            return False
        self.state, self.reason, self.since = to, reason, now
        return True
