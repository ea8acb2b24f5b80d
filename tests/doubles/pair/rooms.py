"""Where the two legs of a push hand-off meet: each waits for the other, and nobody tells it that the other will not
come. A room is used once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from tests.doubles.exchange import Exchange
from tests.doubles.pair.clock import Clock
from tests.doubles.pair.prompt import Prompt

Side = Literal["prefill", "decode"]
Key = tuple[object, ...]
OTHER: Final[dict[Side, Side]] = {"prefill": "decode", "decode": "prefill"}


class RoomTaken(Exception):
    """This side of the room has been used before."""


@dataclass(eq=False, slots=True)
class Room:
    key: Key
    came: dict[Side, asyncio.Event] = field(
        default_factory=lambda: {"prefill": asyncio.Event(), "decode": asyncio.Event()}
    )
    legs: dict[Side, Exchange] = field(default_factory=dict[Side, Exchange])
    inside: set[Side] = field(default_factory=set[Side])
    prompt: Prompt | None = None
    """What the prefill leg computed."""
    voice: str = ""
    bodies: dict[Side, dict[str, object]] = field(default_factory=dict[Side, dict[str, object]])
    failed: bool = False
    """The transfer broke."""
    orphaned: float = 0.0
    """Seconds of the fabric's clock that a leg waited in vain."""


class Rooms:
    def __init__(self, clock: Clock) -> None:
        self.all: dict[Key, Room] = {}
        self.clock = clock

    @property
    def open(self) -> list[Room]:
        """Rooms in which a leg is."""
        return [room for room in self.all.values() if room.inside]

    @property
    def orphaned(self) -> float:
        """Seconds of the clock that legs waited for one that never came."""
        return sum(room.orphaned for room in self.all.values())

    @contextmanager
    def enter(self, key: Key, side: Side, leg: Exchange) -> Iterator[Room]:
        """Be in a room until the block ends."""
        room = self.all.setdefault(key, Room(key))
        if side in room.legs:
            raise RoomTaken(f"{side} of {key} again")
        room.legs[side] = leg
        room.inside.add(side)
        leg.double.changed()
        try:
            yield room
        finally:
            room.inside.discard(side)
            if not room.came[OTHER[side]].is_set():
                room.came[side].clear()
            leg.double.changed()

    async def meet(self, room: Room, side: Side, seconds: float) -> bool:
        """Say that this side is here, and wait for the other, so many seconds at most; whether it came."""
        since = self.clock.now
        room.came[side].set()
        met = False
        try:
            met = await self.clock.wait(room.came[OTHER[side]], seconds)
        finally:
            if not met:
                room.orphaned += self.clock.now - since
        return met
