"""An SGLang 0.5.23 pair: both legs at once, one room at the prefill worker's bootstrap server."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, ClassVar

from tests.doubles.engine import Double, Handler, Refused, answer_json, dumps
from tests.doubles.exchange import Exchange
from tests.doubles.mind import Turn
from tests.doubles.pair.fabric import KVFabric, State
from tests.doubles.pair.faults import IN_STREAM, SGLANG_DECODE, SGLANG_PREFILL, Faults
from tests.doubles.pair.prompt import read_prompt
from tests.doubles.pair.rooms import Room, RoomTaken
from tests.doubles.pair.sglang_leg import TIMEOUT, Asked, SglangLeg, prompts_of, together
from tests.doubles.server import Wire
from tests.doubles.speech import Job

TRANSFER_FAILED = "Decode transfer failed with exception KVTransferError"
NO_BOOTSTRAP = "Could not fetch prefill parallel info from the bootstrap server"


class SglangBootstrap(Double):
    """The bootstrap server of a prefill worker."""

    kind: ClassVar[str] = "bootstrap"

    def __init__(self, prefill: FakeSglangPrefill) -> None:
        super().__init__()
        self.prefill = prefill
        self.registered = True
        """Every rank has said it is there."""

    def routes(self) -> dict[tuple[str, str], Handler]:
        return {("GET", "/health"): self._health, ("GET", "/route"): self._info, ("POST", "/query_dp_ranks"): self._ask}

    def headers(self) -> tuple[tuple[str, str], ...]:
        return (("server", "Python/3.11 aiohttp/3.13"),)

    def error_body(self, refused: Refused) -> bytes:
        return refused.message.encode()

    async def _health(self, exchange: Exchange, wire: Wire) -> None:
        await wire.answer(200, b"OK")

    async def _info(self, exchange: Exchange, wire: Wire) -> None:
        if not self.registered:
            raise Refused(503, "Prefill server not fully registered yet")
        ours = self.prefill
        ranks = {"attn_tp_size": 1, "attn_cp_size": 1, "dp_size": ours.dp, "pp_size": 1}
        more = {"page_size": 1, "kv_cache_dtype": "auto", "follow_bootstrap_room": True, "prefill_http_port": ours.port}
        await answer_json(wire, {**ranks, **more})

    async def _ask(self, exchange: Exchange, wire: Wire) -> None:
        rooms = exchange.json["bootstrap_rooms"]
        await wire.answer(200, dumps({str(room): room % self.prefill.dp for room in rooms}).encode())


class FakeSglangPrefill(SglangLeg):
    """Answers one token once its KV is at the decode worker's. `kv_host`: where decode workers reach its bootstrap."""

    side = "prefill"
    role: ClassVar[str] = "prefill"
    mode: ClassVar[str] = "prefill"
    speaks: ClassVar[bool] = False

    def __init__(
        self,
        fabric: KVFabric,
        model: str = "double",
        *,
        kv_host: str = "127.0.0.1",
        cached: int = 0,
        faults: Faults | None = None,
        **more: Any,
    ) -> None:
        super().__init__(fabric, model, faults or Faults(SGLANG_PREFILL), **more)
        self.kv_host, self.cached = kv_host, cached
        self.bootstrap = SglangBootstrap(self)
        self.engine = fabric.start(kv_host, 0)

    async def listen(self) -> None:
        await super().listen()
        self.fabric.bootstraps[(self.kv_host, self.bootstrap.port)] = self

    def job(self, job: Job, body: dict[str, Any]) -> Job:
        job.plan.max_tokens = 1
        return super().job(job, body)

    async def _leg(self, asked: Asked, fault: str) -> None:
        exchange, body, turn = asked.exchange, asked.body, asked.turn
        turn.recast = {"key": f"prefill-only.{exchange.request_id}"}
        asked.voice.cached = self.cached
        with ExitStack() as stack:
            ones = prompts_of(body)
            await together(self._send(exchange, one, turn, stack, fault) for one in ones)
            self.voices[exchange] = [turn.recast["key"]] * len(ones)
            if fault == "late_400":
                message = f"The input ({turn.prompt_tokens} tokens) is longer than the model's context length."
                raise Refused(400, message)
        await self.speak_on(asked)

    async def _send(self, exchange: Exchange, body: dict[str, Any], turn: Turn, stack: ExitStack, fault: str) -> None:
        """Compute, and hand over in the room when the decode leg is in it."""
        number = body["bootstrap_room"]
        self._check_rank(body, number)
        address = (body.get("bootstrap_host"), body.get("bootstrap_port"))
        if address != (self.kv_host, self.bootstrap.port):
            self.violate("bootstrap-address", f"{address} is not this worker's")
        prompt = read_prompt(body)
        held = self.fabric.hold(self.engine, f"room-{number}", exchange.request_id, prompt, turn.prompt_tokens)
        self.fabric.keep(held)
        stack.callback(self.fabric.end, held, State.RELEASED)
        if fault == "bootstrap_fails":
            await self.fabric.clock.sleep(TIMEOUT)
            raise Refused(500, NO_BOOTSTRAP)
        try:
            room = stack.enter_context(self._enter((self.bootstrap.port, number), exchange))
        except RoomTaken as taken:
            raise self.taken(taken) from None
        room.prompt, room.voice = prompt, "" if fault == "late_400" else held.voice
        room.bodies["prefill"] = body
        if not await self.fabric.rooms.meet(room, "prefill", TIMEOUT):
            raise Refused(500, "Prefill bootstrap failed: the decode instance did not come")
        self.fabric.end(held, State.PULLED)

    def _check_rank(self, body: dict[str, Any], number: int) -> None:
        rank = body.get("routed_dp_rank")
        if rank is not None and number % self.dp != rank and "disagg_prefill_dp_rank" not in body:
            self.violate("dp-rank", f"room {number} is rank {number % self.dp}'s, and {rank} was asked for")
            raise Refused(500, "follow_bootstrap_room conflict")


class FakeSglangDecode(SglangLeg):
    """Waits for its prefill worker at the address it was given, then speaks with the voice it found in the room."""

    side = "decode"
    role: ClassVar[str] = "decode"
    mode: ClassVar[str] = "decode"

    def __init__(self, fabric: KVFabric, model: str = "double", *, faults: Faults | None = None, **more: Any) -> None:
        super().__init__(fabric, model, faults or Faults(SGLANG_DECODE), **more)

    async def _leg(self, asked: Asked, fault: str) -> None:
        exchange, body, turn = asked.exchange, asked.body, asked.turn
        with ExitStack() as stack:
            try:
                receiving = (self._receive(exchange, one, stack, fault) for one in prompts_of(body))
                keys = self.voices[exchange] = await together(receiving)
                turn.recast = {"key": keys[0], **IN_STREAM.get(fault, {})}
            except TimeoutError as failed:
                if not body.get("stream"):
                    raise Refused(500, str(failed)) from None
                turn.recast = {"error_first": 500}
            asked.voice.cached = turn.prompt_tokens
            await self.speak_on(asked)

    async def _receive(self, exchange: Exchange, body: dict[str, Any], stack: ExitStack, fault: str) -> str:
        prefill = self.fabric.bootstraps.get((body.get("bootstrap_host"), body.get("bootstrap_port")))
        if prefill is None:
            self.violate("bootstrap-address", f"nothing at {body.get('bootstrap_host')}:{body.get('bootstrap_port')}")
        key = (body.get("bootstrap_port"), body["bootstrap_room"])
        try:
            room: Room = stack.enter_context(self._enter(key, exchange))
        except RoomTaken as taken:
            raise self.taken(taken) from None
        room.bodies["decode"] = body
        if fault == "garbage":
            return f"garbage.{exchange.request_id}"
        if fault == "slow_transfer":
            await exchange.held()
        if not await self.fabric.rooms.meet(room, "decode", TIMEOUT):
            raise TimeoutError(NO_BOOTSTRAP)
        if fault == "transfer_fails":
            raise TimeoutError(TRANSFER_FAILED)
        if not self.same_prompt(room) or not room.voice:
            return f"garbage.{room.key[-1]}"
        return room.voice
