"""One request before any of its answer was told: which worker is asked after which, how often, and when the client is.

The same for legs of a flight and for what is passed through. What is asked of a worker is the caller's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import TypeVar

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from gateway.leg import LegFailed
from gateway.pools import Pool, Worker

ATTEMPTS = 3
"""Requests to workers, over all of them, before the client is told; only while nothing was generated."""

FULL_WORKERS = 2
"""Workers that may say in turn that they are full; then the client is told, who can wait better than we can."""

LEAST_TIME = 1.0
"""Seconds that must be left of the request's time for another try: it would be cut off before its first token."""

T = TypeVar("T")


@dataclass(slots=True)
class Attempts:
    """`until`: when the request's time is over, on the loop's clock. `shunned` are asked only where there is nobody
    else, and who does not fit (`fits`) likewise. `conversation` names whose prefix the workers may hold. `urgent`: the
    client has seen a part of the answer already."""

    pool: Pool
    until: float
    shunned: Collection[Worker] = ()
    fits: Callable[[Worker], bool] | None = None
    conversation: str | None = None
    urgent: bool = False
    tried: list[Worker] = field(default_factory=list[Worker])
    failed_before: list[Worker] = field(default_factory=list[Worker])
    """Those that should have prefilled, and have failed: others are chosen for the next attempt."""
    _spared: list[Worker] = field(default_factory=list[Worker])
    """Tried, and not to blame."""
    _full: int = 0
    _severed: int = 0
    """Workers that died under it."""

    async def run(self, ask: Callable[[Worker], Awaitable[T]], home: Worker | None = None) -> T:
        """What `ask` gives of the first worker that can: `home`, else whom the pool picks. Raises LegFailed, or
        ApiError where no worker is ready."""
        self.pool.retries.note_launch(self.pool.clock())
        try:
            return await self._attempt(ask, home)
        except LegFailed as failed:
            if not self._is_worth_another(failed):
                raise
        retrying = AsyncRetrying(
            retry=retry_if_exception(self._is_worth_another),
            stop=stop_after_attempt(ATTEMPTS - 1),
            wait=wait_random_exponential(multiplier=0.05, max=0.5),
            reraise=True,
        )
        return await retrying(self._attempt, ask, None)

    async def _attempt(self, ask: Callable[[Worker], Awaitable[T]], home: Worker | None) -> T:
        worker = home
        if worker is None:
            avoided = [*(worker for worker in self.tried if worker not in self._spared), *self.shunned]
            worker = self.pool.pick(avoided, self.fits, self.conversation, urgent=self.urgent)
        self.tried.append(worker)
        try:
            return await ask(worker)
        except LegFailed as failed:
            self._full += failed.is_back_pressure
            self._severed += failed.verdict.is_severed
            if failed.culprit is not None:
                self._spared.append(worker)
                self.failed_before.append(failed.culprit)
            elif worker in self._spared:
                self._spared.remove(worker)
            raise

    def _is_worth_another(self, error: BaseException) -> bool:
        """Back-pressure is honoured: a worker that says 429 or 503 is not asked again, one other may be."""
        if not isinstance(error, LegFailed) or not error.retryable:
            return False
        if len(self.tried) >= ATTEMPTS or self._has_no_time:
            return False
        pool = self.pool
        if error.culprit is None:
            has_other = pool.has_other(self.tried, urgent=self.urgent)
        else:
            has_other = pool.has_other_before(self.failed_before, urgent=self.urgent)
        if error.is_back_pressure and (self._full >= FULL_WORKERS or not has_other):
            return False
        if pool.has_other((), urgent=self.urgent) and (self._is_free(error) or pool.retries.take(pool.clock())):
            return True
        pool.note_retry_refused()
        return False

    def _is_free(self, error: LegFailed) -> bool:
        """No engine works on what was never sent, or on what a dead worker has dropped: a worker's death is repaired
        for all who were on it. What answers with errors, or dies twice, is not asked more than the budget allows."""
        return error.verdict.is_unreachable or (error.verdict.is_severed and self._severed == 1)

    @property
    def _has_no_time(self) -> bool:
        return self.until - asyncio.get_running_loop().time() <= LEAST_TIME
