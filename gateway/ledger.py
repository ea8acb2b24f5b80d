"""The one entry every flight leaves behind: how it ended, what it took, what it gave. Metrics and one log line.

Written synchronously, so that no cancellation can lose it. No prompt, no key, no text of an answer ever comes in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from time import time
from typing import Any, Protocol

import structlog

from budgets import native_limit
from budgets.loops import Finding
from gateway.bands import Band
from gateway.observe.metrics import Metrics
from gateway.observe.trace import FlightTrace, Landed
from gateway.pools.meter import Bill
from router import Route

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
    band: Band = Band.UNGRADED
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
    dispatched: float | None = None
    """When a worker was asked first."""
    first_token: float | None = None
    first_answer_token: float | None = None
    began_with_thought: bool = False
    overran_on: str = ""
    """The worker that thought on past the cap it was told."""
    wasted: int = 0
    """Tokens that were generated and never told: a sick worker's."""
    trimmed: int = 0
    """Tokens of thought, part of `reasoning`, that were told and thrown away at a cut: a loop, a broken sentence."""
    choices: int = 1
    """Flights that this one is made of."""
    bills: list[Bill] = field(default_factory=lambda: [Bill()])
    """Its own first, and those of the flights it is made of."""
    gpu_hour_price: float | None = None
    trace: FlightTrace | None = None
    problem: str = ""
    loops: list[LoopNote] = field(default_factory=list[LoopNote])
    kinds: list[str] = field(default_factory=list[str])


ANSWERS = frozenset({Outcome.ANSWERED, Outcome.CUT_ANSWERED, Outcome.LOOP_RESCUED, Outcome.MIGRATED})
"""What counts as success: an answer that ended by itself. Not one that ran into its limit, looped or failed."""

MOST_KEYS = 200
"""Aliases of keys that get series of their own; all beyond them share `OTHER_KEYS`."""
OTHER_KEYS = "(others)"

KINDS = ("prompt", "cached", "reasoning", "answer", "injected", "trimmed", "wasted")
"""Of tokens, as the entry names them."""


class Books(Protocol):
    """Where entries go."""

    def begin(self, entry: Entry) -> None: ...
    def close(self, entry: Entry, now: float) -> None: ...


class Ledger:
    """`samples`: loops that are remembered, newest last. `remember` is told of every flight that is over."""

    def __init__(self, metrics: Metrics, samples: int = 0, remember: Callable[[Entry], None] | None = None) -> None:
        self._metrics = metrics
        self.samples: deque[dict[str, Any]] = deque(maxlen=samples)
        self._remember = remember
        self._keys: set[str] = set()

    def expect(self, pool: str) -> None:
        """Series that start at 0: what first appears at 1 has no rate, and an alert would miss it."""
        metrics = self._metrics
        for route in Route:
            for outcome in Outcome:
                metrics.requests.labels(route, pool, outcome)
        for by in EndedBy:
            metrics.thinking_ended.labels(pool, by)
        for kind in KINDS:
            metrics.tokens.labels(pool, kind)
        for held in ("yes", "no"):
            metrics.caps_held.labels(pool, held)
        for kind in ("first", "retry", "answer", "migrated"):
            metrics.legs.labels(pool, kind)
        for one in (metrics.in_flight, metrics.retries_refused, metrics.loop_tokens_saved, metrics.gpu_busy,
                    metrics.gpu_pending, metrics.gpu_unattributed):  # fmt: skip
            one.labels(pool)

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
        if entry.outcome in ANSWERS:
            metrics.successes.labels(pool, entry.route, entry.band).inc()
        for kind in entry.kinds:
            metrics.legs.labels(pool, kind).inc()
        if entry.overran_on:
            metrics.native_overruns.labels(pool, entry.overran_on).inc()
        if entry.ended_by is not None:
            metrics.thinking_ended.labels(pool, entry.ended_by).inc()
        self._close_times(entry, now)
        self._close_loops(entry)
        self._close_tokens(entry)
        self._close_gpu(entry)
        if self._remember is not None:
            self._remember(entry)
        if entry.trace is not None:
            entry.trace.landed(_landed(entry))
        _log_line(entry, now)

    def _close_times(self, entry: Entry, now: float) -> None:
        metrics, pool, began = self._metrics, entry.pool, entry.started
        metrics.duration.labels(pool, entry.outcome).observe(now - began)
        if entry.dispatched is not None:
            metrics.queue.labels(pool).observe(entry.dispatched - began)
        if entry.first_token is None:
            return
        metrics.first_token.labels(pool).observe(entry.first_token - began)
        if entry.first_answer_token is not None:
            metrics.first_answer_token.labels(pool).observe(entry.first_answer_token - began)
        generated = entry.reasoning + entry.answer - entry.injected
        if entry.choices == 1 and generated > 1:
            metrics.output_token.labels(pool).observe((now - entry.first_token) / (generated - 1))
        if entry.began_with_thought:
            thought_ended = now if entry.first_answer_token is None else entry.first_answer_token
            metrics.thinking_seconds.labels(pool, entry.band).observe(thought_ended - entry.first_token)

    def _close_tokens(self, entry: Entry) -> None:
        metrics, pool = self._metrics, entry.pool
        key = self._key_of(entry.caller)
        metrics.key_requests.labels(key, entry.outcome).inc()
        for kind in KINDS:
            if count := getattr(entry, kind):
                metrics.tokens.labels(pool, kind).inc(count)
                if kind in {"prompt", "reasoning", "answer"}:
                    metrics.key_tokens.labels(key, kind).inc(count)
        if not entry.reasoning:
            return
        metrics.thinking_tokens.labels(pool, entry.band).observe(entry.reasoning / entry.choices)
        cap = entry.cap
        if cap is not None and entry.choices == 1:
            own = entry.reasoning - entry.injected  # words put into the thought are not the model's
            metrics.caps_held.labels(pool, "yes" if own < native_limit(cap) else "no").inc()

    def _close_gpu(self, entry: Entry) -> None:
        """What it cost is known with the next poll of its workers."""
        for bill in entry.bills:
            bill.when_settled(partial(self._book_gpu, entry))
            bill.close()

    def _book_gpu(self, entry: Entry, seconds: float) -> None:
        if not seconds:
            return
        metrics, pool = self._metrics, entry.pool
        metrics.gpu_pending.labels(pool).dec(seconds)
        metrics.gpu_seconds.labels(pool, entry.route, entry.outcome).inc(seconds)
        metrics.gpu_band_seconds.labels(pool, entry.band).inc(seconds)
        if entry.gpu_hour_price is not None:
            metrics.gpu_cost.labels(pool, entry.route, entry.outcome).inc(seconds / 3600 * entry.gpu_hour_price)

    def _key_of(self, alias: str) -> str:
        if alias not in self._keys and len(self._keys) >= MOST_KEYS:
            return OTHER_KEYS
        self._keys.add(alias)
        return alias

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


def _landed(entry: Entry) -> Landed:
    return Landed(
        outcome=str(entry.outcome),
        prompt=entry.prompt,
        completion=entry.reasoning + entry.answer,
        reasoning=entry.reasoning,
        legs=entry.legs,
        ended_by=None if entry.ended_by is None else str(entry.ended_by),
        status=entry.status,
        problem=entry.problem,
    )


def _log_line(entry: Entry, now: float) -> None:
    """One a flight. Numbers, names from the config and enums; no text of anybody's."""
    write = log.warning if entry.outcome is Outcome.FAILED else log.info
    write(
        "flight",
        request_id=entry.request_id,
        key=entry.caller,
        route=entry.route,
        pool=entry.pool,
        worker=entry.worker,
        outcome=str(entry.outcome),
        seconds=round(now - entry.started, 3),
        complexity=round(entry.complexity, 3),
        cap=entry.cap,
        prompt=entry.prompt,
        reasoning=entry.reasoning,
        answer=entry.answer,
        legs=entry.legs,
        **_seconds(entry, queue=entry.dispatched, first_token=entry.first_token, first_answer=entry.first_answer_token),
        **({"ended_by": str(entry.ended_by)} if entry.ended_by is not None else {}),
        **({"loops": [str(note.done) for note in entry.loops]} if entry.loops else {}),
        **({"status": entry.status, "problem": entry.problem} if entry.problem else {}),
    )


def _seconds(entry: Entry, **moments: float | None) -> dict[str, float]:
    """Those that came, counted from the request's arrival."""
    return {name: round(at - entry.started, 3) for name, at in moments.items() if at is not None}
