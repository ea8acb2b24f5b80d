"""What users thought of answers: one verdict a request, counted beside what the answer cost.

Kept of the last requests, by id, are their caller's alias, pool, band, outcome and cost; no text of anybody's.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from gateway.ledger import Entry, Outcome
from gateway.observe.metrics import Metrics


class Opinion(StrEnum):
    """What a user thought of an answer."""

    GOOD = "good"
    BAD = "bad"


class NoOpinion(Exception):
    """It cannot be taken: the message says why. `is_late`: the request has one already."""

    def __init__(self, message: str, *, is_late: bool) -> None:
        super().__init__(message)
        self.is_late = is_late


REMEMBERED = 10_000
"""Requests whose verdict may still come: some minutes of traffic on a busy gateway, a day on a quiet one."""


class _Flown:
    """What is kept of a request: some 300 bytes."""

    __slots__ = ("band", "caller", "opinion", "outcome", "pool", "seconds", "unsettled")

    def __init__(self, entry: Entry) -> None:
        self.caller = entry.caller
        self.pool = entry.pool
        self.band = entry.band
        self.outcome = entry.outcome
        self.seconds = 0.0
        """GPU-seconds, as far as they are known."""
        self.unsettled = len(entry.bills)
        self.opinion: Opinion | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """A request that has its verdict now."""

    pool: str
    outcome: Outcome


class Opinions:
    """Verdicts on requests that have ended: the last `REMEMBERED` by their ids, without a word of their text."""

    def __init__(self, metrics: Metrics, most: int = REMEMBERED) -> None:
        self._metrics = metrics
        self._most = most
        self._flown: OrderedDict[str, _Flown] = OrderedDict()

    def remember(self, entry: Entry) -> None:
        """The newest of an id counts, since clients may choose them."""
        self._flown.pop(entry.request_id, None)
        self._flown[entry.request_id] = flown = _Flown(entry)
        if len(self._flown) > self._most:
            self._flown.popitem(last=False)
        for bill in entry.bills:
            bill.when_settled(partial(self._note_seconds, flown))

    def take(self, request_id: str, opinion: Opinion, caller: str, *, is_admin: bool) -> Judged:
        """Count it. Raises NoOpinion: another's request is as unknown as one that never was."""
        flown = self._flown.get(request_id)
        if flown is None or not (is_admin or flown.caller == caller):
            raise NoOpinion("This request is not known here, or too long ago.", is_late=False)
        if flown.opinion is not None:
            raise NoOpinion("This request has a verdict already.", is_late=True)
        flown.opinion = opinion
        self._metrics.feedback.labels(flown.pool, flown.band, opinion).inc()
        if not flown.unsettled:
            self._count(flown)
        return Judged(flown.pool, flown.outcome)

    def _note_seconds(self, flown: _Flown, seconds: float) -> None:
        """A part of what it cost is known."""
        flown.unsettled -= 1
        flown.seconds += seconds
        if not flown.unsettled and flown.opinion is not None:
            self._count(flown)

    def _count(self, flown: _Flown) -> None:
        self._metrics.feedback_gpu_seconds.labels(flown.pool, flown.band, flown.opinion).inc(flown.seconds)
