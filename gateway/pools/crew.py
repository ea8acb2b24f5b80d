"""What a pool keeps when its settings change: the workers it has, who waits for them, and who is told of them.

A pool with other settings is another `Pool` over the same crew. Requests keep the pool they were given, and with it the
settings they began under; workers, breakers, budgets and counts are the same for all. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from random import Random
from time import monotonic
from typing import Protocol

from gateway.pools.handoff.witness import Witness
from gateway.pools.meter import Use
from gateway.pools.retries import RetryBudget
from gateway.pools.role import Role
from gateway.pools.verdict import Verdict
from gateway.pools.worker import Worker


class Cause(StrEnum):
    """Why a worker was ejected."""

    FAILURES = "failures"
    UNREACHABLE = "unreachable"
    FLOOD = "flood"
    HEALTH = "health"
    WARM_UP = "warm_up"
    SLOW = "slow"


class Listener(Witness, Protocol):
    """Who is told what happens to workers; for metrics."""

    def moved(self, pool: str, worker: Worker) -> None: ...
    def ejected(self, pool: str, worker: Worker, cause: Cause) -> None: ...
    def judged(self, pool: str, worker: Worker, verdict: Verdict) -> None: ...
    def flooded(self, pool: str, worker: Worker) -> None: ...
    def retry_refused(self, pool: str) -> None: ...
    def measured(self, pool: str, worker: Worker) -> None: ...
    def removed(self, pool: str, worker: Worker) -> None: ...


class Crew:
    """Mutable on the event loop only."""

    def __init__(self) -> None:
        self.parts: dict[Role, Crew] = {}
        """Those who prefill and encode for them."""
        self.workers: list[Worker] = []
        self.leavers: list[Worker] = []
        """Those of the workers that are forgotten once they have gone."""
        self.awaited: list[str] = []
        """Addresses to be taken in once a worker of the same name has gone."""
        self.guests = 0
        """Requests that were given this pool and have not ended."""
        self.clock: Callable[[], float] = monotonic
        self.departed = asyncio.Event()
        self.got_ready = asyncio.Event()
        self.problem = ""
        self.listener: Listener | None = None
        self.accounts: Callable[[str, Use], None] | None = None
        """Is told the time that requests take of workers, also of those which are shown to nobody any more."""
        self.retries = RetryBudget()
        self.random = Random()  # noqa: S311 - to spread load, not to keep a secret


class Crewed:
    """A crew's things under its pool's name."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.departed = crew.departed
        """Set when a leg has left one of the workers before its end."""
        self.retries = crew.retries
        self.random = crew.random

    @property
    def workers(self) -> list[Worker]:
        return self.crew.workers

    @workers.setter
    def workers(self, workers: list[Worker]) -> None:
        self.crew.workers = workers

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds; a test may bring its own."""
        return self.crew.clock

    @clock.setter
    def clock(self, clock: Callable[[], float]) -> None:
        self.crew.clock = clock

    @property
    def problem(self) -> str:
        """Why there can be no worker at all; for the embedded engine, which may be missing or given up."""
        return self.crew.problem

    @problem.setter
    def problem(self, problem: str) -> None:
        self.crew.problem = problem

    @property
    def listener(self) -> Listener | None:
        return self.crew.listener

    @listener.setter
    def listener(self, listener: Listener | None) -> None:
        self.crew.listener = listener
        for part in self.crew.parts.values():
            part.listener = listener

    def account(self, accounts: Callable[[str, Use], None]) -> None:
        """Tell it what requests take of these workers, and of those of their other roles."""
        for crew in (self.crew, *self.crew.parts.values()):
            crew.accounts = accounts
