"""The router inside the service: its deadline, prompts that come together, its queue, and trouble in the encoder."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import cast

import pytest

from gateway import routing
from gateway.observe.metrics import Metrics
from gateway.routing import Routing
from router import Ask, Classifier, Decision, Route, Tier

HARD, EASY = Ask("prove it"), Ask("hello")
PATIENT = 5.0


def verdict(tier: Tier) -> Decision:
    return Decision(Route.REASONING, 0.5, 0.9, 0.9, tier, ())


class FakeClassifier:
    """`decide` waits for `gate`, and counts how often it ran."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.runs: list[Ask] = []
        self.known: dict[Ask, Decision] = {}
        self.error: Exception | None = None

    def peek(self, ask: Ask) -> Decision | None:
        return self.known.get(ask)

    def lexical(self, ask: Ask) -> Decision:
        return verdict(Tier.LEXICAL)

    def decide(self, ask: Ask) -> Decision:
        self.runs.append(ask)
        assert self.gate.wait(PATIENT)
        if self.error is not None:
            raise self.error
        self.known[ask] = verdict(Tier.ENCODER)
        return self.known[ask]


class Bench:
    def __init__(self) -> None:
        self.classifier = FakeClassifier()
        self.metrics = Metrics()
        self.made: list[Routing] = []

    def routing(self, deadline: float) -> Routing:
        made = Routing(cast("Classifier", self.classifier), self.metrics, deadline=deadline)
        self.made.append(made)
        return made

    def count(self, tier: Tier) -> float:
        labels = {"route": "reasoning", "tier": tier.value}
        return self.metrics.registry.get_sample_value("thinkgate_router_decisions_total", labels) or 0.0


@pytest.fixture
def bench() -> Iterator[Bench]:
    found = Bench()
    yield found
    found.classifier.gate.set()
    for routing_ in found.made:
        routing_._thread.shutdown(wait=True)


async def test_the_encoders_verdict_within_the_deadline(bench: Bench) -> None:
    bench.classifier.gate.set()
    assert (await bench.routing(PATIENT).decide(HARD)).tier is Tier.ENCODER
    assert bench.count(Tier.ENCODER) == 1


async def test_a_known_verdict_does_not_wait_for_the_encoder(bench: Bench) -> None:
    bench.classifier.known[HARD] = verdict(Tier.RULE)
    assert (await bench.routing(PATIENT).decide(HARD)).tier is Tier.RULE
    assert bench.classifier.runs == []


async def test_beyond_the_deadline_the_words_alone_decide_and_the_encoder_still_learns(bench: Bench) -> None:
    routing_ = bench.routing(0.01)
    assert (await routing_.decide(HARD)).tier is Tier.LEXICAL
    assert bench.count(Tier.LEXICAL) == 1
    bench.classifier.gate.set()
    await asyncio.gather(*routing_._running.values())
    assert (await routing_.decide(HARD)).tier is Tier.ENCODER


async def test_equal_prompts_that_come_together_run_once(bench: Bench) -> None:
    routing_ = bench.routing(PATIENT)
    waiting = [asyncio.create_task(routing_.decide(Ask("prove it"))) for _ in range(5)]
    await asyncio.sleep(0)
    bench.classifier.gate.set()
    assert {decision.tier for decision in await asyncio.gather(*waiting)} == {Tier.ENCODER}
    assert bench.classifier.runs == [HARD]


async def test_one_who_leaves_does_not_take_the_verdict_from_the_others(bench: Bench) -> None:
    routing_ = bench.routing(PATIENT)
    first, second = (asyncio.create_task(routing_.decide(HARD)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    bench.classifier.gate.set()
    assert (await second).tier is Tier.ENCODER


async def test_a_long_queue_is_not_joined(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "MAX_WAITING", 2)
    routing_ = bench.routing(PATIENT)
    waiting = [asyncio.create_task(routing_.decide(Ask(f"prove {number}"))) for number in range(2)]
    await asyncio.sleep(0)
    assert (await routing_.decide(EASY)).tier is Tier.LEXICAL
    bench.classifier.gate.set()
    assert {decision.tier for decision in await asyncio.gather(*waiting)} == {Tier.ENCODER}
    assert (await routing_.decide(EASY)).tier is Tier.ENCODER, "the queue is empty again"


async def test_an_encoder_that_fails_costs_no_request(bench: Bench) -> None:
    """Nothing a prompt does to the encoder may turn into an error for the client: words decide."""
    bench.classifier.error = RuntimeError("onnx")
    bench.classifier.gate.set()
    assert (await bench.routing(PATIENT).decide(HARD)).tier is Tier.LEXICAL
