"""Getting a leg of a flight to generate: where it may stay, what it waits for, and what the ledger hears of it.

Retries are invisible, so they end with the first token; their rules are `attempts`'. What a leg is for, and what comes
after it, is the flight's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from budgets import Deadlines
from gateway.attempts import Attempts
from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.edge.request_id import leg_id
from gateway.engines import Call
from gateway.ledger import Entry
from gateway.leg import Leg
from gateway.pools import Pool, State, Worker
from gateway.pools.handoff import HandOff

SLOT_PATIENCE = 0.5
"""Seconds that a leg waits for the slot of the one before it: elsewhere its whole prompt would be read again."""

UNTOLD = frozenset({"first", "retry"})
"""The kinds of legs before which the client has been told nothing."""


class Launcher:
    """A flight's. Notes every launch in the flight's entry. `conversation` names whose prefix the workers may hold
    (`pools.affinity`)."""

    def __init__(self, pool: Pool, entry: Entry, deadlines: Deadlines, conversation: str | None = None) -> None:
        self._pool = pool
        self._entry = entry
        self._deadlines = deadlines
        self._conversation = conversation
        self._lost: list[Worker] = []
        self.worker: Worker | None = None
        """The one asked last."""

    def note_lost(self, worker: Worker) -> None:
        """It has failed this flight in mid-stream: as long as there is another, it is not asked again."""
        self._lost.append(worker)

    async def launch(
        self,
        make: Callable[[Worker], Call],
        kind: str,
        *,
        stay: Worker | None = None,
        avoid: Worker | None = None,
        fits: Callable[[Worker], bool] | None = None,
    ) -> Leg:
        """A leg that generates: on `stay`, whose cache is warm, if it can; else elsewhere, and not on `avoid` if there
        is another. Raises LegFailed, or ApiError where no worker is ready."""
        attempts = Attempts(
            self._pool,
            until=self._entry.started + self._deadlines.total,
            shunned=[*self._lost, *([avoid] if avoid is not None else [])],
            fits=fits,
            conversation=self._conversation,
            urgent=kind not in UNTOLD,
        )

        async def ask(worker: Worker) -> Leg:
            call = make(worker)
            hand_off = self._pool.hand_off(
                worker,
                call,
                key=self._conversation,
                tried=[*self._lost, *attempts.failed_before],
                is_warm=worker is stay,
                bill=self._entry.bills[0],
                is_urgent=attempts.urgent,
            )
            return await self._ask(worker, call, kind if len(attempts.tried) == 1 else "retry", hand_off)

        return await attempts.run(ask, await self._home(stay, urgent=attempts.urgent))

    async def _home(self, stay: Worker | None, *, urgent: bool) -> Worker | None:
        """`stay`, where the leg may begin there, once its slot is free; else None, once there is somebody to pick."""
        if stay is None or stay in self._lost or not self._may_stay(stay):
            await self._pool.wait_ready(self._deadlines.queue, urgent=urgent)
            return None
        if self._pool.dialect.has_slots:
            await stay.wait_gone(SLOT_PATIENCE)
        return stay

    def _may_stay(self, worker: Worker) -> bool:
        """What has begun on a worker that drains may finish there, where its prefix is; and where nobody else is ready,
        on one that has gone since the leg before: nobody stops an engine in that instant, and if so, it is told."""
        if worker.state is State.DRAINING and (worker.in_flight or worker.leaving):
            return True
        if worker.state in {State.DRAINING, State.GONE}:
            return not self._pool.has_other((), urgent=True)
        return self._pool.is_open(worker)

    async def _ask(self, worker: Worker, call: Call, kind: str, hand_off: HandOff | None) -> Leg:
        entry = self._entry
        if entry.dispatched is None:
            entry.dispatched = asyncio.get_running_loop().time()
        entry.kinds.append(kind)
        entry.legs += 1
        entry.worker = worker.name
        self.worker = worker
        names = {REQUEST_ID: leg_id(entry.request_id, entry.legs), "accept": "text/event-stream"}
        headers, trace = {**self._pool.headers, **names}, None
        if entry.trace is not None:
            pool = self._pool
            trace = entry.trace.leg(kind, worker.name, worker.url, pool.config.engine, pool.config.model)
            headers |= trace.headers
        profile = self._pool.profile
        return await Leg.launch(
            worker,
            call,
            profile,
            self._deadlines,
            headers,
            hand_off=hand_off,
            bill=entry.bills[0],
            trace=trace,
        )
