"""Reading and judging by words on the event loop, a slice of time at each of its turns, so that no crowd holds it.

Two hundred prompts that come in one turn of the loop are sixty milliseconds of work. Done as they come, they would
keep every stream, timer and deadline waiting; on threads they would take turns for the interpreter's lock, and be no
faster. So each waits in line here, and the line is looked at for `SLICE` a turn. Who cannot be read in time is
skimmed, and whom not even that would reach in time is told so at once. What a verdict is worth is not known here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import Final

import structlog

from router import Ask, Decision, Glance, Route, Tier

log = structlog.get_logger("thinkgate.router")

SLICE: Final = 0.0015
"""Seconds of a loop's turn after which no further prompt is begun; a single one takes less than two milliseconds."""
_MARGIN: Final = 0.003
_OTHERS: Final = 1.6
"""How much longer the line takes than its skims alone: the loop has other work between two slices."""
_FIRST_GLANCE: Final = 0.0005
_FIRST_SKIM: Final = 0.0001
"""Seconds a glance and a skim take, until they have been measured."""

_UNREAD: Final = Decision(
    Route.STANDARD, 0.5, 0.5, 0.5, Tier.DEFAULT, ("not read: more prompts at once than the deadline leaves time for",)
)


def patience(deadline: float) -> float:
    """Seconds of a deadline after which it counts as reached: a verdict has still to find its way to who waits."""
    return deadline - min(_MARGIN, deadline / 4)


@dataclass(frozen=True, slots=True)
class Seen:
    """An ask with what could be said of it in time."""

    ask: Ask | None
    """None where there was no time to read it."""
    glance: Glance
    trouble: str | None = None
    """Why it is less than a glance: `crowd` or `failed`."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    read: Callable[[], Ask]
    until: float
    seen: asyncio.Future[Seen]


class Glances:
    """First come, first served. Of one event loop."""

    def __init__(self, glance: Callable[[Ask], Glance], skim: Callable[[Ask], Decision], *, deadline: float) -> None:
        """`deadline`: seconds from a prompt's coming to its verdict."""
        self._glance = glance
        self._skim = skim
        self._patience = patience(deadline)
        self._line: deque[_Waiting] = deque()
        self._spent = 0.0
        self._is_turning = False
        self._glance_pace = _FIRST_GLANCE
        self._skim_pace = _FIRST_SKIM

    async def take(self, read: Callable[[], Ask]) -> Seen:
        """What can be said of the ask that `read` returns; where nobody waits a glance, at once."""
        loop = asyncio.get_running_loop()
        if not self._is_turning:
            self._is_turning = True
            loop.call_soon(self._turn, loop)
        if not self._line and self._spent < SLICE:
            return self._look(read, inf)
        if len(self._line) * self._skim_pace * _OTHERS > self._patience:
            # It would not be reached in time; better to say so at once, and not to lengthen the line.
            return Seen(None, Glance(_UNREAD, is_final=True), "crowd")
        waiting = _Waiting(read, perf_counter() + self._patience, loop.create_future())
        self._line.append(waiting)
        return await waiting.seen

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Once in each turn of the loop in which somebody came or waits."""
        was_idle = self._spent == 0.0
        self._spent = 0.0
        while self._line and self._spent < SLICE:
            first = self._line.popleft()
            if not first.seen.done():  # else its request has left
                first.seen.set_result(self._look(first.read, first.until))
        self._is_turning = bool(self._line) or not was_idle
        if self._is_turning:
            loop.call_soon(self._turn, loop)

    def _look(self, read: Callable[[], Ask], until: float) -> Seen:
        began = perf_counter()
        try:
            return self._judge(read, until - began)
        except Exception:
            log.exception("words failed")
            return Seen(None, Glance(_UNREAD, is_final=True), "failed")
        finally:
            self._spent += perf_counter() - began

    def _judge(self, read: Callable[[], Ask], left: float) -> Seen:
        """`left`: seconds until the deadline. A glance is taken only if all who wait can still be skimmed in time."""
        if left <= 0:
            return Seen(None, Glance(_UNREAD, is_final=True), "crowd")
        began = perf_counter()
        ask = read()
        if left > self._glance_pace + len(self._line) * self._skim_pace * _OTHERS:
            glance = self._glance(ask)
            self._glance_pace = _paced(self._glance_pace, perf_counter() - began)
            return Seen(ask, glance)
        skimmed = self._skim(ask)
        self._skim_pace = _paced(self._skim_pace, perf_counter() - began)
        return Seen(ask, Glance(skimmed, is_final=True), "crowd")


def _paced(pace: float, took: float) -> float:
    """What one is reckoned to take after another took `took` seconds. One that the machine interrupted says little."""
    return pace + 0.1 * (min(took, 4 * pace) - pace)
