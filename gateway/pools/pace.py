"""How fast workers generate, and which of them is so much slower than its pool that it is better left alone.

A degraded interconnect or a throttled GPU answers every health check and every canary, at a twentieth of the speed.
Measured is what a stream gets: characters (an event may hold several tokens) for each second that a stream is open.
Only peers are compared, in windows: when all slow down together it is the traffic, and nobody is ejected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from statistics import median
from typing import Generic, TypeVar

from gateway.pools.pool import Pool
from gateway.pools.roster import Cause
from gateway.pools.states import State
from gateway.pools.worker import Worker

WINDOWS = 3
"""Windows in a row in which a worker has to be slow."""

TIMES, DEVIATIONS = 3.0, 5.0
"""Slow: so many times the pool's median of seconds a character, and beyond it by so many median absolute deviations.
Both, since a pool of equals has next to no deviation."""

LEAST_STREAMED = 0.5
"""Streams that a worker needs throughout a window, on average, to be compared at all."""

LEAST_POOL = 3
"""Workers that have to be compared: of two nobody can say which is the slow one."""

MOST_EJECTED = 3
"""At most one in so many workers of a pool is ejected for being slow."""

EJECTED_FOR, LONGEST = 3.0, 60.0
"""Windows, doubling from the one to the other."""

USUAL_WEIGHT = 0.02
"""Of one window in the pool's usual pace: that of the last sixty or so."""

W = TypeVar("W", bound=Hashable)


class PaceJudge(Generic[W]):
    """One pool's. Pure: it is given a window's paces, and says who is to be ejected now."""

    def __init__(self) -> None:
        self._slow: dict[W, int] = {}
        self._usual: float | None = None
        self.ratio = 1.0
        """The pool's median pace in the last window, compared with its usual one."""

    def judge(self, paces: Mapping[W, float], *, pool: int, out: int) -> list[W]:
        """`paces` in characters a stream-second; `pool` workers there are in all, of which `out` are out already."""
        if paces:
            self._note_median(median(paces.values()))
        slow = self._slow_of(paces) if len(paces) >= LEAST_POOL else set[W]()
        self._slow = {one: self._slow.get(one, 0) + 1 for one in slow}
        found = sorted((one for one in slow if self._slow[one] >= WINDOWS), key=lambda one: paces[one])
        ejected = found[: max(0, pool // MOST_EJECTED - out)]
        for one in ejected:
            del self._slow[one]
        return ejected

    def _slow_of(self, paces: Mapping[W, float]) -> set[W]:
        taken = {one: 1 / pace if pace > 0 else float("inf") for one, pace in paces.items()}
        middle = median(taken.values())
        if middle == float("inf"):
            return set()
        deviation = median(abs(seconds - middle) for seconds in taken.values())
        limit = max(TIMES * middle, middle + DEVIATIONS * deviation)
        return {one for one, seconds in taken.items() if seconds > limit}

    def _note_median(self, pace: float) -> None:
        usual = pace if self._usual is None else self._usual
        self.ratio = pace / usual if usual > 0 else 1.0
        self._usual = usual + USUAL_WEIGHT * (pace - usual)


class PaceWatch:
    """Looks at one pool window by window; `on_ratio` is told the pool's pace, compared with its usual one."""

    def __init__(self, pool: Pool, on_ratio: Callable[[str, float], None]) -> None:
        self._pool = pool
        self._on_ratio = on_ratio
        self._judge = PaceJudge[Worker]()
        self._times: dict[Worker, int] = {}

    @property
    def _window(self) -> float:
        return self._pool.config.health.pace_window

    def renew(self, pool: Pool) -> None:
        """The same workers under other settings."""
        self._pool = pool

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._window)
            self.look()

    def look(self) -> None:
        """One window."""
        pool, now = self._pool, self._pool.clock()
        paces: dict[Worker, float] = {}
        for worker in pool.workers:
            said, seconds = worker.stride.take()
            if worker.is_ready and seconds >= LEAST_STREAMED * self._window:
                paces[worker] = said / seconds
        out = sum(worker.state in {State.EJECTED, State.WARMING} for worker in pool.workers)
        for worker in self._judge.judge(paces, pool=len(pool.workers), out=out):
            times = self._times.get(worker, 0)
            self._times[worker] = times + 1
            pool.eject(worker, Cause.SLOW, "it generates much slower than its pool", now + self._span(times))
        self._times = {worker: times for worker, times in self._times.items() if worker in pool.workers}
        self._on_ratio(pool.name, self._judge.ratio)

    def _span(self, times: int) -> float:
        """Seconds of the ejection after so many."""
        return self._window * min(LONGEST, EJECTED_FOR * 2.0 ** min(times, 16))
