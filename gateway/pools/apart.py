"""A pool whose workers only decode: those who prefill and encode for them, and the hand-off between them.

The parts are pools of their own, with states, checks and choices of their own; what brings them together for a leg is
made here. What the workers say to each other is `handoff`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from itertools import count

from gateway.config import Pool as PoolConfig
from gateway.confighandoff import Disaggregation
from gateway.engines import Call
from gateway.engines.ids import has_media
from gateway.pools.handoff import Encoding, Errands, HandOff, Pair, Pairing, Place, Report, Wish, way_of
from gateway.pools.handoff.look import Get
from gateway.pools.meter import Bill
from gateway.pools.pressure import prompt_tokens_of
from gateway.pools.role import Role
from gateway.pools.roster import Roster
from gateway.pools.states import State
from gateway.pools.worker import Worker

_TRIED_WITH = frozenset({State.READY, State.WARMING})


def urls_by_role(config: PoolConfig) -> dict[Role, tuple[str, ...]]:
    """Who is there for what, beside the pool's own workers."""
    settings = config.disaggregation
    if settings is None:
        return {}
    urls = {Role.PREFILL: tuple(one.url for one in settings.prefill), Role.ENCODE: settings.encode}
    return {role: told for role, told in urls.items() if told}


class Apart:
    """Of one pool, whose workers `decode`."""

    def __init__(self, name: str, settings: Disaggregation, decode: Roster, parts: Mapping[Role, Roster]) -> None:
        self.prefill = parts[Role.PREFILL]
        self.way = way_of(settings)
        self.pairing = Pairing(settings, self.prefill, can_be_local=self.way.can_be_local)
        self._name = name
        self._decode = decode
        self._errands = Errands()
        self._turns = count()
        """One of the partners may be sick itself: another trial is with another."""
        encoders = parts.get(Role.ENCODE)
        self._encoding = None if encoders is None else Encoding(encoders, settings.encode_batch)

    def hand_off(
        self,
        decode: Worker,
        call: Call,
        key: str | None,
        tried: Collection[Worker],
        *,
        is_warm: bool,
        bill: Bill | None,
        is_urgent: bool = False,
    ) -> HandOff | None:
        """None where the decode worker prefills. Raises ApiError (503, 400)."""
        body, tokens = call.body, prompt_tokens_of(call)
        encodes = self._encoding is not None and "messages" in body and has_media(body)
        wish = Wish(body, tokens, key, is_warm=is_warm, has_media=encodes, is_urgent=is_urgent)
        prefill = self.pairing.choose(decode, wish, tried)
        return None if prefill is None else self.between(prefill, decode, tokens, bill)

    def between(self, prefill: Worker, decode: Worker, tokens: int = 0, bill: Bill | None = None) -> HandOff:
        """One leg's hand-off between these two; `tokens` of prompt, as estimated."""
        report = Report(prefill.name, decode.name, asyncio.get_running_loop().time())
        source, place = self.pairing.source(prefill), Place(prefill, tokens, bill)
        pair = Pair(
            source, place, decode, report, self._errands, self.pairing.settings.lease, self.pairing.may_be_local
        )
        return HandOff(
            self.way.transfer(pair),
            self.pairing,
            (prefill, decode),
            pool=self._name,
            witness=self._decode.listener,
            encoding=None if self._encoding is None else self._encoding.billed(bill),
        )

    def trial(self, worker: Worker) -> tuple[Worker, Worker] | str:
        """Who prefills and who decodes when a worker is tried before it gets any request: its partner is one that is
        ready, else one that answers. The reason, where there is none."""
        decodes = worker in self._decode.workers
        others = self.prefill.workers if decodes else self._decode.workers
        pairs = [(other, worker) if decodes else (worker, other) for other in others if other.state in _TRIED_WITH]
        whys = {pair: self.pairing.why_not(*pair) for pair in pairs}
        suited = [pair for pair, why in whys.items() if why is None]
        if not suited:
            why = next((f": {why}" for why in whys.values()), "")
            return f"there is no {'prefill' if decodes else 'decode'} worker to try it with{why}"
        ready = [pair for pair in suited if pair[0 if decodes else 1].is_ready] or suited
        return ready[next(self._turns) % len(ready)]

    async def look(self, get: Get, prefill: Worker) -> str | None:
        """Why a prefill worker cannot hand anything off, beside what its own health says. Raises what `get` does."""
        return await self.way.look(get, self.pairing.source(prefill))

    def succeed(self, before: Apart) -> None:
        """Under other settings of the pool, what its workers have told and done is still true."""
        self.way = before.way
        self.pairing.succeed(before.pairing)

    def close(self) -> None:
        self._errands.close()
