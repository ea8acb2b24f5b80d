"""Getting a leg to generate: which worker is asked, how often, and what is another worker's business to try.

Retries are invisible, so they end with the first token. What a leg is for, and what comes after it, is the flight's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from budgets import Deadlines
from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.edge.request_id import leg_id
from gateway.engines import Call
from gateway.ledger import Entry
from gateway.leg import Leg, LegFailed
from gateway.pools import Pool, State, Worker

ATTEMPTS = 3
"""Launches of a leg, over all workers, before the client is told; only while nothing was generated."""

SLOT_PATIENCE = 0.5
"""Seconds that a leg waits for the slot of the one before it: elsewhere its whole prompt would be read again."""

FULL_WORKERS = 2
"""Workers that may say in turn that they are full; then the client is told, who can wait better than we can."""

UNTOLD = frozenset({"first", "retry"})
"""The kinds of legs before which the client has been told nothing."""

LEAST_TIME = 1.0
"""Seconds that must be left of the request's time for another try: it would be cut off before its first token."""


class Launcher:
    """A flight's. Notes every launch in the flight's entry. `conversation` names whose prefix the workers may hold
    (`pools.affinity`)."""

    def __init__(self, pool: Pool, entry: Entry, deadlines: Deadlines, conversation: str | None = None) -> None:
        self._pool = pool
        self._entry = entry
        self._deadlines = deadlines
        self._conversation = conversation
        self._lost: list[Worker] = []
        self.worker: Worker | None = None
        """The one asked last."""

    def note_lost(self, worker: Worker) -> None:
        """It has failed this flight in mid-stream: as long as there is another, it is not asked again."""
        self._lost.append(worker)

    @property
    def has_refuge(self) -> bool:
        """Is there a worker that has not failed this flight, and may be asked now?"""
        return self._pool.has_other(self._lost, urgent=True)

    async def launch(
        self,
        make: Callable[[Worker], Call],
        kind: str,
        *,
        stay: Worker | None = None,
        avoid: Worker | None = None,
        fits: Callable[[Worker], bool] | None = None,
    ) -> Leg:
        """A leg that generates: on `stay`, whose cache is warm, if it can; else elsewhere, and not on `avoid` if there
        is another. Raises LegFailed, or ApiError where no worker is ready.

        Back-pressure is honoured: a worker that says 429 or 503 is not asked again, one other may be.
        """
        pool = self._pool
        tried: list[Worker] = []
        shunned = [*self._lost, *([avoid] if avoid is not None else [])]
        full = 0
        urgent = kind not in UNTOLD
        home = stay if stay is not None and stay not in self._lost and self._may_stay(stay) else None
        if home is None:
            await pool.wait_ready(self._deadlines.queue, urgent=urgent)
        elif pool.dialect.has_slots:
            await home.wait_gone(SLOT_PATIENCE)
        pool.retries.note_launch(pool.clock())

        async def attempt() -> Leg:
            nonlocal full
            is_first = not tried
            if home is not None and is_first:
                worker = home
            else:
                worker = pool.pick([*tried, *shunned], fits, self._conversation, urgent=urgent)
            tried.append(worker)
            try:
                return await self._ask(worker, make(worker), kind if is_first else "retry")
            except LegFailed as failed:
                full += failed.is_back_pressure
                raise

        def worth_another_try(error: BaseException) -> bool:
            if not isinstance(error, LegFailed) or not error.retryable:
                return False
            if len(tried) >= ATTEMPTS or not self._has_time:
                return False
            if error.is_back_pressure and (full >= FULL_WORKERS or not pool.has_other(tried, urgent=urgent)):
                return False
            # No engine works on what was never sent, or on what a dead worker has dropped: a worker's death is repaired
            # for all who were on it. What answers with errors, or dies twice, is not asked more than the budget allows.
            is_free = error.verdict.is_unreachable or (error.verdict.is_severed and len(tried) == 1)
            if pool.has_other((), urgent=urgent) and (is_free or pool.retries.take(pool.clock())):
                return True
            pool.note_retry_refused()
            return False

        try:
            return await attempt()
        except LegFailed as failed:
            if not worth_another_try(failed):
                raise
        retrying = AsyncRetrying(
            retry=retry_if_exception(worth_another_try),
            stop=stop_after_attempt(ATTEMPTS - 1),
            wait=wait_random_exponential(multiplier=0.05, max=0.5),
            reraise=True,
        )
        return await retrying(attempt)

    def _may_stay(self, worker: Worker) -> bool:
        """What has begun on a worker that drains may finish there, where its prefix is."""
        return self._pool.is_open(worker) or (worker.state is State.DRAINING and worker.in_flight > 0)

    @property
    def _has_time(self) -> bool:
        now = asyncio.get_running_loop().time()
        return self._entry.started + self._deadlines.total - now > LEAST_TIME

    async def _ask(self, worker: Worker, call: Call, kind: str) -> Leg:
        entry = self._entry
        if entry.dispatched is None:
            entry.dispatched = asyncio.get_running_loop().time()
        entry.kinds.append(kind)
        entry.legs += 1
        entry.worker = worker.name
        self.worker = worker
        names = {REQUEST_ID: leg_id(entry.request_id, entry.legs), "accept": "text/event-stream"}
        headers, trace = {**self._pool.headers, **names}, None
        if entry.trace is not None:
            pool = self._pool
            trace = entry.trace.leg(kind, worker.name, worker.url, pool.config.engine, pool.config.model)
            headers |= trace.headers
        profile = self._pool.profile
        return await Leg.launch(worker, call, profile, self._deadlines, headers, bill=entry.bills[0], trace=trace)
