"""The watches beside each pool: health, departures, pace, names. Started and stopped pool by pool.

One set of tasks a crew, in the task group of the app. A pool with other settings gets watches with these settings;
what they have learned of workers is the workers', so nothing is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from gateway.pools.crew import Crew
from gateway.pools.departures import DepartureWatch
from gateway.pools.health import HealthWatch
from gateway.pools.membership import Membership
from gateway.pools.pace import PaceWatch
from gateway.pools.pool import Pool
from gateway.pools.role import Role
from gateway.pools.worker import Worker


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
        """Watch a pool and its parts; one of the same crew under other settings is watched no more."""
        for part in pool.parts:
            self._start(part)

    def _start(self, pool: Pool) -> None:
        watched = self._of.setdefault(pool.crew, _Watched(self._group))
        watched.stop()
        watched.run(HealthWatch(pool).run())
        watched.run(DepartureWatch(pool, self._on_departure).run())
        pool.departed.set()  # what a stopped watch was seeing off
        if watched.pace is None and pool.role in {
            Role.UNIFIED,
            Role.DECODE,
        }:  # it knows the pool's usual pace, and no settings
            watched.pace = self._group.create_task(PaceWatch(pool, self._on_pace).run())
        watched.follow(pool)

    def named(self, pool: Pool) -> frozenset[str]:
        """The addresses that a pool's name leads to, now or a moment ago."""
        return self._of[pool.crew].named

    def retire(self, pool: Pool) -> None:
        """A pool that is given to no request any more: nobody new, no word on its pace; the rest until it is over."""
        for part in pool.parts:
            watched = self._of[part.crew]
            watched.stop_pace()
            watched.stop_following()

    def stop(self, pool: Pool) -> None:
        for part in pool.parts:
            watched = self._of.pop(part.crew)
            watched.stop()
            watched.stop_pace()

    def stop_all(self) -> None:
        for watched in self._of.values():
            watched.stop()
            watched.stop_pace()
        self._of.clear()


class _Watched:
    """The tasks of one crew."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._tasks: list[asyncio.Task[None]] = []
        self._membership: Membership | None = None
        self._following: asyncio.Task[None] | None = None
        self.pace: asyncio.Task[None] | None = None

    def run(self, watch: Coroutine[None, None, None]) -> None:
        self._tasks.append(self._group.create_task(watch))

    def follow(self, pool: Pool) -> None:
        """Keep the pool to its name. Whoever another name led to is measured by this one; without any they leave."""
        missed = self._membership.missed if self._membership is not None else {}
        self._membership = None
        if pool.config.discover is not None:
            self._membership = Membership(pool, pool.config.discover, missed=missed)
            self._following = self._group.create_task(self._membership.run())

    @property
    def named(self) -> frozenset[str]:
        return frozenset(self._membership.missed) if self._membership is not None else frozenset()

    def stop(self) -> None:
        self.stop_following()
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    def stop_following(self) -> None:
        if self._following is not None:
            self._following.cancel()
            self._following = None

    def stop_pace(self) -> None:
        if self.pace is not None:
            self.pace.cancel()
            self.pace = None
