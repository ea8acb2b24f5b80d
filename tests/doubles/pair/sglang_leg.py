"""What both workers of an SGLang pair do: check their room, compare their bodies, obey `/abort_request`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeVar

from tests.doubles.checks import Violation
from tests.doubles.engine import Refused
from tests.doubles.exchange import End, Exchange
from tests.doubles.mind import Turn, turn_of_prompt
from tests.doubles.pair.fabric import KVFabric, Member
from tests.doubles.pair.faults import Faults, strike
from tests.doubles.pair.prompt import SAME, read_prompt
from tests.doubles.pair.rooms import Room, RoomTaken, Side
from tests.doubles.request import choose_script
from tests.doubles.server import Wire
from tests.doubles.sglang import SglangDouble
from tests.doubles.speech import DONE, Job, Usage
from tests.doubles.steps import Step
from tests.doubles.voice_sglang import ChatVoice, TextVoice

T = TypeVar("T")
ROOMS: Final = 2**63
FAKE_HOST: Final = "2.2.2.2"
"""The host of SGLang's own warm-up requests; with it a decode worker generates from memory no one filled."""
BOOTSTRAP: Final = ("bootstrap_host", "bootstrap_port", "bootstrap_room")
OWN: Final = frozenset({*BOOTSTRAP, "rid", "routed_dp_rank", "disagg_prefill_dp_rank", "data_parallel_rank"})
"""Fields in which the bodies of a pair may differ."""
NO_ROOM: Final = "Disaggregated request received without bootstrap room id"
TIMEOUT: Final = 300.0
"""Seconds a leg waits for the other (SGLANG_DISAGGREGATION_WAITING_TIMEOUT)."""


def check_bootstrap(body: dict[str, Any], *, count: int) -> Iterator[Violation]:
    """Host, port and room: one of each, or a list of each for a batch of `count`."""
    for name in BOOTSTRAP:
        given = body.get(name)
        if count > 1 and not (isinstance(given, list) and len(given) == count):
            yield "bootstrap-batch", f"{name} is no list of {count}: {given!r}"
    for room in listed(body.get("bootstrap_room")):
        if isinstance(room, bool) or not isinstance(room, int) or not 0 <= room < ROOMS:
            yield "room-range", repr(room)
    if FAKE_HOST in listed(body.get("bootstrap_host")):
        yield "fake-host", FAKE_HOST
    if None in listed(body.get("bootstrap_port")):
        yield "bootstrap-port", "none given: each worker takes its own default"
    if (body.get("n") or 1) > 1:
        yield "shared-room", f"n={body['n']} samples in one room"


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def is_batch(body: dict[str, Any]) -> bool:
    """Several prompts, or a list of one."""
    prompt = body.get("prompt")
    return isinstance(prompt, list) and bool(prompt) and not isinstance(prompt[0], int)


def prompts_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The body once for each prompt of a batch, with its own host, port and room."""
    if not is_batch(body):
        return [body]
    prompt = body["prompt"]
    own = ["prompt", *(name for name in BOOTSTRAP if isinstance(body.get(name), list))]
    return [{**body, **{name: body[name][i] for name in own if i < len(body[name])}} for i in range(len(prompt))]


async def together(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All of these at once; if one fails, the others end with it."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(slots=True)
class Asked:
    """One leg, read."""

    exchange: Exchange
    wire: Wire
    body: dict[str, Any]
    turn: Turn
    voice: ChatVoice
    split: bool


class SglangLeg(Member, SglangDouble):
    """The base of both. A subclass says what happens once the other leg is there."""

    side: ClassVar[Side]
    role: ClassVar[str]
    expected: ClassVar[frozenset[str]] = frozenset({*OWN, "x-data-parallel-rank"})

    def __init__(self, fabric: KVFabric, model: str, faults: Faults, *, dp: int = 1, **more: Any) -> None:
        super().__init__(model, **more)
        self.join(fabric)
        self.faults, self.dp = faults, dp
        self.live: dict[str, asyncio.Event] = {}
        """By rid: what an abort sets."""
        self.rids: list[str] = []
        self.aborts: list[str] = []
        """The rids that `/abort_request` named, known here or not."""
        self.seen_rooms: list[int] = []
        self.voices: dict[Exchange, list[str]] = {}

    async def _abort(self, exchange: Exchange, wire: Wire) -> None:
        """By prefix, and always 200; a rid that is not alive here does nothing."""
        said = exchange.json
        rid = said.get("rid") or ""
        self.aborts.append(rid)
        self.changed()
        if said.get("abort_all"):
            self.violate("abort-all", "every request of the worker")
        others = [name for name in self.live if name.startswith(rid) and name != rid] if rid else []
        if others:
            self.violate("abort-prefix", f"{rid} also ends {others}")
        if rid in self.live or said.get("abort_all"):
            for name, aborted in self.live.items():
                if name.startswith(rid):
                    aborted.set()
        await super()._abort(exchange, wire)

    async def _speak(
        self, exchange: Exchange, wire: Wire, body: dict[str, Any], turn: Turn, voice: ChatVoice, *, split: bool
    ) -> None:
        self.begin(exchange, read_prompt(prompts_of(body)[0]))
        fault = self.faults.draw()
        if await strike(fault, exchange, wire):
            return
        rid = body.get("rid") or f"own-{id(exchange)}"
        if rid in self.live:
            raise Refused(400, f"Duplicate request ID detected: {rid}", kind="BadRequest")
        if body.get("rid"):
            self.rids.append(rid)
        aborted = self.live[rid] = asyncio.Event()
        leg = asyncio.ensure_future(self._leg(Asked(exchange, wire, body, turn, voice, split), fault))
        watch = asyncio.ensure_future(aborted.wait())
        try:
            await asyncio.wait({leg, watch}, return_when=asyncio.FIRST_COMPLETED)
            if leg.done():
                leg.result()
                return
            leg.cancel()
            await asyncio.wait({leg})
            await self._say_aborted(exchange, wire, voice, stream=bool(body.get("stream")))
        finally:
            for task in (leg, watch):
                task.cancel()
            await asyncio.gather(leg, watch, return_exceptions=True)
            del self.live[rid]
            self.changed()

    async def _say_aborted(self, exchange: Exchange, wire: Wire, voice: ChatVoice, *, stream: bool) -> None:
        """A graceful end: a finish reason of `abort`, and [DONE]."""
        exchange.end = End.ABORTED
        if not stream:
            raise Refused(500, "The request was aborted.")
        if not wire.started:
            wire.start(voice.media_type)
        events = [*voice.finish(0, Step(), "abort", None), *voice.usage(Usage())]
        await wire.send("".join(f"data: {event}\n\n" for event in events).encode() + DONE)
        await wire.finish()

    async def _leg(self, asked: Asked, fault: str) -> None:
        raise NotImplementedError

    async def speak_on(self, asked: Asked) -> None:
        """Generate, as one worker alone does."""
        await super()._speak(asked.exchange, asked.wire, asked.body, asked.turn, asked.voice, split=asked.split)

    # Rooms

    def _read(self, exchange: Exchange, *, chat: bool) -> dict[str, Any]:
        body = super()._read(exchange, chat=chat)
        if body.get("bootstrap_room") is None:
            self.violate("room-missing", NO_ROOM)
            raise Refused(400, NO_ROOM, kind="BadRequest")
        for said in check_bootstrap(body, count=len(prompts_of(body))):
            self.violate(*said)
        return body

    def _enter(self, key: tuple[object, ...], exchange: Exchange) -> Any:
        """A room entered, or refused as the engine refuses a duplicate."""
        self.seen_rooms += [part for part in key[-1:] if isinstance(part, int)]
        return self.fabric.rooms.enter(key, self.side, exchange)

    def taken(self, taken: RoomTaken) -> Refused:
        self.violate("room-reused", str(taken))
        return Refused(500, "Duplicate or cancelled bootstrap room")

    def same_prompt(self, room: Room) -> bool:
        """Whether both legs read one prompt; what else differs between their bodies is noted."""
        prefill, decode = room.bodies["prefill"], room.bodies["decode"]
        names = (prefill.keys() | decode.keys()) - OWN
        if differ := sorted(name for name in names if prefill.get(name) != decode.get(name)):
            self.violate("bodies-differ", f"{differ}")
        return not set(SAME).intersection(differ)

    # Batches

    async def _completions(self, exchange: Exchange, wire: Wire) -> None:
        said = json.loads(exchange.body)
        if not isinstance(said, dict) or not is_batch(said):
            await super()._completions(exchange, wire)
            return
        body = self._read(exchange, chat=False)
        ones = prompts_of(body)
        turn = turn_of_prompt(ones[0]["prompt"])
        voice = TextVoice(f"{next(self._names):032x}", self.model, ids=False, prompt=ones[0]["prompt"])
        await self._speak(exchange, wire, body, turn, voice, split=False)

    def job(self, job: Job, body: dict[str, Any]) -> Job:
        """A plan for each prompt of a batch, in the voice that its room gave."""
        ones, keys = prompts_of(body), self.voices.pop(job.exchange, [])
        if is_batch(body):
            for one, key in zip(ones, keys, strict=True):
                turn = turn_of_prompt(one["prompt"])
                turn.recast = {**job.plan.turn.recast, "key": key}
                script = choose_script(self, turn)
                job.plans.append(replace(job.plan, script=script, turn=turn))
        return job
