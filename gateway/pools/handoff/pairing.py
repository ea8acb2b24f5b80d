"""Who prefills for a leg that decodes elsewhere, whether anybody has to, and which two do not get on with each other.

Roles are chosen one by one: the decode worker first, by whoever starts the leg, then a prefill worker that it can be
paired with. What they say to each other is the hand-off's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from gateway.confighandoff import Disaggregation, PrefillWorker
from gateway.edge.errors import ApiError, bad_request
from gateway.pools.breaker import Breaker
from gateway.pools.handoff.prompts import wants_one_worker
from gateway.pools.retries import RetryBudget
from gateway.pools.roster import Roster
from gateway.pools.states import State
from gateway.pools.verdict import NEUTRAL, Kind, Verdict
from gateway.pools.worker import Worker

EDGE_FAILS = 2
"""Failures in a row of two workers with each other after which others are tried first. A network between two hosts can
be broken while both are well with everyone else (vllm#55471)."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a leg asks for. `tokens`: of its prompt, estimated; `key`: its conversation."""

    body: dict[str, Any]
    tokens: int
    key: str | None = None
    is_warm: bool = False
    """Does the decode worker hold the most of its prompt already, since it ran the leg before?"""
    has_media: bool = False
    is_urgent: bool = False
    """Has its client seen a part of the answer already?"""


class Pairing:
    """Of one pool."""

    def __init__(self, settings: Disaggregation, prefill: Roster, *, can_be_local: bool) -> None:
        self.settings = settings
        self.prefill = prefill
        self.can_be_local = can_be_local
        self._sources = {one.url: one for one in settings.prefill}
        self._edges: dict[tuple[Worker, Worker], Breaker] = {}
        self._local = RetryBudget()
        """How many prompts that should be prefilled elsewhere a decode worker may prefill."""

    def source(self, worker: Worker) -> PrefillWorker:
        return self._sources.get(worker.url) or PrefillWorker(url=worker.url)

    def succeed(self, before: Pairing) -> None:
        """What has been learnt under other settings of the pool."""
        self._edges, self._local = before._edges, before._local

    def has_pair(self, decode: Worker) -> bool:
        """Could a leg on this worker be prefilled?"""
        return self.does_without or any(self._suits(worker, decode) for worker in self.prefill.workers)

    @property
    def does_without(self) -> bool:
        return self.settings.without_prefill == "local"

    def choose(self, decode: Worker, wish: Wish, tried: Collection[Worker] = ()) -> Worker | None:
        """Who prefills; None: the decode worker itself. Raises ApiError: 503 where nobody can, 400 where nobody
        could."""
        now = self.prefill.clock()
        self._local.note_launch(now)
        alone = wants_one_worker(wish.body)
        if self.can_be_local:
            if alone or wish.is_warm or (wish.tokens < self.settings.local_below and not wish.has_media):
                return None
        elif alone:
            raise bad_request(
                f"`{alone}` cannot be had where prefill and decode are apart.", param=alone, code="unsupported_value"
            )
        suited = {worker for worker in self.prefill.workers if self._suits(worker, decode)}
        if not suited:
            if self.does_without and self._local.take(now):
                return None
            raise self.nobody_for(decode)
        return self.prefill.pick(
            tried,
            lambda worker: self._admits(worker, decode, now),
            wish.key,
            urgent=wish.is_urgent,
            among=lambda worker: worker in suited,
        )

    def may_be_local(self) -> bool:
        """A prefill worker has answered and handed nothing off: may the decode worker read the prompt again?"""
        is_wanted = self.can_be_local and self.settings.if_missing == "local"
        return is_wanted and self._local.take(self.prefill.clock())

    def begin(self, prefill: Worker, decode: Worker) -> int:
        """The stamp of a hand-off between these two, to be given back with what came of it."""
        return self._edge(prefill, decode).take()

    def note(self, prefill: Worker, decode: Worker, verdict: Verdict, stamp: int) -> Verdict:
        """What came of the decode leg, and what of it is held against the decode worker: nothing, as long as it gets
        on with another."""
        self._edge(prefill, decode).note(verdict, stamp, self.prefill.clock())
        if verdict.kind is not Kind.FAILURE or verdict.is_unreachable:
            return verdict
        others = [worker for worker in self.prefill.workers if worker is not prefill and self._suits(worker, decode)]
        is_his_doing = not others or any(self._edge(other, decode).is_failing for other in others)
        return verdict if is_his_doing else NEUTRAL

    def shown(self) -> list[dict[str, object]]:
        """The pairs that have trouble, as an operator reads it."""
        return [
            {"prefill": prefill.name, "decode": decode.name, "open": edge.is_open}
            for (prefill, decode), edge in self._edges.items()
            if edge.is_failing and State.GONE not in {prefill.state, decode.state}
        ]

    def why_not(self, prefill: Worker, decode: Worker) -> str | None:
        """Why these two are never paired, whatever state they are in."""
        groups = self.settings.groups
        if groups.get(prefill.url) != groups.get(decode.url):
            return "their transfer groups differ"
        return unlike(prefill, decode)

    def _suits(self, prefill: Worker, decode: Worker) -> bool:
        return self.prefill.is_open(prefill, urgent=True) and self.why_not(prefill, decode) is None

    def _admits(self, prefill: Worker, decode: Worker, now: float) -> bool:
        edge = self._edge(prefill, decode)
        return edge.half_open(now) and edge.admits

    def _edge(self, prefill: Worker, decode: Worker) -> Breaker:
        edge = self._edges.get((prefill, decode))
        if edge is None:
            for pair in [pair for pair in self._edges if any(worker.state is State.GONE for worker in pair)]:
                del self._edges[pair]
            edge = self._edges[prefill, decode] = Breaker(EDGE_FAILS)
        return edge

    def nobody_for(self, decode: Worker) -> ApiError:
        """Why no worker can prefill for this one."""
        ready = [worker for worker in self.prefill.workers if worker.is_ready]
        if not ready:
            return self.prefill.unavailable()
        why = next((reason for worker in ready if (reason := self.why_not(worker, decode))), "it is busy")
        return ApiError(
            503,
            f"No prefill worker suits those that decode: {why}.",
            "server_error",
            code="no_ready_worker",
            headers={"retry-after": "5"},
        )


def unlike(prefill: Worker, decode: Worker) -> str | None:
    """In what the caches of two workers differ, so that one cannot read the other's; None as far as anybody knows."""
    one, other = prefill.kv_cache, decode.kv_cache
    if one is None or other is None:
        return None
    if None not in (one.block, other.block) and one.block != other.block:
        return f"their KV blocks have {one.block} and {other.block} tokens"
    if None not in (one.dtype, other.dtype) and one.dtype != other.dtype:
        return f"their KV caches are of {one.dtype} and {other.dtype}"
    return None
