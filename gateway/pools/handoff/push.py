"""vLLM's connectors that push: the prefill worker sends the cache to a decode worker that has said where it wants it.

Both legs run at once and find each other by an id: NIXL's by the request id they share, Mooncake's by a transfer id, at
the bootstrap server of the prefill worker (`nixl_kv_push_connector.md` and `mooncake_connector.py` of vLLM 0.33).
"""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_hex
from typing import Any

from gateway.confighandoff import PrefillWorker
from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.pools.handoff.base import Pair, senseless
from gateway.pools.handoff.beside import Beside
from gateway.pools.handoff.look import Get, bracketed, fields_at
from gateway.pools.handoff.prompts import prefill_of
from gateway.pools.handoff.pull import OFFER
from gateway.pools.handoff.ranks import Ranks

RANK = "x-data-parallel-rank"


class NixlPushWay:
    """What the decode worker has to know of the prefill worker is in the config: it does not change."""

    can_be_local = True
    takes_strangers = False

    async def look(self, get: Get, source: PrefillWorker) -> str | None:
        return None

    def transfer(self, pair: Pair) -> NixlPush:
        return NixlPush(pair)


class NixlPush(Beside):
    def _bodies(self, headers: Mapping[str, str], body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        source = self._pair.source
        coordinates = {
            "do_remote_decode": False,
            "do_remote_prefill": True,
            "remote_engine_id": source.engine_id,
            "remote_request_id": headers[REQUEST_ID],
            "remote_host": source.host,
            "remote_port": source.side_channel_port,
            "tp_size": source.tp_size,
            "pp_size": source.pp_size,
        }
        return {**prefill_of(body), "kv_transfer_params": OFFER}, {**body, "kv_transfer_params": coordinates}


class MooncakeWay:
    """Its engines have new ids after a restart: they are asked for with every health check."""

    can_be_local = True
    takes_strangers = True

    def __init__(self) -> None:
        self._ranks = Ranks()
        self._engines: dict[str, dict[int, str]] = {}
        """By the prefill worker's address: the engine of each rank."""

    async def look(self, get: Get, source: PrefillWorker) -> str | None:
        return self.note(source, await fields_at(get, f"{_bootstrap(source)}/query"))

    def note(self, source: PrefillWorker, told: Mapping[str, Any]) -> str | None:
        """What a bootstrap server says of its engines, by rank; why that will not do."""
        engines = {int(rank): one.get("engine_id") for rank, one in told.items() if rank.isdigit()}
        if not engines or not all(isinstance(engine, str) and engine for engine in engines.values()):
            self._engines.pop(source.url, None)
            return "its bootstrap server names no engine"
        self._engines[source.url] = engines
        return None

    def transfer(self, pair: Pair) -> Mooncake:
        engines = self._engines.get(pair.source.url, {})
        ranks = sorted(engines) or [0]
        rank = ranks[self._ranks.next(pair.source, len(ranks))]
        return Mooncake(pair, rank, engines.get(rank, ""))


class Mooncake(Beside):
    def __init__(self, pair: Pair, rank: int, engine: str) -> None:
        super().__init__(pair)
        self._rank = rank
        self._engine = engine

    def _prefill_headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """The rank whose engine the decode worker is told of."""
        return {**headers, RANK: str(self._rank)}

    def _bodies(self, headers: Mapping[str, str], body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        if not self._engine:  # a decode worker that is told of none waits for what never comes
            raise senseless(self._place, "The prefill worker's engine is not known.")
        transfer = f"xfer-{token_hex(16)}"
        offer = {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": transfer}
        fetch = {
            "do_remote_decode": False,
            "do_remote_prefill": True,
            "remote_bootstrap_addr": _bootstrap(self._pair.source),
            "remote_engine_id": self._engine,
            "transfer_id": transfer,
        }
        return {**prefill_of(body), "kv_transfer_params": offer}, {**body, "kv_transfer_params": fetch}


def _bootstrap(source: PrefillWorker) -> str:
    return f"http://{bracketed(source.host)}:{source.bootstrap_port}"
