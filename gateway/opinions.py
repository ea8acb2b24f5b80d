"""What users thought of answers: one verdict a request, counted beside what the answer cost.

Kept is the ledger's entry of the last requests, by id; no text of anybody's.
"""

from __future__ import annotations

from collections import OrderedDict
from enum import StrEnum

from gateway.ledger import Entry
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


class Opinions:
    """Verdicts on requests that have ended: the last `REMEMBERED` by their ids, without a word of their text."""

    def __init__(self, metrics: Metrics, most: int = REMEMBERED) -> None:
        self._metrics = metrics
        self._most = most
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._judged: set[str] = set()

    def remember(self, entry: Entry) -> None:
        """The newest of an id counts, since clients may choose them."""
        self._forget(entry.request_id)
        self._entries[entry.request_id] = entry
        if len(self._entries) > self._most:
            self._forget(next(iter(self._entries)))

    def take(self, request_id: str, opinion: Opinion, caller: str, *, is_admin: bool) -> Entry:
        """Count it. Raises NoOpinion: another's request is as unknown as one that never was."""
        entry = self._entries.get(request_id)
        if entry is None or not (is_admin or entry.caller == caller):
            raise NoOpinion("This request is not known here, or too long ago.", is_late=False)
        if request_id in self._judged:
            raise NoOpinion("This request has a verdict already.", is_late=True)
        self._judged.add(request_id)
        labels = (entry.pool, entry.band, opinion)
        self._metrics.feedback.labels(*labels).inc()
        for bill in entry.bills:
            bill.when_settled(self._metrics.feedback_gpu_seconds.labels(*labels).inc)
        return entry

    def _forget(self, request_id: str) -> None:
        self._entries.pop(request_id, None)
        self._judged.discard(request_id)
