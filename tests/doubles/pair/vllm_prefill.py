"""A vLLM 0.32 that prefills for others: NIXL pull, NIXL push and Mooncake, as `kv_connector` says."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from secrets import token_hex
from typing import Any, ClassVar, Final

from tests.doubles.engine import Double, Handler, Refused, answer_json, dumps
from tests.doubles.exchange import End, Exchange
from tests.doubles.mind import Turn
from tests.doubles.pair.fabric import Engine, Held, KVFabric, Member, State
from tests.doubles.pair.faults import PREFILL, Faults, strike
from tests.doubles.pair.legs import check_encoded, check_prefill, samples
from tests.doubles.pair.prompt import EMBEDS, content_of, parts_of, raw_media, read_prompt
from tests.doubles.pair.rooms import RoomTaken
from tests.doubles.server import Wire
from tests.doubles.vllm import VllmDouble
from tests.doubles.voice_vllm import ChatVoice

TIMEOUT: Final = 480.0
"""Seconds that a push waits for its other side (`decoder_kv_blocks_ttl`, `VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT`)."""
EXPECTED: Final = frozenset({"kv_transfer_params", "ec_transfer_params", "x-data-parallel-rank"})


class Bootstrap(Double):
    """Mooncake's bootstrap server: which engine id each data-parallel rank has now."""

    kind: ClassVar[str] = "bootstrap"

    def __init__(self, prefill: FakeVllmPrefill) -> None:
        super().__init__()
        self.prefill = prefill

    def routes(self) -> dict[tuple[str, str], Handler]:
        return {("GET", "/query"): self._query}

    def headers(self) -> tuple[tuple[str, str], ...]:
        return (("server", "uvicorn"),)

    def error_body(self, refused: Refused) -> bytes:
        return dumps({"detail": refused.message}).encode()

    async def _query(self, exchange: Exchange, wire: Wire) -> None:
        ranks = {str(engine.rank): {"engine_id": engine.id} for engine in self.prefill.engines}
        await answer_json(wire, ranks)


class FakeVllmPrefill(Member, VllmDouble):
    """`told_host`: what it calls itself in `remote_host`; it is reached at `kv_host`. `capped_only`: hands over only
    when its token was capped, as older NIXL and Mooncake do. `eos_first`: its token is the end of the text.
    `cached`: the prompt tokens it says were cached. `dp`: data-parallel ranks, each an engine."""

    role: ClassVar[str] = "prefill"
    speaks: ClassVar[bool] = False
    streamed: ClassVar[bool] = False
    expected: ClassVar[frozenset[str]] = EXPECTED

    def __init__(
        self,
        fabric: KVFabric,
        model: str = "double",
        *,
        handoff: str = "nixl",
        told_host: str = "127.0.0.1",
        kv_host: str = "127.0.0.1",
        kv_port: int = 5_600,
        capped_only: bool = False,
        eos_first: bool = False,
        cached: int = 0,
        dp: int = 1,
        encoders: bool = False,
        faults: Faults | None = None,
        **more: Any,
    ) -> None:
        super().__init__(model, **more)
        self.join(fabric)
        self.handoff = handoff
        self.told_host, self.kv_host, self.kv_port = told_host, kv_host, kv_port
        self.capped_only, self.eos_first, self.cached = capped_only or handoff == "mooncake", eos_first, cached
        self.dp, self.encoders = dp, encoders
        self.faults = faults or Faults(PREFILL)
        self.handed: list[Held] = []
        """All hand-offs it ever gave out."""
        self.bootstrap: Bootstrap | None = None
        self.sources: Counter[str] = Counter()
        self.engines: list[Engine] = []
        self.restart()

    def restart(self) -> None:
        """A new process: nothing held, new engine ids. A push needs ids that stay, so they are configured there."""
        before: list[Engine | None] = [*self.engines] or [None] * self.dp
        for engine in self.engines:
            self.fabric.lose(engine)
        self.engines = [
            self.fabric.start(
                self.kv_host, self.kv_port + rank, rank, again=old if self.handoff == "nixl-push" else None
            )
            for rank, old in enumerate(before)
        ]

    async def _down(self) -> None:
        await super()._down()
        self.restart()

    @property
    def kv_usage(self) -> float:
        return sum(engine.in_use for engine in self.engines) / sum(engine.total for engine in self.engines)

    def gauges(self) -> list[tuple[str, str, float]]:
        expired = sum(engine.expired for engine in self.engines)
        sources = [
            ("vllm:prompt_tokens_by_source_total", f',source="{name}"', float(self.sources[name]))
            for name in ("local_compute", "local_cache_hit", "external_kv_transfer")
        ]
        return [*sources, ("vllm:nixl_num_kv_expired_reqs_total", "", expired)]

    # One leg

    async def _speak(
        self, exchange: Exchange, wire: Wire, body: dict[str, Any], turn: Turn, voice: ChatVoice, *, split: bool
    ) -> None:
        self.begin(exchange, read_prompt(body))
        fault = self.faults.draw()
        if await strike(fault, exchange, wire):
            return
        params = body.get("kv_transfer_params")
        engine = self._admit(exchange, body, params)
        prompt = read_prompt(body, self._media(body))
        turn.recast = {"key": f"prefill-only.{exchange.request_id}"}
        stops = self.eos_first and body.get("ignore_eos") is not True
        if stops or body.get("stop") or body.get("stop_token_ids"):
            self._end_at_once(turn)
            stops = True
        name = exchange.request_id
        self.fabric.prefilling[name] += 1
        request = f"chatcmpl-{name}" if "messages" in body else f"cmpl-{name}-0"
        held = self.fabric.hold(engine, f"{request}-{token_hex(4)}", name, prompt, turn.prompt_tokens)
        self.handed.append(held)
        told = False
        try:
            with ExitStack() as stack:
                if self.handoff != "nixl":
                    await self._push(exchange, held, params if isinstance(params, dict) else {}, stack)
                withheld = fault == "no_params" or body.get("stream") or (stops and self.capped_only)
                if not withheld and self.handoff == "nixl":
                    held.params = self._params(held, turn.prompt_tokens)
                voice.handed = _spoiled(held.params, fault) or None
                voice.cached = self.cached
                self.sources["local_compute"] += turn.prompt_tokens
                if fault == "truncated":
                    exchange.end = End.BROKEN
                    wire.raw(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{"id":')
                    wire.close()
                    return
                await super()._speak(exchange, wire, body, turn, voice, split=split)
                told = not withheld
        finally:
            self.fabric.prefilling[name] -= 1
            if not told and not body.get("stream"):
                self.fabric.end(held, State.RELEASED)
            if fault == "lost_after":
                self._crash(exchange)

    def _crash(self, last: Exchange) -> None:
        """The process dies and comes back; of its connections only that of its last answer ends well."""
        self.restart()
        for connection in list(self.connections):
            if connection.exchange is not last:
                connection.reset()

    def _admit(self, exchange: Exchange, body: dict[str, Any], params: Any) -> Engine:
        """What is wrong with the leg, and the engine of the rank it names."""
        for said in check_prefill(body, params, self.handoff):
            self.violate(*said)
        self.fabric.attempts[exchange.request_id] += 1
        if self.fabric.attempts[exchange.request_id] > 1:
            self.violate("request-id-reused", f"{exchange.request_id} is of an earlier prefill")
        if (body.get("min_tokens") or 0) > 1:
            raise Refused(400, f"min_tokens must be less than or equal to max_tokens=1, got {body['min_tokens']}.")
        if samples(body) > 1 and body.get("temperature") == 0:
            raise Refused(400, "n must be 1 when using greedy sampling")
        rank = exchange.headers.get("x-data-parallel-rank", "0")
        if not rank.isdigit() or int(rank) >= self.dp:
            self.violate("dp-rank", f"{rank} of {self.dp}")
            raise Refused(400, f"data_parallel_rank {rank} is out of range [0, {self.dp}).")
        return self.engines[int(rank)]

    def _media(self, body: dict[str, Any]) -> tuple[str, ...]:
        """The marks of what it sees, embedded elsewhere or by itself."""
        if self.encoders:
            for said in check_encoded(body, self.fabric.encodings, prefill=True):
                self.violate(*said)
        told = body.get("ec_transfer_params") or {}
        marks = [f"local.{content_of(part)}" for part in raw_media(body)]
        known = {encoding.uuid: encoding for encoding in self.fabric.encodings.values()}
        for part in parts_of(body):
            encoding = known.get(part.get("uuid", ""))
            if part.get("type") not in EMBEDS or encoding is None:
                continue
            handle = told.get(encoding.mm_hash) or {}
            if not self.fabric.encodings[encoding.mm_hash].take(handle):
                self.violate("embedding-lost", f"{encoding.mm_hash}: no such handle, or used before")
                raise Refused(500, "Internal server error")
            marks.append(encoding.mark)
        return tuple(marks)

    def _end_at_once(self, turn: Turn) -> None:
        """The first token ends the text, and nothing was capped."""
        turn.recast |= {"ans": 0}
        turn.thinking = False

    async def _push(self, exchange: Exchange, held: Held, params: dict[str, Any], stack: ExitStack) -> None:
        """Wait for the decode worker to ask, and give it the blocks."""
        rooms = self.fabric.rooms
        key = params.get("transfer_id") if self.handoff == "mooncake" else exchange.request_id
        self.fabric.keep(held)
        try:
            room = stack.enter_context(rooms.enter((self.handoff, held.engine.id, key), "prefill", exchange))
        except RoomTaken as taken:
            self.violate("transfer-reused", str(taken))
            raise Refused(500, "Internal server error") from None
        room.prompt, room.voice = held.prompt, held.voice
        if not await rooms.meet(room, "prefill", TIMEOUT):
            raise Refused(500, "Internal server error")
        self.fabric.end(held, State.PULLED)

    def _params(self, held: Held, tokens: int) -> dict[str, Any]:
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [held.blocks],
            "remote_engine_id": held.engine.id,
            "remote_request_id": held.request,
            "remote_host": self.told_host,
            "remote_port": held.engine.port,
            "tp_size": 1,
            "dcp_size": 1,
            "pp_size": 1,
            "remote_num_tokens": tokens,
            "remote_blocks_expiry_time": None,
            "transfer_mode": "pull",
            "remote_prefill_cached_tokens": self.cached,
        }


def _spoiled(params: dict[str, Any], fault: str) -> dict[str, Any]:
    """The parameters as the fault leaves them; the double keeps the right ones."""
    if fault == "empty_blocks":
        return {**params, "remote_block_ids": []}
    if fault == "missing_key":
        return {name: value for name, value in params.items() if name != "remote_host"}
    return params
