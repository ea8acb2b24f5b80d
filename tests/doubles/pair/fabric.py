"""The memory of a cluster's workers: KV blocks with leases at each prefill engine, and who may read them. Only the
workers touch it; a test reads it and asserts that nothing is left."""

from __future__ import annotations

import hmac
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from secrets import token_hex
from typing import Any, Final
from uuid import uuid4

from tests.doubles.engine import Double
from tests.doubles.exchange import Exchange
from tests.doubles.pair.clock import Clock, Timer
from tests.doubles.pair.prompt import Prompt
from tests.doubles.pair.rooms import Rooms
from tests.doubles.script import Script
from tests.doubles.server import Wire

BLOCK: Final = 16
"""Tokens of a block."""


class State(StrEnum):
    HELD = "held"
    PULLED = "pulled"
    RELEASED = "released"
    EXPIRED = "expired"
    LOST = "lost"
    """Its process is gone."""


@dataclass(eq=False, slots=True)
class Held:
    """The KV of one prefill, kept for the decode worker that will ask for it."""

    engine: Engine
    request: str
    """P's own id of the request."""
    gateway_id: str
    prompt: Prompt
    voice: str
    blocks: list[int]
    params: dict[str, Any] = field(default_factory=dict[str, Any])
    state: State = State.HELD
    timer: Timer | None = None


class Engine:
    """One life of a prefill process: its id, its side channel, its blocks. The last freed is the first used again."""

    def __init__(self, host: str, port: int, blocks: int, rank: int = 0) -> None:
        self.id = str(uuid4())
        self.host, self.port, self.rank = host, port, rank
        self.free = list(range(blocks, 0, -1))
        self.total = blocks
        self.contents: dict[int, str] = {}
        self.held: dict[str, Held] = {}
        self.expired = 0
        self.alive = True

    @property
    def in_use(self) -> int:
        return self.total - len(self.free)

    def take(self, tokens: int, voice: str) -> list[int]:
        blocks = [self.free.pop() for _ in range(max(1, -(-tokens // BLOCK)))]
        self.contents.update(dict.fromkeys(blocks, voice))
        return blocks

    def read(self, blocks: list[int]) -> str:
        """What these blocks say now: a voice, or noise if they are no one prompt's."""
        voices = {self.contents.get(block, "") for block in blocks}
        return voices.pop() if len(voices) == 1 and "" not in voices else ""


class Member(Double):
    """A worker of a fabric: what a test waits for at one of them may happen at another."""

    fabric: KVFabric
    serving = 0
    """Legs it has not done with; one whose client has left is done with a little later."""

    async def serve(self, exchange: Exchange, wire: Wire) -> None:
        if not exchange.is_generation:
            await super().serve(exchange, wire)
            return
        self.serving += 1
        try:
            await super().serve(exchange, wire)
        finally:
            self.serving -= 1
            self.changed()

    async def close(self) -> None:
        await super().close()
        await self._until(lambda: not self.serving, "the end of its last leg")

    def join(self, fabric: KVFabric) -> None:
        self.fabric = fabric
        fabric.members.append(self)

    def begin(self, exchange: Exchange, prompt: Prompt) -> None:
        """The leg is known by its key from now on, whatever becomes of it."""
        exchange.script = Script(key=prompt.key)
        self.changed()

    def violate(self, code: str, detail: str) -> None:
        """A leg may be cut while it is still being sent: the other one has failed."""
        if code != "cut-request":
            super().violate(code, detail)

    def changed(self) -> None:
        self.fabric.changed()

    def look(self) -> None:
        super().changed()


class KVFabric:
    """`lease`: seconds of this fabric's clock that a prefill engine keeps blocks no one has asked for."""

    def __init__(self, *, lease: float = 30.0, blocks: int = 1_024) -> None:
        self.clock = Clock()
        self.lease, self.blocks = lease, blocks
        self.rooms = Rooms(self.clock)
        self.engines: list[Engine] = []
        self.members: list[Member] = []
        self.ends: Counter[State] = Counter()
        self.attempts: Counter[str] = Counter()
        """How many prefill legs came with this X-Request-Id."""
        self.prefilling: Counter[str] = Counter()
        """Prefill legs that run now, by X-Request-Id."""
        self.encodings: dict[str, Any] = {}
        """By `mm_hash`: what encoders gave out."""
        self.uuids: dict[str, str] = {}
        """The uuid that came with a media item, by its content."""
        self.bootstraps: dict[tuple[str, int], Any] = {}
        """SGLang prefill workers by the address of their bootstrap server."""
        self._secret = token_hex(16).encode()

    def voice(self, prompt: Prompt) -> str:
        """The key with which a model speaks that has read this prompt. Decode workers never call this."""
        said = "\0".join((prompt.base, *prompt.media))
        return f"{prompt.key}~{self.mark(said)}"

    def mark(self, said: str) -> str:
        return hmac.new(self._secret, said.encode(), "sha256").hexdigest()[:12]

    def changed(self) -> None:
        """Something happened at one of the workers that a test may wait for at any of them."""
        for member in self.members:
            member.look()

    # What a prefill engine does

    def start(self, host: str, port: int, rank: int = 0, *, again: Engine | None = None) -> Engine:
        """A process begins; `again`: with the id that this one had, as it is set in its configuration."""
        engine = Engine(host, port, self.blocks, rank)
        engine.id = again.id if again else engine.id
        self.engines.append(engine)
        return engine

    def hold(self, engine: Engine, request: str, gateway_id: str, prompt: Prompt, tokens: int) -> Held:
        voice = self.voice(prompt)
        held = Held(engine, request, gateway_id, prompt, voice, engine.take(tokens, voice))
        engine.held[request] = held
        self.lease_out(held)
        return held

    def lease_out(self, held: Held) -> None:
        """From now on the blocks wait, for one lease."""
        self.clock.cancel(held.timer)
        held.timer = self.clock.after(self.lease, lambda: self.end(held, State.EXPIRED))

    def end(self, held: Held, state: State) -> None:
        """The blocks are free, whatever the reason. What they say stays until they are used again."""
        if held.state is not State.HELD:
            return
        self.clock.cancel(held.timer)
        held.state = state
        held.engine.free += held.blocks
        held.engine.expired += state is State.EXPIRED
        self.ends[state] += 1

    def lose(self, engine: Engine) -> None:
        """The process is gone, and all it held."""
        engine.alive = False
        for held in engine.held.values():
            self.end(held, State.LOST)

    # What a decode engine does

    def engine_of(self, engine_id: object) -> Engine | None:
        """The latest engine with this id, alive or not."""
        return next((engine for engine in reversed(self.engines) if engine.id == engine_id), None)

    def reach(self, host: object, port: object) -> Engine | None:
        """The engine that listens on this side channel."""
        here = [engine for engine in self.engines if (engine.host, engine.port) == (host, port) and engine.alive]
        return here[-1] if here else None

    def keep(self, held: Held) -> None:
        """A decode engine has the request in its scheduler: its heartbeats keep the blocks."""
        self.clock.cancel(held.timer)

    # What a test asks

    @property
    def held(self) -> list[Held]:
        """Hand-offs that keep blocks at a prefill engine."""
        return [held for engine in self.engines for held in engine.held.values() if held.state is State.HELD]

    @property
    def secrets(self) -> set[str]:
        """Words of the inside that no client should ever read."""
        ids = {engine.id for engine in self.engines}
        requests = {request for engine in self.engines for request in engine.held}
        return ids | requests | {"kv_transfer_params", "remote_block_ids", "ec_transfer_params", "bootstrap_room"}
