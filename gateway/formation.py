"""Several choices of one request (`n` > 1), each a flight of its own, that the client sees as one answer.

One choice of several cannot be cut or rescued while the others go on: an engine ends a request as a whole. So where the
gateway may have to, it asks for each choice by itself; the engine's prefix cache makes the prompt cheap. Nothing about
legs in here, and nothing about engines.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec

from budgets import How, Plan
from gateway.account import Account
from gateway.bands import band_of
from gateway.deltas import Begin, Delta, Finish, Text, ToolCalls
from gateway.edge.errors import ApiError
from gateway.flight import Flight, Sink
from gateway.landing import Landing
from gateway.ledger import Books, Entry, Outcome
from gateway.pools import Pool
from gateway.query import Query
from gateway.reading import Identity
from router import Decision

_WORST_FIRST = (
    Outcome.CLIENT_GONE,
    Outcome.SHUT_DOWN,
    Outcome.FAILED,
    Outcome.REJECTED,
    Outcome.LOOP,
    Outcome.LENGTH,
    Outcome.MIGRATED,
    Outcome.LOOP_RESCUED,
    Outcome.CUT_ANSWERED,
    Outcome.ANSWERED,
)


def charter(query: Query, decision: Decision, plan: Plan, pool: Pool, books: Books) -> Flight | Formation:
    """The flight of a request, or as many as it asks for choices, if one of them may have to be held by itself."""
    if query.choices > 1 and (plan.closes or plan.how in {How.CUT, How.NATIVE} or pool.apart is not None):
        return Formation(query, decision, plan, pool, books)
    return Flight(query, decision, plan, pool, books)


class Formation:
    """`run` once."""

    def __init__(self, query: Query, decision: Decision, plan: Plan, pool: Pool, books: Books) -> None:
        self._books = books
        self._tally = _Tally()
        self._flights = [
            Flight(_single(query, index), decision, plan, pool, self._tally) for index in range(query.choices)
        ]
        loop = asyncio.get_running_loop()
        self._entry = Entry(
            request_id=query.request_id,
            caller=query.caller,
            route=decision.route,
            pool=pool.name,
            complexity=decision.complexity,
            started=loop.time(),
            band=band_of(decision),
            cap=plan.cap,
            gpu_hour_price=pool.config.gpu_hour_price,
            trace=query.trace,
        )

    async def run(self, sink: Sink) -> None:
        """Fly to the end of all. The first that fails fails the request; the engine stops with the others."""
        self._books.begin(self._entry)
        bridge = _Bridge(sink)
        try:
            async with asyncio.TaskGroup() as group:
                for index, flight in enumerate(self._flights):
                    group.create_task(flight.run(_Seat(index, bridge)))
            await sink.land(_joined(bridge.landings))
        except BaseExceptionGroup as group:
            down = next((one for one in group.exceptions if isinstance(one, _Down)), None)
            if down is None:
                raise
            if bridge.has_told:
                down.error.headers.setdefault("x-should-retry", "false")
            await sink.fail(down.error)
        except asyncio.CancelledError:
            self._entry.outcome = Outcome.CLIENT_GONE
            raise
        finally:
            self._tally.sum_up(self._entry)
            self._books.close(self._entry, asyncio.get_running_loop().time())

    def break_off(self, error: ApiError) -> None:
        """End all that still fly; the client is told once."""
        for flight in self._flights:
            flight.break_off(error)


class _Down(Exception):
    """One of the flights has failed."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message)
        self.error = error


class _Bridge:
    """The client's sink, shared by all seats: one writes at a time."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.lock = asyncio.Lock()
        self.landings: dict[int, Landing] = {}
        self.has_told = False
        """Has any choice said anything? Then a retry would burn the same GPU time again."""


class _Seat:
    """The sink of one choice: its only choice becomes the one it is of the request."""

    def __init__(self, index: int, bridge: _Bridge) -> None:
        self._index = index
        self._bridge = bridge

    async def write(self, deltas: list[Delta], identity: Identity) -> None:
        told = [moved for delta in deltas if (moved := self._moved(delta)) is not None]
        if told:
            self._bridge.has_told = self._bridge.has_told or any(isinstance(delta, Text | ToolCalls) for delta in told)
            async with self._bridge.lock:
                await self._bridge.sink.write(told, identity)

    async def land(self, landing: Landing) -> None:
        self._bridge.landings[self._index] = landing

    async def fail(self, error: ApiError) -> None:
        raise _Down(error)

    def _moved(self, delta: Delta) -> Delta | None:
        if not self._index:
            return delta
        if isinstance(delta, Text):  # the engine's own event speaks of choice 0
            return msgspec.structs.replace(delta, index=self._index, raw=None)
        if isinstance(delta, Begin | ToolCalls):
            return msgspec.structs.replace(delta, index=self._index)
        return None


class _Tally:
    """Where the flights' entries go, to become one."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def begin(self, entry: Entry) -> None:
        """Counted once, by the formation."""

    def close(self, entry: Entry, now: float) -> None:
        self._entries.append(entry)

    def sum_up(self, whole: Entry) -> None:
        parts = self._entries
        if not parts:
            return
        # Where one has failed the others were stopped; only the formation knows whether the client is gone.
        own = [part for part in parts if part.outcome is not Outcome.CLIENT_GONE]
        worst = min(own or parts, key=lambda part: _WORST_FIRST.index(part.outcome))
        failed = next((part for part in parts if part.problem), None)
        if whole.outcome is not Outcome.CLIENT_GONE and own:
            whole.outcome = (failed or worst).outcome
        if failed is not None:
            whole.status, whole.problem = failed.status, failed.problem
        whole.worker = worst.worker
        whole.prompt, whole.cached = max(part.prompt for part in parts), parts[0].cached
        for part in parts:
            whole.legs += part.legs
            whole.kinds += part.kinds
            whole.reasoning += part.reasoning
            whole.answer += part.answer
            whole.injected += part.injected
            whole.overran_on = whole.overran_on or part.overran_on
            whole.wasted += part.wasted
            whole.trimmed += part.trimmed
            whole.bills += part.bills
            whole.ended_by = whole.ended_by or part.ended_by
            whole.loops += part.loops
        whole.dispatched = _earliest(part.dispatched for part in parts)
        whole.began_with_thought = any(part.began_with_thought for part in parts)
        whole.choices = len(parts)
        whole.first_token = _earliest(part.first_token for part in parts)
        whole.first_answer_token = _earliest(part.first_answer_token for part in parts)


def _single(query: Query, index: int) -> Query:
    """The request for one choice. Seeds differ, or all choices would be the same one."""
    body: dict[str, Any] = {name: value for name, value in query.body.items() if name != "n"}
    if isinstance(body.get("seed"), int):
        body["seed"] += index
    return replace(query, body=body, choices=1, request_id=f"{query.request_id}-c{index}")


def _joined(landings: dict[int, Landing]) -> Landing:
    """One usage: the prompt was one, whatever an engine has read again."""
    ordered = [landings[index] for index in sorted(landings)]
    account = Account()
    finishes: list[Finish] = []
    for index, landing in enumerate(ordered):
        part = landing.account
        account.prompt = max(account.prompt, part.prompt)
        account.cached = part.cached if account.cached is None else account.cached
        account.completion += part.completion
        account.reasoning += part.reasoning
        account.injected += part.injected
        account.phrases += part.phrases
        finishes += [msgspec.structs.replace(finish, index=index) for finish in landing.finishes]
    first = ordered[0].report
    thoughts = [landing.report["thinking"] for landing in ordered]
    loops = [
        {"choice": index, **loop} for index, landing in enumerate(ordered) for loop in landing.report.get("loops", ())
    ]
    thinking = {
        **first["thinking"],
        "tokens": sum(thought["tokens"] for thought in thoughts),
        "injected_tokens": sum(thought["injected_tokens"] for thought in thoughts),
    }
    legs = sum(landing.report["legs"] for landing in ordered)
    report = {**first, "legs": legs, "thinking": thinking, "choices": thoughts}
    return Landing(finishes, account, {**report, "loops": loops} if loops else report)


def _earliest(times: Any) -> float | None:
    return min((time for time in times if time is not None), default=None)
