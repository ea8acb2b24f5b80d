"""Time for leases and time-outs: it passes only when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class Timer:
    at: float
    act: Callable[[], None]


class Clock:
    """Seconds since the test began. Everything here runs on the doubles' loop."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[Timer] = []

    def after(self, seconds: float, act: Callable[[], None]) -> Timer:
        timer = Timer(self.now + seconds, act)
        self._timers.append(timer)
        return timer

    def cancel(self, timer: Timer | None) -> None:
        if timer in self._timers:
            self._timers.remove(timer)

    async def sleep(self, seconds: float) -> None:
        """Until so many of these seconds have passed."""
        over = asyncio.Event()
        timer = self.after(seconds, over.set)
        try:
            await over.wait()
        finally:
            self.cancel(timer)

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        """Until the event, but not longer than so many of these seconds; whether it came."""
        over = asyncio.Event()
        timer = self.after(seconds, over.set)
        waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(over.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return event.is_set()
        finally:
            self.cancel(timer)
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def advance(self, seconds: float) -> None:
        """Let the time pass, and do in order what falls due."""
        end = self.now + seconds
        while due := [timer for timer in self._timers if timer.at <= end]:
            timer = min(due, key=lambda one: one.at)
            self._timers.remove(timer)
            self.now = timer.at
            timer.act()
            await asyncio.sleep(0)
        self.now = end
