"""The watches beside each pool: health, departures, pace, names. Started and stopped pool by pool.

One set of tasks a crew, in the task group of the app. When a pool's settings change its watches go on with the new
ones: a canary that is under way while kernels are compiled is not begun anew because somebody changed a timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.pools.crew import Crew
from gateway.pools.departures import DepartureWatch
from gateway.pools.health import HealthWatch
from gateway.pools.membership import Membership
from gateway.pools.pace import PaceWatch
from gateway.pools.pool import Pool
from gateway.pools.role import Role
from gateway.pools.worker import Worker


@dataclass(slots=True)
class _Watched:
    """The watches of one crew. `asking` are the tasks that ask its workers."""

    pool: Pool
    health: HealthWatch
    departures: DepartureWatch
    asking: list[asyncio.Task[None]]
    pace: PaceWatch | None
    """None for those who stream nothing."""
    pacing: list[asyncio.Task[None]]
    membership: Membership | None = None
    following: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])


class Watches:
    """All pools'. `on_departure` and `on_pace` as `DepartureWatch` and `PaceWatch` call them."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        on_departure: Callable[[Pool, Worker, float, bool], None],
        on_pace: Callable[[str, float], None],
    ) -> None:
        self._group = group
        self._on_departure = on_departure
        self._on_pace = on_pace
        self._of: dict[Crew, _Watched] = {}

    def start(self, pool: Pool) -> None:
        """Watch a pool, and its parts."""
        for part in pool.parts:
            self._start(part)

    def _start(self, pool: Pool) -> None:
        health, departures = HealthWatch(pool), DepartureWatch(pool, self._on_departure)
        asking = [self._group.create_task(watch.run()) for watch in (health, departures)]
        streams = pool.role in {Role.UNIFIED, Role.DECODE}
        pace = PaceWatch(pool, self._on_pace) if streams else None
        pacing = [self._group.create_task(pace.run())] if pace is not None else []
        self._of[pool.crew] = watched = _Watched(pool, health, departures, asking, pace, pacing)
        self._follow(watched, {})

    def renew(self, pool: Pool) -> None:
        """Go on under these settings. Another key is presented by other clients only: those watches start anew."""
        for part in pool.parts:
            self._renew(part)

    def _renew(self, pool: Pool) -> None:
        watched = self._of[pool.crew]
        if pool.headers != watched.pool.headers:
            _cancel(watched.asking)
            watched.health, watched.departures = HealthWatch(pool), DepartureWatch(pool, self._on_departure)
            watched.asking = [self._group.create_task(watch.run()) for watch in (watched.health, watched.departures)]
            pool.departed.set()  # what the watch before was seeing off
        watched.pool = pool
        watched.health.renew(pool)
        watched.departures.renew(pool)
        if watched.pace is not None:
            watched.pace.renew(pool)
        # Whoever another name led to is measured by this one.
        self._follow(watched, watched.membership.missed if watched.membership is not None else {})

    def named(self, pool: Pool) -> frozenset[str]:
        """The addresses that a pool's name leads to, now or a moment ago."""
        membership = self._of[pool.crew].membership
        return frozenset(membership.missed) if membership is not None else frozenset()

    def retire(self, pool: Pool) -> None:
        """One that is given to no request any more: nobody new, no word on its pace; the rest until it is stopped."""
        for part in pool.parts:
            watched = self._of[part.crew]
            _cancel(watched.pacing)
            _cancel(watched.following)

    def stop(self, pool: Pool) -> None:
        for part in pool.parts:
            self._stop(self._of.pop(part.crew))

    def stop_all(self) -> None:
        for watched in self._of.values():
            self._stop(watched)
        self._of.clear()

    def _stop(self, watched: _Watched) -> None:
        _cancel(watched.pacing)
        _cancel(watched.asking)
        _cancel(watched.following)

    def _follow(self, watched: _Watched, missed: dict[str, int]) -> None:
        """Keep a pool to its name."""
        _cancel(watched.following)
        url = watched.pool.config.discover
        watched.membership = None if url is None else Membership(watched.pool, url, missed=missed)
        if watched.membership is not None:
            watched.following.append(self._group.create_task(watched.membership.run()))


def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    tasks.clear()
