"""Workers and pools come and go with the config file: taken in, drained, and forgotten once nothing runs there.

`look` is called again and again, since what drains takes its time. What has to come and go is `changes`'.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.pools.pool import Pool
from gateway.pools.roster import short
from gateway.pools.states import State


def turn_over(pool: Pool, came: Iterable[str], left: Iterable[str]) -> None:
    """Drain those that left, and take in those that came: at once, or when the last of their name has gone. One that
    is there already, for an administrator took it in, is the file's from now on."""
    crew = pool.crew
    for url in left:
        if url in crew.awaited:
            crew.awaited.remove(url)
        worker = pool.find(url)
        if worker is not None:
            crew.leavers += [worker] if worker not in crew.leavers else []
            pool.drain(worker)
    crew.awaited += [url for url in came if not _is_there(pool, url)]
    look(pool)


def look(pool: Pool) -> None:
    """Forget who has gone, and take in who waited for that. A flight may have come back to one that had gone: it is
    not cut off."""
    crew = pool.crew
    for worker in [worker for worker in crew.leavers if worker.state is State.GONE and not worker.in_flight]:
        crew.leavers.remove(worker)
        if worker in pool.workers:
            pool.remove(worker)
    for url in list(crew.awaited):
        known = pool.find(short(url))
        if known is None or known.state is State.GONE:
            crew.awaited.remove(url)
            pool.add(url)


def is_over(pool: Pool) -> bool:
    """Does nothing use a pool that nobody is given any more? Then it may be closed."""
    workers = (worker for part in pool.parts for worker in part.workers)
    return not pool.crew.guests and not any(worker.in_flight or worker.leaving for worker in workers)


def disband(pool: Pool) -> None:
    """Forget all its workers."""
    for part in pool.parts:
        for worker in list(part.workers):
            part.remove(worker)


def _is_there(pool: Pool, url: str) -> bool:
    known = pool.find(url)
    return known is not None and known.state not in {State.DRAINING, State.GONE}
