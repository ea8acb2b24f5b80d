"""The router inside the service: its deadline, prompts that come together, its queue, and trouble in the encoder."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import ClassVar, cast

import pytest

from gateway import config, routing
from gateway.edge.errors import ApiError
from gateway.observe.metrics import Metrics
from gateway.routing import Routing
from gateway.shadow import MOST_WAITING, Shadow
from router import Ask, Classifier, Decision, Glance, Mode, Route, Tier

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
        self.threads: list[int] = []
        self.glances: list[Ask] = []
        self.seen: list[Glance | None] = []

    def glance(self, ask: Ask) -> Glance:
        self.glances.append(ask)
        known = self.known.get(ask)
        return Glance(known or verdict(Tier.LEXICAL), is_final=known is not None)

    def skim(self, ask: Ask) -> Decision:
        raise AssertionError("one prompt at a time is no crowd")

    def decide(self, ask: Ask, seen: Glance | None = None) -> Decision:
        self.runs.append(ask)
        self.threads.append(threading.get_ident())
        self.seen.append(seen)
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

    def routing(self, deadline: float, shadow: FakeClassifier | None = None) -> Routing:
        other = Shadow(cast("Classifier", shadow), self.metrics) if shadow is not None else None
        made = Routing(cast("Classifier", self.classifier), self.metrics, deadline=deadline, shadow=other)
        self.made.append(made)
        return made

    def fallbacks(self, why: str) -> float:
        return self.metrics.registry.get_sample_value("thinkgate_router_fallbacks_total", {"why": why}) or 0.0

    def count(self, tier: Tier) -> float:
        labels = {"route": "reasoning", "tier": tier.value}
        return self.metrics.registry.get_sample_value("thinkgate_router_decisions_total", labels) or 0.0


@pytest.fixture
def bench() -> Iterator[Bench]:
    found = Bench()
    yield found
    found.classifier.gate.set()
    for routing_ in found.made:
        routing_._threads.encoding.shutdown(wait=True)


async def test_the_encoders_verdict_within_the_deadline(bench: Bench) -> None:
    bench.classifier.gate.set()
    assert (await bench.routing(PATIENT).decide(HARD)).tier is Tier.ENCODER
    assert bench.count(Tier.ENCODER) == 1


async def test_a_known_verdict_does_not_wait_for_the_encoder(bench: Bench) -> None:
    bench.classifier.known[HARD] = verdict(Tier.RULE)
    assert (await bench.routing(PATIENT).decide(HARD)).tier is Tier.RULE
    assert bench.classifier.runs == []


async def test_beyond_the_deadline_the_words_alone_decide_and_the_encoder_still_learns(bench: Bench) -> None:
    routing_ = bench.routing(0.2)
    assert (await routing_.decide(HARD)).tier is Tier.LEXICAL
    assert bench.count(Tier.LEXICAL) == bench.fallbacks("late") == 1
    bench.classifier.gate.set()
    await asyncio.gather(*(one.verdict for one in routing_._running.values()))
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
    assert bench.fallbacks("busy") == 1
    bench.classifier.gate.set()
    assert {decision.tier for decision in await asyncio.gather(*waiting)} == {Tier.ENCODER}
    assert (await routing_.decide(EASY)).tier is Tier.ENCODER, "the queue is empty again"


async def test_an_encoder_that_fails_costs_no_request(bench: Bench) -> None:
    """Nothing a prompt does to the encoder may turn into an error for the client: words decide."""
    bench.classifier.error = RuntimeError("onnx")
    bench.classifier.gate.set()
    assert (await bench.routing(PATIENT).decide(HARD)).tier is Tier.LEXICAL


async def test_a_queue_that_would_miss_the_deadline_is_not_joined(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three prompts ahead at a thousand seconds each, and 2500 to wait: the words decide at once."""
    monkeypatch.setattr(routing, "_FIRST_GUESS", 1000.0)
    routing_ = bench.routing(2500)
    waiting = [asyncio.create_task(routing_.decide(Ask(f"prove {number}"))) for number in range(4)]
    await asyncio.sleep(0)
    assert len(routing_._running) == 3
    bench.classifier.gate.set()
    await asyncio.gather(*waiting)
    assert bench.fallbacks("busy") == 1


async def test_a_shadow_is_counted_and_has_no_effect(bench: Bench) -> None:
    shadow = FakeClassifier()
    shadow.gate.set()
    bench.classifier.known[HARD] = verdict(Tier.RULE)
    routing_ = bench.routing(PATIENT, shadow)
    assert (await routing_.decide(HARD)).tier is Tier.RULE
    shadow.error = RuntimeError("broken shadow")
    assert (await routing_.decide(HARD)).tier is Tier.RULE
    assert routing_._shadow is not None
    routing_._shadow.close(wait=True)
    value = bench.metrics.registry.get_sample_value("thinkgate_router_shadow_total", {"agrees": "yes"})
    assert (value, len(shadow.runs)) == (1.0, 2)


async def test_a_shadow_that_is_behind_skips(bench: Bench) -> None:
    """Its queue is bounded, and the encoder in force has a thread of its own."""
    shadow = FakeClassifier()
    bench.classifier.gate.set()
    routing_ = bench.routing(PATIENT, shadow)
    for number in range(MOST_WAITING + 3):
        assert (await routing_.decide(Ask(f"prove {number}"))).tier is Tier.ENCODER
    shadow.gate.set()
    assert routing_._shadow is not None
    routing_._shadow.close(wait=True)
    assert len(shadow.runs) == MOST_WAITING
    values = [
        bench.metrics.registry.get_sample_value("thinkgate_router_shadow_total", {"agrees": agrees})
        for agrees in ("yes", "skipped")
    ]
    assert values == [MOST_WAITING, 3]


def test_a_config_makes_it(bench: Bench) -> None:
    settings = config.Router.model_validate(
        {
            "mode": "fast",
            "max_missed_reasoning": 0.05,
            "noise_tags": ["house"],
            "routes": {"tickets": {"route": "reasoning", "pool": "ops", "regex": r"INC-\d+"}},
        }
    )
    made = Routing.of_config(settings, bench.metrics)
    bench.made.append(made)
    assert made.classifier.mode is Mode.FAST
    assert made.classifier.threshold < 0.5
    assert made.read([{"role": "user", "content": "<house>x</house>hi"}]) == Ask("hi")
    assert made.classifier.decide(Ask("see INC-12")).target == "ops"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_missed_reasoning": 0.1, "target_reasoning_share": 0.5}, "not both"),
        ({"threshold": 0.4, "max_missed_reasoning": 0.1}, "remove one"),
        ({"backend": "sentence-transformers"}, "go together"),
        ({"encoder": "x"}, "go together"),
        ({"routes": {"empty": {"route": "standard"}}}, "needs keywords"),
    ],
)
def test_a_config_that_contradicts_itself_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config.Router.model_validate(settings)


class SlowExplainer:
    """Stands for `Explainer`: waits for `gate`, and notes on which thread."""

    gate = threading.Event()
    threads: ClassVar[list[int]] = []

    def __init__(self, *_: object) -> None:
        pass

    def explain(self, ask: Ask, *, sentences: bool) -> str:
        self.threads.append(threading.get_ident())
        assert self.gate.wait(PATIENT)
        return f"because of {ask.text!r}"


async def test_encoder_and_explanations_run_off_the_loop_each_on_a_thread(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An explanation takes as long as it takes: neither the loop nor the encoder's verdicts wait for it."""
    monkeypatch.setattr(routing, "Explainer", SlowExplainer)
    bench.classifier.gate.set()
    routing_ = bench.routing(PATIENT)
    explaining = asyncio.create_task(routing_.explain([{"role": "user", "content": "why?"}]))
    assert (await routing_.decide(HARD)).tier is Tier.ENCODER
    assert not explaining.done()
    SlowExplainer.gate.set()
    assert cast("object", await explaining) == "because of 'why?'"
    threads = {threading.get_ident(), *SlowExplainer.threads, *bench.classifier.threads}
    assert len(threads) == 3


async def test_no_more_explanations_are_owed_than_can_be_given(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "Explainer", SlowExplainer)
    SlowExplainer.gate.clear()
    routing_ = bench.routing(PATIENT)
    asked = [{"role": "user", "content": "why?"}]
    waiting = [asyncio.create_task(routing_.explain(asked)) for _ in range(routing.MAX_EXPLAINING)]
    await asyncio.sleep(0)
    with pytest.raises(ApiError) as refused:
        await routing_.explain(asked)
    assert (refused.value.status, refused.value.code) == (503, "explaining_busy")
    SlowExplainer.gate.set()
    await asyncio.gather(*waiting)
    assert cast("object", await routing_.explain(asked)) == "because of 'why?'"


async def test_what_a_crowd_could_not_wait_for_is_counted(bench: Bench) -> None:
    """Far more prompts in one turn of the loop than this deadline leaves time for."""
    bench.classifier.gate.set()
    routing_ = bench.routing(1e-6)
    found = await asyncio.gather(*(routing_.decide(Ask(f"prove {number}")) for number in range(5_000)))
    unread = [decision for decision in found if decision.tier is Tier.DEFAULT]
    assert unread
    assert bench.fallbacks("crowd") == len(unread)
    labels = {"route": "standard", "tier": "default"}
    assert bench.metrics.registry.get_sample_value("thinkgate_router_decisions_total", labels) == len(unread)


async def test_a_prompt_at_the_encoder_is_not_read_by_words_again(bench: Bench) -> None:
    routing_ = bench.routing(PATIENT)
    waiting = [asyncio.create_task(routing_.decide(Ask("prove it"))) for _ in range(5)]
    await asyncio.sleep(0)
    bench.classifier.gate.set()
    await asyncio.gather(*waiting)
    assert bench.classifier.glances == [HARD]


async def test_the_encoder_goes_on_from_what_words_worked_out(bench: Bench) -> None:
    bench.classifier.gate.set()
    await bench.routing(PATIENT).decide(HARD)
    [seen] = bench.classifier.seen
    assert seen is not None
    assert seen.decision.tier is Tier.LEXICAL
