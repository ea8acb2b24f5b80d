"""Getting a leg to generate: which worker is asked, how often, and what is another worker's business to try.

Retries are invisible, so they end with the first token. What a leg is for, and what comes after it, is the flight's.
"""

from __future__ import annotations

from collections.abc import Callable

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from budgets import Deadlines
from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.edge.request_id import leg_id
from gateway.engines import Call
from gateway.ledger import Entry
from gateway.leg import Leg, LegFailed
from gateway.pools import Pool, Worker

ATTEMPTS = 3
"""Launches of a leg, over all workers, before the client is told; only while nothing was generated."""


class Launcher:
    """A flight's. Notes every launch in the flight's entry."""

    def __init__(self, pool: Pool, entry: Entry, deadlines: Deadlines) -> None:
        self._pool = pool
        self._entry = entry
        self._deadlines = deadlines
        self.worker: Worker | None = None
        """The one asked last."""

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

        Back-pressure is honoured: a worker that says 429 or 503 is not asked again, another one may be.
        """
        tried: list[Worker] = []
        await self._pool.wait_ready(self._deadlines.queue)

        async def attempt() -> Leg:
            is_first = not tried
            shunned = [*tried, avoid] if avoid is not None else tried
            worker = stay if stay is not None and stay.is_ready and is_first else self._pool.pick(shunned, fits)
            tried.append(worker)
            return await self._ask(worker, make(worker), kind if is_first else "retry")

        def worth_another_try(error: BaseException) -> bool:
            if not isinstance(error, LegFailed) or not error.retryable:
                return False
            untried = any(worker.is_ready and worker not in tried for worker in self._pool.workers)
            return untried or not error.is_back_pressure

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

    async def _ask(self, worker: Worker, call: Call, kind: str) -> Leg:
        entry = self._entry
        entry.kinds.append(kind)
        entry.legs += 1
        entry.worker = worker.name
        self.worker = worker
        names = {REQUEST_ID: leg_id(entry.request_id, entry.legs), "accept": "text/event-stream"}
        return await Leg.launch(worker, call, self._pool.profile, self._deadlines, {**self._pool.headers, **names})
