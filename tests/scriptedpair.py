"""A pool whose workers only decode, and those who prefill for them, over scripted connections: what each of the two
answers is a test's to say, and nothing takes real time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from gateway.config import EngineKind
from gateway.config import Pool as PoolConfig
from gateway.engines import Call
from gateway.leg import Leg
from gateway.pools import Pool, Worker
from gateway.pools.handoff import HandOff
from gateway.pools.handoff.push import MooncakeWay
from gateway.upstream import Response, Terms, UpstreamError, UpstreamFault
from parsers import Start
from tests.scripted import HANG, Asked, ScriptedResponse, end, make_ready, reply, stream, words

Answer = ScriptedResponse | UpstreamError | str
"""What a request comes to: an answer, a failure, or `HANG`: no head of an answer ever comes."""

PARAMS: dict[str, Any] = {
    "do_remote_prefill": True,
    "do_remote_decode": False,
    "remote_block_ids": [[1, 2, 3]],
    "remote_engine_id": "e-1",
    "remote_request_id": "r-1",
    "remote_host": "10.0.0.8",
    "remote_port": 5600,
    "tp_size": 1,
}
USAGE = {"prompt_tokens": 40, "prompt_tokens_details": {"cached_tokens": 8}}
HEADERS = {"x-request-id": "r"}


def prefilled(**more: Any) -> ScriptedResponse:
    """What a prefill worker answers that has done well; `kv_transfer_params` with it, if not told otherwise."""
    return reply({"usage": USAGE, "kv_transfer_params": PARAMS, **more})


def decoded() -> ScriptedResponse:
    return stream(words("yes"), end())


class PairedClient:
    """Asks `answer` for each request's; unlike a client of one worker it says when the request is on its way."""

    def __init__(self, answer: Callable[[Asked], Answer]) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.given: list[ScriptedResponse] = []

    async def post(
        self, path: str, headers: Mapping[str, str], body: bytes, sent: asyncio.Event | None = None
    ) -> Response:
        await asyncio.sleep(0)  # connecting
        asked = Asked(path, dict(headers), json.loads(body))
        answer = self.answer(asked)
        if isinstance(answer, UpstreamError) and answer.fault is UpstreamFault.CONNECT:
            raise answer
        self.asked.append(asked)
        if sent is not None:
            sent.set()
        await asyncio.sleep(0)
        if answer == HANG:
            await asyncio.Event().wait()
        if isinstance(answer, UpstreamError):
            raise answer
        assert isinstance(answer, ScriptedResponse)
        self.given.append(answer)
        return answer

    def retune(self, terms: Terms) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is open."""


class Ear:
    """A listener to hand-offs, deaf to all else."""

    def __init__(self, heard: list[str]) -> None:
        self._heard = heard

    def handed(self, pool: str, seconds: float, tokens: int) -> None:
        self._heard.append("handed")

    def not_handed(self, pool: str) -> None:
        self._heard.append("missing")

    def orphaned(self, pool: str, seconds: float) -> None:
        self._heard.append("orphaned")

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


class Bench:
    """`prefills` and `decodes` workers, `ready` or new; without another word each answers well. A clock that stands."""

    def __init__(
        self,
        handoff: str = "nixl",
        *,
        prefills: int = 1,
        decodes: int = 1,
        ready: bool = True,
        pool: dict[str, Any] | None = None,
        **apart: Any,
    ) -> None:
        told = [{"url": f"http://p{i}:1", "engine_id": f"e{i}"} for i in range(prefills)]
        config: dict[str, Any] = {
            "model": "m",
            "engine": EngineKind.SGLANG if handoff == "sglang" else EngineKind.VLLM,
            "format": "think",
            "workers": tuple(f"http://d{i}:1" for i in range(decodes)),
            "disaggregation": {"handoff": handoff, "prefill": told, "local_below": 0, **apart},
        }
        self.now = 1_000.0
        self.pool = Pool("pool", PoolConfig.model_validate({**config, **(pool or {})}))
        apart_of = self.pool.apart
        assert apart_of is not None
        self.apart = apart_of
        self.prefills, self.decodes = self.pool.parts[1].workers, self.pool.workers
        if ready and isinstance(self.apart.way, MooncakeWay):
            for worker in self.prefills:
                self.apart.way.note(self.apart.pairing.source(worker), {"0": {"engine_id": "e0"}})
        self.clients: dict[Worker, PairedClient] = {}
        self.heard: list[str] = []
        """What came of hand-offs, in their order."""
        for part in self.pool.parts:
            part.clock = lambda: self.now
            for worker in part.workers:
                is_prefill = worker in self.prefills
                client = PairedClient(lambda asked, well=prefilled if is_prefill else decoded: well())
                self.clients[worker] = worker.client = client
                worker.departed = None  # nobody watches what has left
            if ready:
                make_ready(part)

        self.pool.listener = Ear(self.heard)

    def call(self, **body: Any) -> Call:
        asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True, **body}
        return Call("/v1/chat/completions", asked, Start.CLOSED, None)

    def hand_off(self, decode: Worker | None = None, **more: Any) -> HandOff:
        told: dict[str, Any] = {"key": None, "tried": (), "is_warm": False, **more}
        found = self.pool.hand_off(decode or self.decodes[0], self.call(), **told)
        assert found is not None
        return found

    async def launch(self, decode: Worker | None = None, **more: Any) -> Leg:
        """Raises LegFailed."""
        worker = decode or self.decodes[0]
        handed = self.hand_off(worker, **more)
        return await Leg.launch(
            worker, self.call(), self.pool.profile, self.pool.config.timeouts, HEADERS, hand_off=handed
        )

    @property
    def load(self) -> dict[str, tuple[int, int]]:
        """Legs and tokens of every worker that has some."""
        return {
            one.name: (one.gauge.legs, one.gauge.tokens) for one in self.clients if one.gauge.legs or one.gauge.tokens
        }

    async def quiet(self) -> None:
        """Until what runs beside has come to its end."""
        for _ in range(40):
            await asyncio.sleep(0)
