"""The end of the service: what runs may finish for a while, and what then still runs is broken off with one error.

Who listens for signals is `server`'s business, what is turned away at the door is `app`'s; how a flight ends its legs
is the flight's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, Self

from gateway.edge.errors import ApiError, shutting_down

LAST_WORD = 5.0
"""Seconds that broken-off work has to tell its client; one that does not read is not waited for any longer."""


class Work(Protocol):
    """Something that runs for a client. `break_off` ends it with this error, or does nothing where it is over."""

    def break_off(self, error: ApiError) -> None: ...


class Limit:
    """`async with` a time limit that raises an ApiError: `late` after `seconds`, or what it is broken off with before.

    A cancellation from elsewhere stays one, as with `asyncio.timeout`.
    """

    def __init__(self, seconds: float | None, late: ApiError) -> None:
        self._error = late
        self._timeout = asyncio.timeout(seconds)
        self._is_inside = False
        self._is_broken = False

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._is_inside = True
        if self._is_broken:
            self._expire()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_inside = False
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise self._error from None

    def break_off(self, error: ApiError) -> None:
        if not self._timeout.expired() and not self._is_broken:
            self._error = error
            self._is_broken = True
            if self._is_inside:
                self._expire()

    def _expire(self) -> None:
        self._timeout.reschedule(asyncio.get_running_loop().time())


class Closing:
    """Open until `begin`; one a process."""

    def __init__(self) -> None:
        self.has_begun = False
        """Nothing new is taken in."""
        self._has_begun = asyncio.Event()
        self._patience_is_over = asyncio.Event()
        self._running: set[Work] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def begin(self) -> None:
        """Drain; said once more, break off what runs now."""
        if self.has_begun:
            self._patience_is_over.set()
        self.has_begun = True
        self._has_begun.set()

    @contextmanager
    def running(self, work: Work) -> Generator[None]:
        """As long as this is open, the process waits for `work`, or breaks it off."""
        if self._patience_is_over.is_set():
            work.break_off(shutting_down())
        self._running.add(work)
        self._is_idle.clear()
        try:
            yield
        finally:
            self._running.discard(work)
            if not self._running:
                self._is_idle.set()

    async def wait(self) -> None:
        """Until it is begun."""
        await self._has_begun.wait()

    async def drain(self, patience: float) -> bool:
        """Wait for what runs, `patience` seconds at most and no longer than nobody hurries; break off the rest, and
        wait until its clients are told. Does nothing run any more?"""
        if not await self._settles(patience):
            self._patience_is_over.set()
            for work in tuple(self._running):
                work.break_off(shutting_down())
        return await self._settles(LAST_WORD, even_if_hurried=True)

    async def _settles(self, patience: float, *, even_if_hurried: bool = False) -> bool:
        waits = [asyncio.ensure_future(self._is_idle.wait())]
        if not even_if_hurried:
            waits.append(asyncio.ensure_future(self._patience_is_over.wait()))
        await asyncio.wait(waits, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        return self._is_idle.is_set()
