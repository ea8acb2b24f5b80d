"""What a double remembers of one request: what came, what it said, and how it ended."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.doubles.script import Script

if TYPE_CHECKING:
    from tests.doubles.engine import Double


class End(StrEnum):
    RUNNING = "running"
    FINISHED = "finished"
    REFUSED = "refused"
    """Answered with an error of the script's or the engine's own."""
    BROKEN = "broken"
    """The script's fault ended it."""
    ABORTED = "aborted"
    """The gateway closed the connection while tokens were being made."""


@dataclass(eq=False, slots=True)
class Exchange:
    double: Double
    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    """Number of the connection, from 1, on this double."""
    number: int
    """Number of the request, from 1, on that connection."""
    started: float = field(default_factory=monotonic)
    ended_at: float | None = None
    status: int = 0
    end: End = End.RUNNING
    script: Script | None = None
    think_tokens: int = 0
    answer_tokens: int = 0
    thought_given: str = ""
    """The thought the prompt already held (a continuation), as the engine read it."""
    ours_given: int = 0
    """How many of this key's own tokens that thought began with."""
    added: str = ""
    """What followed them: a closing phrase."""
    lead_in: str = ""
    """An answer's beginning the prompt held."""
    paused: int = 0
    """How often the socket to the gateway was full."""
    detected: float | None = None
    """When (monotonic) the double saw the gateway go, while it was generating."""
    _gate: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def key(self) -> str:
        return self.script.asked or self.script.key if self.script else ""

    @property
    def tokens(self) -> int:
        """Tokens of text generated so far; after an abort, at the moment it was noticed."""
        return self.think_tokens + self.answer_tokens

    @property
    def request_id(self) -> str:
        return self.headers.get("x-request-id", "")

    @property
    def is_generation(self) -> bool:
        return self.method == "POST" and self.path in {"/v1/chat/completions", "/v1/completions", "/completion"}

    # Told by the server

    def peer_left(self) -> None:
        if self.end is End.RUNNING and self.is_generation:
            self.end, self.detected = End.ABORTED, monotonic()
            self.ended_at = self.detected
        self.double.changed()

    def ended(self) -> None:
        if self.end is End.RUNNING:
            self.end = End.FINISHED if self.status < 400 else End.REFUSED
        if self.ended_at is None:
            self.ended_at = monotonic()
            if self.end is End.FINISHED and self.is_generation:
                self.double.seconds_worked += self.ended_at - self.started
        self.double.changed()

    # For the double and the test

    async def held(self) -> None:
        """Wait until the test lets go."""
        await self._gate.wait()

    def release(self) -> None:
        """End a `stall_after`: the rest of the text follows."""
        self.double.host.loop.call_soon_threadsafe(self._gate.set)
