"""A vLLM 0.32 that decodes what others prefilled: it speaks with the voice it finds in the blocks it was handed."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import ExitStack
from typing import Any, ClassVar, Final

from tests.doubles.engine import Refused
from tests.doubles.exchange import Exchange
from tests.doubles.mind import Turn
from tests.doubles.pair.fabric import Engine, Held, KVFabric, Member, State
from tests.doubles.pair.faults import DECODE, IN_STREAM, Faults, strike
from tests.doubles.pair.legs import check_encoded, check_params, samples
from tests.doubles.pair.prompt import read_prompt
from tests.doubles.pair.rooms import RoomTaken
from tests.doubles.pair.vllm_prefill import EXPECTED, TIMEOUT, FakeVllmPrefill
from tests.doubles.request import limit_of
from tests.doubles.server import Wire
from tests.doubles.vllm import VllmDouble
from tests.doubles.voice_vllm import ChatVoice

DEAD: Final = "EngineCore encountered an issue. See stack trace (above) for the root cause."
_ADDRESS: Final = re.compile(r"http://(.+):(\d+)")


class LoadFailed(Exception):
    """The KV did not come. What then, `kv_load_failure_policy` says."""


class FakeVllmDecode(Member, VllmDouble):
    """`policy`: `kv_load_failure_policy`, `fail` or `recompute`. `local`: it may prefill by itself, without a hand-off.
    `releases_rejected`: a leg refused before admission frees the blocks (since vllm#41269)."""

    role: ClassVar[str] = "decode"
    expected: ClassVar[frozenset[str]] = EXPECTED

    def __init__(
        self,
        fabric: KVFabric,
        model: str = "double",
        *,
        handoff: str = "nixl",
        policy: str = "fail",
        local: bool = False,
        releases_rejected: bool = True,
        encoders: bool = False,
        faults: Faults | None = None,
        **more: Any,
    ) -> None:
        super().__init__(model, **more)
        self.join(fabric)
        self.handoff, self.policy, self.local = handoff, policy, local
        self.releases_rejected, self.encoders = releases_rejected, encoders
        self.faults = faults or Faults(DECODE)
        self.dead = False
        self.pulled: list[str] = []
        """Request ids of the hand-offs it read."""
        self.sources: Counter[str] = Counter()
        self.failed_transfers = 0

    def gauges(self) -> list[tuple[str, str, float]]:
        sources = [
            ("vllm:prompt_tokens_by_source_total", f',source="{name}"', float(self.sources[name]))
            for name in ("local_compute", "local_cache_hit", "external_kv_transfer")
        ]
        return [
            *sources,
            ("vllm:nixl_xfer_time_seconds_count", "", len(self.pulled)),
            ("vllm:nixl_num_failed_transfers_total", "", self.failed_transfers),
            ("vllm:nixl_num_kv_expired_reqs_total", "", 0),
        ]

    # Refused before admission

    async def _chat(self, exchange: Exchange, wire: Wire) -> None:
        await self._guarded(super()._chat, exchange, wire)

    async def _completions(self, exchange: Exchange, wire: Wire) -> None:
        await self._guarded(super()._completions, exchange, wire)

    async def _guarded(self, answer: Any, exchange: Exchange, wire: Wire) -> None:
        """A leg that is refused for what it says frees its blocks at prefill. Sent on purpose (no token wanted), that
        is how a hand-off is given back."""
        if self.dead:
            raise Refused(500, DEAD)
        body = exchange.json
        params = body.get("kv_transfer_params") if isinstance(body, dict) else None
        if not isinstance(params, dict):
            await answer(exchange, wire)
            return
        limit = limit_of(body)
        try:
            if limit is not None and limit < 1:
                raise Refused(400, f"max_tokens must be at least 1, got {limit}.", param="max_tokens")
            await answer(exchange, wire)
        except Refused as refused:
            held = self._held(params)
            if refused.status < 429 and held is not None and self.releases_rejected:
                self.fabric.end(held, State.RELEASED)
            raise

    # One leg

    async def _speak(
        self, exchange: Exchange, wire: Wire, body: dict[str, Any], turn: Turn, voice: ChatVoice, *, split: bool
    ) -> None:
        self.begin(exchange, read_prompt(body))
        fault = self.faults.draw()
        if await strike(fault, exchange, wire):
            return
        if self.encoders:
            for said in check_encoded(body, self.fabric.encodings, prefill=False):
                self.violate(*said)
        source, voice_key = "external_kv_transfer", ""
        with ExitStack() as stack:
            try:
                voice_key = await self._receive(exchange, body, stack, fault)
                voice.cached = turn.prompt_tokens
                voice.handed = {"do_remote_decode": True, "remote_engine_id": "decode-1", "remote_block_ids": [[9]]}
            except LoadFailed as failed:
                source = "local_compute"
                voice_key = f"local.{read_prompt(body).key}"
                if str(failed) == "transfer":
                    self.failed_transfers += 1
                if self.policy == "fail" and str(failed) != "none":
                    if not body.get("stream"):
                        raise Refused(500, "Internal server error") from None
                    fault = "error_before_delta"
            self.sources[source] += turn.prompt_tokens
            turn.recast = {"key": voice_key, **IN_STREAM.get(fault, {})}
            await super()._speak(exchange, wire, body, turn, voice, split=split)

    async def _receive(self, exchange: Exchange, body: dict[str, Any], stack: ExitStack, fault: str) -> str:
        """The voice in the KV that was handed over."""
        params = body.get("kv_transfer_params")
        if not isinstance(params, dict):
            if not self.local:
                self.violate("no-hand-off", f"{exchange.request_id} was to be prefilled here")
            raise LoadFailed("none")
        if samples(body) > 1:
            self.violate("shared-hand-off", f"{body['n']} samples read one hand-off")
        wrongs = list(check_params(params, self.handoff))
        for said in wrongs:
            self.violate(*said)
        codes = {code for code, _ in wrongs}
        if "engine-killed" in codes:
            self._die()
            raise Refused(500, DEAD)
        if "params-incomplete" in codes:
            await self._hang()
        if self.handoff == "nixl":
            return await self._pull(exchange, body, params, fault)
        return await self._take(exchange, body, params, stack, fault)

    async def _hang(self) -> None:
        """Waiting for KV it has promised itself. When the client gives up, the engine core dies of the missing key."""
        self.changed()
        try:
            await asyncio.Event().wait()
        finally:
            self._die()

    def _die(self) -> None:
        self.dead, self.health = True, 503
        self.changed()

    # Pull

    def _held(self, params: dict[str, Any]) -> Held | None:
        engine = self.fabric.engine_of(params.get("remote_engine_id"))
        return engine.held.get(str(params.get("remote_request_id"))) if engine else None

    async def _pull(self, exchange: Exchange, body: dict[str, Any], params: dict[str, Any], fault: str) -> str:
        engine = self.fabric.reach(params["remote_host"], params["remote_port"])
        held = self._held(params)
        self._check_origin(exchange, body, params, engine, held)
        if engine is None or engine.id != params["remote_engine_id"]:
            raise LoadFailed("transfer")
        if held is None:
            raise LoadFailed("none")  # measured: 200, recomputed here
        if held.state is State.EXPIRED or fault == "expired":
            self.fabric.end(held, State.EXPIRED)
            raise LoadFailed("none")  # measured: 200, recomputed here
        self.fabric.keep(held)
        try:
            if fault == "slow_transfer":
                await exchange.held()
            if fault == "pull_fails":
                raise LoadFailed("transfer")
            return self._read(body, params, engine, held)
        finally:
            self.fabric.end(held, State.PULLED if held.request in self.pulled else State.RELEASED)

    def _check_origin(
        self, exchange: Exchange, body: dict[str, Any], params: dict[str, Any], engine: Engine | None, held: Held | None
    ) -> None:
        """Are these parameters the ones that P gave for this very leg?"""
        if self.fabric.prefilling[exchange.request_id] > 0:
            self.violate("decode-too-early", f"{exchange.request_id} is still being prefilled")
        owner = self.fabric.engine_of(params["remote_engine_id"])
        if owner is None:
            self.violate("unknown-engine", str(params["remote_engine_id"]))
        elif owner.alive and engine is not owner:
            self.violate("wrong-address", f"{params['remote_host']}:{params['remote_port']}")
        if held is None:
            self.violate("unknown-request", str(params["remote_request_id"]))
            return
        if held.gateway_id != exchange.request_id:
            self.violate("request-id-differs", f"prefilled as {held.gateway_id}, decoded as {exchange.request_id}")
        own = held.params.keys() - {"remote_host", "tp_size"}
        altered = sorted(name for name in own if params.get(name) != held.params[name])
        if altered or params.keys() - held.params.keys() - {"prompt_token_ids"}:
            self.violate("params-altered", f"{altered or params.keys() - held.params.keys()}")
        if held.state in {State.PULLED, State.RELEASED}:
            self.violate("used-twice", held.request)
        if held.state is State.EXPIRED:
            self.violate("hand-off-expired", held.request)

    def _read(self, body: dict[str, Any], params: dict[str, Any], engine: Engine, held: Held) -> str:
        """Read the blocks. A prompt that is not theirs, blocks that were given up: noise, or another prompt's voice."""
        blocks = [block for group in params["remote_block_ids"] for block in group]
        found = engine.read(blocks)
        stale = held.state is not State.HELD
        self.pulled.append(held.request)
        if blocks != held.blocks or not found or (stale and found == held.voice):
            self.failed_transfers += 1
            return f"garbage.{held.request}"
        return self._same_prompt(body, held.prompt, found)

    def _same_prompt(self, body: dict[str, Any], prefilled: Any, found: str) -> str:
        if names := prefilled.differs(read_prompt(body)):
            self.violate("prompt-mismatch", f"{names} differ from the prefill leg's")
            return f"garbage.{found}"
        return found

    # Push

    async def _take(
        self, exchange: Exchange, body: dict[str, Any], params: dict[str, Any], stack: ExitStack, fault: str
    ) -> str:
        """Register at the prefill engine, and wait for it to write."""
        engine = self._source(exchange, params)
        key = params["transfer_id"] if self.handoff == "mooncake" else exchange.request_id
        rooms = self.fabric.rooms
        try:
            room = stack.enter_context(rooms.enter((self.handoff, engine and engine.id, key), "decode", exchange))
        except RoomTaken as taken:
            self.violate("transfer-reused", str(taken))
            raise Refused(500, "Internal server error") from None
        if fault == "slow_transfer":
            await exchange.held()
        if not await rooms.meet(room, "decode", TIMEOUT) or room.prompt is None or fault in {"pull_fails", "expired"}:
            raise LoadFailed("transfer")
        self.pulled.append(str(key))
        return self._same_prompt(body, room.prompt, room.voice)

    def _source(self, exchange: Exchange, params: dict[str, Any]) -> Engine | None:
        """The engine that these coordinates reach, or none."""
        engine = self.fabric.engine_of(params["remote_engine_id"])
        if engine is None:
            self.violate("unknown-engine", str(params["remote_engine_id"]))
            return None
        if not engine.alive:
            raise LoadFailed("transfer")
        if self.handoff == "mooncake":
            found = _ADDRESS.fullmatch(str(params["remote_bootstrap_addr"]))
            served = self._bootstraps().get((found[1], int(found[2]))) if found else None
            reached = served is not None and engine in served.engines
        else:
            reached = engine is self.fabric.reach(params["remote_host"], params["remote_port"])
            if params["remote_request_id"] != exchange.request_id:
                self.violate("request-id-differs", f"{params['remote_request_id']} and {exchange.request_id}")
        if not reached:
            self.violate("wrong-address", repr(params))
        return engine if reached else None

    def _bootstraps(self) -> dict[tuple[str, int], FakeVllmPrefill]:
        return self.fabric.bootstraps
