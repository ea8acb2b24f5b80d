"""What may happen to one flight of a storm, and what its client must see all the same.

A fate says how a worker fails this flight; the crowd's clients come streamed and unary, with and without a cap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any, Final

import httpx

from tests.doubles.script import ANSWER_TOKENS, expected_answer, thought
from tests.harness import Gateway
from tests.service.talk import Stream, chat


class Fate(StrEnum):
    WELL = "well"
    KILLED = "killed"
    """Its worker's process is ended, with all that it carries."""
    STALLED = "stalled"
    RESET = "reset"
    FULL_429 = "full-429"
    FULL_503 = "full-503"
    BROKEN_500 = "broken-500"
    ERROR_EVENT = "error-event"
    TRUNCATED = "truncated"
    GARBAGE = "garbage"


IN_STREAM: Final = {
    Fate.STALLED: "stall_after",
    Fate.RESET: "die_after",
    Fate.ERROR_EVENT: "error_after",
    Fate.TRUNCATED: "drop_after",
    Fate.GARBAGE: "garbage_after",
}
AT_THE_DOOR: Final = {Fate.FULL_429: 429, Fate.FULL_503: 503, Fate.BROKEN_500: 500}
THINK: Final = 90
"""Tokens of thought of an ordinary flight."""
LONG: Final = 220
"""Of one that waits for its worker's death."""


@dataclass
class Passenger:
    """One flight, and what its client saw of it."""

    key: str
    fate: Fate
    is_streamed: bool = True
    leaves: bool = False
    controls: dict[str, Any] = field(default_factory=dict[str, Any])
    told: Stream | None = None
    answer: httpx.Response | None = None

    @property
    def think(self) -> int:
        return self.controls["think"]

    @property
    def ends(self) -> int:
        """Terminal things it has seen: [DONE], an error event, or a whole answer of any status."""
        if self.answer is not None:
            return 1
        assert self.told is not None
        if self.told.body:
            return 1
        return self.told.done + len(self.told.errors)

    @property
    def status(self) -> int:
        return self.answer.status_code if self.answer is not None else self.told.status if self.told else 0

    @property
    def is_whole(self) -> bool:
        """Did it get its text: exactly what an unbroken run would have said?"""
        if self.answer is not None:
            if self.answer.status_code != 200:
                return False
            message = self.answer.json()["choices"][0]["message"]
            thought_of, answer = message["reasoning_content"], message["content"]
        else:
            assert self.told is not None
            if self.told.status != 200 or self.told.errors or self.told.reasons != ["stop"]:
                return False
            thought_of, answer = self.told.thought, self.told.answer
        ours = thought(self.key, self.think)
        said = (thought_of.strip(), answer.strip())
        return said == (ours, expected_answer(self.key, ours, ANSWER_TOKENS))

    @property
    def words(self) -> str:
        """For a message: who it was, and what it saw."""
        if self.answer is not None:
            return f"{self.key} ({self.fate}): {self.answer.status_code} {self.answer.text[:300]}"
        assert self.told is not None
        seen = self.told.body[:300] or self.told.errors or (self.told.reasons, self.told.answer[-80:])
        return f"{self.key} ({self.fate}): {self.told.status} {seen}"


def crowd(name: str, flights: int, random: Random) -> Iterator[Passenger]:
    """So many flights, a tenth of them of each fate; a third unary, one in thirty leaves in mid-stream."""
    fates = list(Fate)
    for number in range(flights):
        fate = fates[number % len(fates)]
        controls: dict[str, Any] = {"think": LONG if fate is Fate.KILLED else THINK, "delay_ms": 6}
        if fate in IN_STREAM:
            controls |= {IN_STREAM[fate]: random.randrange(1, THINK + ANSWER_TOKENS), "times": 1}
        elif fate in AT_THE_DOOR:
            controls |= {"status": AT_THE_DOOR[fate], "times": 1}
        turn = number // len(fates)
        yield Passenger(f"{name}-{number}", fate, turn % 3 != 2, turn % 30 == 7, controls)


async def fly(client: httpx.AsyncClient, served: Gateway, model: str, one: Passenger) -> None:
    """Send it and read to the end, or leave after a while."""
    body = chat(model, one.key, stream=one.is_streamed, **one.controls)
    url = f"{served.url}/v1/chat/completions"
    if not one.is_streamed:
        one.answer = await client.post(url, json=body)
        return
    async with client.stream("POST", url, json=body) as response:
        told = Stream(response.status_code, response.headers)
        if "text/event-stream" not in response.headers.get("content-type", ""):
            told.body = await response.aread()
        else:
            async for line in response.aiter_lines():
                told.feed(line)
                if one.leaves and len(told.events) > one.think // 2:
                    return
        one.told = told
        one.leaves = False


async def fly_all(served: Gateway, model: str, crowd: list[Passenger], *, spread: float) -> None:
    """All at once, but for `spread` seconds over which they arrive: no engine's clients come in one instant."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(timeout=90, limits=limits) as client:

        async def one_by_one(number: int, one: Passenger) -> None:
            await asyncio.sleep(spread * number / len(crowd))
            await fly(client, served, model, one)

        await asyncio.gather(*(one_by_one(number, one) for number, one in enumerate(crowd)))
