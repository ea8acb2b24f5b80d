"""The one entry every flight leaves behind: how it ended, what it took, what it gave. Metrics and one log line.

Written synchronously, so that no cancellation can lose it. No prompt, no key, no text of an answer ever comes in.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from time import time
from typing import Any, Protocol

import structlog

from budgets.loops import Finding
from gateway.observe.metrics import Metrics

log = structlog.get_logger("thinkgate.flight")


class Outcome(StrEnum):
    """How a flight ended."""

    ANSWERED = "answered"
    CUT_ANSWERED = "cut_answered"
    LOOP_RESCUED = "loop_rescued"
    MIGRATED = "migrated"
    """Answered, after a worker was lost in the midst of it."""
    LENGTH = "length"
    LOOP = "loop"
    """Its answer looped, or its thought did and could not be rescued: it was ended."""
    REJECTED = "rejected"
    CLIENT_GONE = "client_gone"
    SHUT_DOWN = "shut_down"
    """Broken off, because the gateway itself ended."""
    FAILED = "failed"


class EndedBy(StrEnum):
    """What ended a thought."""

    MODEL = "model"
    CAP = "cap"
    DEADLINE = "deadline"
    LOOP = "loop"
    STOP = "stop"
    """The model stopped in mid-thought; the gateway closed it and went on to the answer."""


class LoopDone(StrEnum):
    """What was done about a loop."""

    OBSERVED = "observed"
    RESCUED = "rescued"
    """Cut out of the thought, which went on to its answer."""
    AFRESH = "afresh"
    """The answer was asked for once more, without thinking, elsewhere."""
    ENDED = "ended"
    ELSEWHERE = "elsewhere"
    """Nothing had been told: another worker was asked."""


@dataclass(frozen=True, slots=True)
class LoopNote:
    """`saved` in tokens: what the thought could still have cost."""

    finding: Finding
    done: LoopDone
    worker: str
    saved: int = 0

    def shown(self) -> dict[str, Any]:
        """For the client and the sample log; no text."""
        found = self.finding
        return {
            "channel": found.channel,
            "kind": found.kind,
            "action": self.done,
            "onset": found.onset,
            "found_at": found.at,
            "period": found.period,
            "copies": round(found.copies, 1),
            "confidence": found.confidence,
            "fingerprint": found.fingerprint,
            "reason": found.reason,
        }


@dataclass(slots=True)
class Entry:
    """Times in seconds of the event loop's clock, tokens as counted; `injected` are closing phrases and lead-ins."""

    request_id: str
    caller: str
    route: str
    pool: str
    complexity: float
    started: float
    outcome: Outcome = Outcome.FAILED
    worker: str = ""
    status: int = 200
    legs: int = 0
    cap: int | None = None
    prompt: int = 0
    cached: int = 0
    reasoning: int = 0
    answer: int = 0
    injected: int = 0
    ended_by: EndedBy | None = None
    first_token: float | None = None
    first_answer_token: float | None = None
    overran_on: str = ""
    """The worker that thought on past the cap it was told."""
    wasted: int = 0
    """Tokens that were generated and never told: a sick worker's."""
    problem: str = ""
    loops: list[LoopNote] = field(default_factory=list[LoopNote])
    kinds: list[str] = field(default_factory=list[str])


class Books(Protocol):
    """Where entries go."""

    def begin(self, entry: Entry) -> None: ...
    def close(self, entry: Entry, now: float) -> None: ...


class Ledger:
    """`samples`: loops that are remembered, newest last."""

    def __init__(self, metrics: Metrics, samples: int = 0) -> None:
        self._metrics = metrics
        self.samples: deque[dict[str, Any]] = deque(maxlen=samples)

    def keep_samples(self, samples: int) -> None:
        """Remember so many from now on, of those found so far the newest."""
        self.samples = deque(self.samples, maxlen=samples)

    def begin(self, entry: Entry) -> None:
        self._metrics.in_flight.labels(entry.pool).inc()

    def close(self, entry: Entry, now: float) -> None:
        """Once a flight, whatever became of it."""
        metrics, pool = self._metrics, entry.pool
        metrics.in_flight.labels(pool).dec()
        metrics.requests.labels(entry.route, pool, entry.outcome).inc()
        metrics.duration.labels(pool, entry.outcome).observe(now - entry.started)
        for kind in entry.kinds:
            metrics.legs.labels(pool, kind).inc()
        if entry.first_token is not None:
            metrics.first_token.labels(pool).observe(entry.first_token - entry.started)
        if entry.first_answer_token is not None:
            metrics.first_answer_token.labels(pool).observe(entry.first_answer_token - entry.started)
        if entry.overran_on:
            metrics.native_overruns.labels(pool, entry.overran_on).inc()
        if entry.ended_by is not None:
            metrics.thinking_ended.labels(pool, entry.ended_by).inc()
        self._close_loops(entry)
        for kind in ("prompt", "cached", "reasoning", "answer", "injected", "wasted"):
            if count := getattr(entry, kind):
                metrics.tokens.labels(pool, kind).inc(count)
        write = log.warning if entry.outcome is Outcome.FAILED else log.info
        write(
            "flight",
            request_id=entry.request_id,
            key=entry.caller,
            route=entry.route,
            pool=pool,
            worker=entry.worker,
            outcome=str(entry.outcome),
            seconds=round(now - entry.started, 3),
            complexity=round(entry.complexity, 3),
            cap=entry.cap,
            reasoning=entry.reasoning,
            answer=entry.answer,
            legs=entry.legs,
            **({"loops": [note.done for note in entry.loops]} if entry.loops else {}),
            **({"status": entry.status, "problem": entry.problem} if entry.problem else {}),
        )

    def _close_loops(self, entry: Entry) -> None:
        metrics, pool = self._metrics, entry.pool
        for note in entry.loops:
            metrics.loops.labels(pool, note.finding.channel, note.finding.kind, note.done).inc()
            if note.saved:
                metrics.loop_tokens_saved.labels(pool).inc(note.saved)
            self.samples.append({"time": round(time(), 3), "pool": pool, "worker": note.worker, **note.shown()})
        if any(note.done in {LoopDone.RESCUED, LoopDone.AFRESH} for note in entry.loops):
            result = "answered" if entry.outcome is Outcome.LOOP_RESCUED else str(entry.outcome)
            metrics.loop_rescues.labels(pool, result).inc()
