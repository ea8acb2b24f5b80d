"""Sees to it that an aborted leg is really gone: the engine's own count is looked at before its KV counts as free.

Closing a connection asks an engine to stop; some take their time, some have been seen to run on. One task a pool, which
sleeps while nothing leaves. What follows from it (who is picked) is the pool's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from time import monotonic

import httpx
import structlog

from gateway.pools.asking import asker, asking_client
from gateway.pools.pool import Pool
from gateway.pools.worker import Worker

log = structlog.get_logger("thinkgate.departures")

FIRST_LOOK, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two looks, doubling from the one to the other: vLLM drops a request within 0.2 s."""

PATIENCE = 30.0
"""Seconds after which a leg that still seems to run is given up on; it is counted, and no longer waited for."""


LAST_LOOK = 5.0
"""Seconds that the end of the process waits for its aborted legs to be gone; engines stop without being watched too."""


async def all_gone(pools: Iterable[Pool]) -> None:
    """Until nothing leaves anywhere, as far as the watches see it; `LAST_LOOK` seconds at most."""
    await asyncio.gather(
        *(worker.wait_gone(LAST_LOOK) for pool in pools for part in pool.parts for worker in part.workers)
    )


class DepartureWatch:
    """`on_end` is told of every worker whose legs have gone: the seconds it took, and whether they really have."""

    def __init__(self, pool: Pool, on_end: Callable[[Pool, Worker, float, bool], None]) -> None:
        self._pool = pool
        self._on_end = on_end
        self._client = asking_client(pool.config, pool.headers)

    def renew(self, pool: Pool) -> None:
        """The same workers under other settings; the key they want is the one that was."""
        self._pool = pool

    async def run(self) -> None:
        """Until cancelled."""
        looks: dict[Worker, asyncio.Task[None]] = {}
        try:
            while True:
                await self._pool.departed.wait()
                self._pool.departed.clear()
                for worker in self._pool.workers:
                    look = looks.get(worker)
                    if worker.leaving and (look is None or look.done()):
                        looks[worker] = asyncio.create_task(self._see_off(worker))
                for worker in [worker for worker, look in looks.items() if look.done()]:
                    del looks[worker]
        finally:
            for look in looks.values():
                look.cancel()
            await asyncio.gather(*looks.values(), return_exceptions=True)
            await self._client.aclose()

    async def _see_off(self, worker: Worker) -> None:
        """Look until the engine runs no more than it should; legs that leave in the meantime are waited for too."""
        began, pause, most = monotonic(), FIRST_LOOK, 0
        while worker.leaving:
            await asyncio.sleep(pause)
            leaving = worker.leaving
            running = await self._running(worker)
            if running is None:  # it does not say, or not now: nothing is known of it, so nothing is held against it
                self._note_gone(worker, worker.leaving)
                return
            most = max(most, running)
            has_gone = running <= worker.in_flight + worker.strangers or running <= most - leaving
            if has_gone or monotonic() - began > PATIENCE:
                self._note_gone(worker, leaving)
                self._on_end(self._pool, worker, monotonic() - began, has_gone)
                if not has_gone:
                    log.warning("an aborted request seems to run on", pool=self._pool.name, worker=worker.name)
                began, pause, most = monotonic(), FIRST_LOOK, 0  # those that left meanwhile are a case of their own
                continue
            pause = min(2 * pause, LONGEST_PAUSE)

    def _note_gone(self, worker: Worker, legs: int) -> None:
        worker.note_gone(legs)
        self._pool.let_go_if_empty(worker)

    async def _running(self, worker: Worker) -> int | None:
        try:
            load = await self._pool.dialect.load(asker(self._client, worker, self._pool.config.health.timeout))
        except httpx.HTTPError:
            return None
        return None if load is None else load.running + load.waiting
