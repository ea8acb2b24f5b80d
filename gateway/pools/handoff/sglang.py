"""SGLang: both workers get the same request with the same room, and find each other at the prefill worker's bootstrap
server (`disaggregation/` of SGLang 0.5.23).

A room is drawn for every attempt and never used again: two requests in one room hang for 300 s, or get each other's
cache. So is the id that an abort names: aborts match by its beginning, so all have one length.
"""

from __future__ import annotations

from collections.abc import Mapping
from secrets import randbits, token_hex
from typing import Any

from gateway.confighandoff import PrefillWorker
from gateway.pools.handoff.base import Pair
from gateway.pools.handoff.beside import Beside
from gateway.pools.handoff.look import Get, bracketed
from gateway.pools.handoff.ranks import Ranks
from gateway.pools.worker import Worker

ABORT_PATH = "/abort_request"
ROUTE = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"
"""Answers 200 once all ranks have registered, 503 before."""


class SglangWay:
    """Of one pool."""

    can_be_local = False
    """A decode worker answers 400 without a room."""
    takes_strangers = True

    def __init__(self) -> None:
        self._ranks = Ranks()

    async def look(self, get: Get, source: PrefillWorker) -> str | None:
        url = f"http://{bracketed(source.host)}:{source.bootstrap_port}"
        status, _ = await get(f"{url}{ROUTE}")
        return None if status == 200 else f"its bootstrap server answers {status}"

    def transfer(self, pair: Pair) -> SglangTransfer:
        return SglangTransfer(pair, self._ranks.next(pair.source))


class SglangTransfer(Beside):
    def __init__(self, pair: Pair, rank: int) -> None:
        super().__init__(pair)
        self._rank = rank
        self._rid = token_hex(16)
        self._headers: Mapping[str, str] = {}

    def _bodies(self, headers: Mapping[str, str], body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        self._headers = headers
        source = self._pair.source
        meeting: dict[str, Any] = {
            "bootstrap_host": bracketed(source.host),
            "bootstrap_port": source.bootstrap_port,
            "bootstrap_room": room_for(self._rank, source.dp_size),
            "rid": self._rid,
        }
        both = {**body, **meeting}
        if source.dp_size == 1:
            return both, both
        # By default the rank follows from the room; a server that was told otherwise goes by these.
        return {**both, "routed_dp_rank": self._rank}, {**both, "disagg_prefill_dp_rank": self._rank}

    def _tell_off(self, worker: Worker) -> None:
        """It looks for closed connections only now and then, and an unpaired leg holds a slot for 300 s."""
        self._pair.errands.send(worker, ABORT_PATH, self._headers, {"rid": self._rid})


def room_for(rank: int, ranks: int) -> int:
    """A room that nobody else draws, 0 ≤ room < 2^63, which the prefill worker assigns to this rank."""
    return randbits(62) // ranks * ranks + rank
