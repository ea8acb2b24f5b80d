"""A circuit breaker for one worker: opens on failures in a row, lets one probe through, closes when that succeeds.

Pure: the caller brings the clock and the verdicts. Whether an open breaker really shuts a worker out is the roster's to
say. Full engines, clients' faults and clients that leave are no failures (`verdict`).
"""

from __future__ import annotations

from gateway.pools.verdict import Kind, Verdict

THRESHOLD = 5
"""Failures in a row that open it: Envoy's `consecutive_5xx` default."""

MEMORY = 60.0
"""Seconds after which a failure no longer counts as one of a row: legs that are cut say nothing in between."""

OPEN_FOR, UNREACHABLE_FOR, LONGEST = 5.0, 2.0, 120.0
"""Seconds it stays open the first time (less where nobody listened: a restart is soon over), then doubling. Short, as a
canary finds out and not a client's request; peers wait 30 to 60 s."""


class Breaker:
    """`generation` changes whenever it opens or closes. A verdict on a leg that began in another one is ignored: a late
    success must not close it, and a late failure not open it again."""

    __slots__ = ("_closed_at", "_failures", "_has_probe", "_is_half_open", "_is_open", "_last", "_opens", "_threshold",
                 "generation", "is_unreachable", "reopens_at")  # fmt: skip

    def __init__(self, threshold: int = THRESHOLD) -> None:
        """`threshold`: failures in a row that open it."""
        self._threshold = threshold
        self.generation = 0
        self.reopens_at = 0.0
        """From when a probe may be tried, once it is open."""
        self.is_unreachable = False
        """Was it opened because nobody listened?"""
        self._is_open = False
        self._is_half_open = False
        self._has_probe = False
        self._failures = 0
        self._last = 0.0
        self._opens = 0
        self._closed_at = 0.0

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def is_failing(self) -> bool:
        """Is it open, or has the last that came to anything failed?"""
        return self._is_open or self._failures > 0

    @property
    def admits(self) -> bool:
        """May a leg begin? While it is half open, one at a time."""
        return not self._is_open or (self._is_half_open and not self._has_probe)

    def half_open(self, now: float) -> bool:
        """Allow one probe, if the time has come; False while it has not."""
        if self._is_open and now >= self.reopens_at:
            self._is_half_open = True
        return not self._is_open or self._is_half_open

    def take(self) -> int:
        """The stamp of a leg that begins now, to be given back with its verdict."""
        self._has_probe = self._has_probe or self._is_half_open
        return self.generation

    def note(self, verdict: Verdict, stamp: int, now: float) -> None:
        if stamp != self.generation:
            return
        self._has_probe = False
        if verdict.kind is Kind.SUCCESS:
            self._succeed(now)
        elif verdict.kind is Kind.FAILURE:
            self._fail(now, at_once=verdict.is_unreachable)

    def _succeed(self, now: float) -> None:
        self._failures = 0
        self.is_unreachable = False
        if self._is_open:
            self._is_open = self._is_half_open = False
            self._closed_at = now
            self.generation += 1
        elif now - self._closed_at > LONGEST:
            self._opens = 0

    def _fail(self, now: float, *, at_once: bool) -> None:
        if self._is_open and not self._is_half_open:
            return  # it is the last worker, and asked all the same
        self._failures = self._failures + 1 if now - self._last <= MEMORY else 1
        self._last = now
        if self._is_half_open or at_once or self._failures >= self._threshold:
            first = UNREACHABLE_FOR if at_once else OPEN_FOR
            self.reopens_at = now + min(LONGEST, first * 2.0 ** min(self._opens, 16))
            self._opens += 1
            self._is_open, self._is_half_open, self.is_unreachable = True, False, at_once
            self._failures = 0
            self.generation += 1
