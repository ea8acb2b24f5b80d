"""A flight over scripted engines, its sink, its books, and what must hold after every flight."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from budgets import How, Plan
from gateway.config import EngineKind, ReasoningOutput, Timeouts
from gateway.deltas import Text
from gateway.flight import Flight
from gateway.ledger import Entry, Ledger
from gateway.observe.metrics import Metrics
from gateway.pools import Pool
from gateway.query import read_chat
from gateway.upstream import End, UpstreamError
from parsers import Field
from router import Decision, Route, Tier
from tests.scripted import ROLE, RecordingSink, ScriptedResponse, Tape, end, scripted_pool, stream, words

DECISION = Decision(Route.REASONING, 0.5, 0.9, 0.9, Tier.RULE, ())
UNCAPPED = Plan(How.CUT, None, 1, None, "test")
MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": "How many?"}]


class Books(Ledger):
    """Keeps the entries it is given."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        super().__init__(self.metrics)
        self.entries: list[Entry] = []

    def close(self, entry: Entry, now: float) -> None:
        super().close(entry, now)
        self.entries.append(entry)

    def sample(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"thinkgate_{name}", {"pool": "pool", **labels}) or 0.0


class Bench:
    """A pool of scripted workers and one flight over it."""

    def __init__(
        self,
        *workers: list[ScriptedResponse | UpstreamError],
        plan: Plan = UNCAPPED,
        engine: EngineKind = EngineKind.LLAMACPP,
        body: dict[str, Any] | None = None,
        timeouts: Timeouts | None = None,
        **thinking: Any,
    ) -> None:
        self.tape = Tape()
        self.pool: Pool
        self.pool, self.clients = scripted_pool(self.tape, *workers, engine=engine, timeouts=timeouts, **thinking)
        self.sink = RecordingSink(self.tape)
        self.books = Books()
        raw = json.dumps({"model": "m", "messages": MESSAGES, **(body or {})}).encode()
        self.query = read_chat(raw, output=ReasoningOutput.REASONING, request_id="r", caller="k")
        self.plan = replace(plan, deadlines=self.pool.policy(self.query.body).deadlines)

    async def fly(self) -> Entry:
        """Fly, then check what must hold after every flight."""
        flight = Flight(self.query, DECISION, self.plan, self.pool, self.books)
        try:
            await flight.run(self.sink)
        finally:
            self.check_nothing_is_left()
        return self.books.entries[0]

    def check_nothing_is_left(self) -> None:
        assert len(self.books.entries) == 1
        assert self.books.sample("flights_in_flight") == 0
        assert [worker.in_flight for worker in self.pool.workers] == [0] * len(self.pool.workers)
        for response in (response for client in self.clients for response in client.given):
            assert response.ended, "every answer is let go"
            assert response.is_read or response.ended[0] is End.ABANDONED, "what still runs is stopped"
        assert len(self.sink.landings) + len(self.sink.errors) <= 1

    def said(self, field: Field) -> str:
        return "".join(d.text for d in self.sink.deltas if isinstance(d, Text) and d.field is field)

    @property
    def report(self) -> dict[str, Any]:
        return self.sink.landings[0].report["thinking"]


def capped(cap: int, *, limit: int | None = None, how: How = How.CUT) -> Plan:
    return Plan(how, cap, 1, limit, "test")


def answer(*texts: str) -> ScriptedResponse:
    return stream(ROLE, words(*texts), end(prompt=30, completion=len(texts)))


def completion(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "text": text, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "e-2", "model": "m", "choices": [choice]}).encode() + b"\n\n"
