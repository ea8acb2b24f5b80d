"""Verdicts: one a request, of its own caller, among the last that are remembered."""

from __future__ import annotations

import pytest

from gateway.ledger import Entry, Ledger, Outcome
from gateway.observe.metrics import Metrics
from gateway.opinions import NoOpinion, Opinion, Opinions
from gateway.pools.meter import Meter


def flown(opinions: Opinions, metrics: Metrics, name: str, caller: str = "team") -> None:
    ledger = Ledger(metrics, remember=opinions.remember)
    entry = Entry(name, caller, "reasoning", "p", 0.5, 0.0, outcome=Outcome.ANSWERED)
    ledger.begin(entry)
    ledger.close(entry, 1.0)


def test_only_its_own_caller_and_administrators_may_judge() -> None:
    metrics = Metrics()
    opinions = Opinions(metrics)
    flown(opinions, metrics, "r")
    with pytest.raises(NoOpinion) as foreign:
        opinions.take("r", Opinion.BAD, "others", is_admin=False)
    with pytest.raises(NoOpinion) as unknown:
        opinions.take("never", Opinion.BAD, "others", is_admin=False)
    assert str(foreign.value) == str(unknown.value), "another's request is as unknown as none"
    assert opinions.take("r", Opinion.BAD, "others", is_admin=True).outcome is Outcome.ANSWERED


def test_memory_is_bounded_and_the_oldest_goes_first() -> None:
    metrics = Metrics()
    opinions = Opinions(metrics, most=3)
    for name in "abcd":
        flown(opinions, metrics, name)
    with pytest.raises(NoOpinion):
        opinions.take("a", Opinion.GOOD, "team", is_admin=False)
    assert opinions.take("b", Opinion.GOOD, "team", is_admin=False).pool == "p"


def test_an_id_that_comes_again_is_a_new_request() -> None:
    metrics = Metrics()
    opinions = Opinions(metrics)
    flown(opinions, metrics, "a")
    opinions.take("a", Opinion.GOOD, "team", is_admin=False)
    with pytest.raises(NoOpinion) as late:
        opinions.take("a", Opinion.GOOD, "team", is_admin=False)
    assert late.value.is_late
    flown(opinions, metrics, "a")
    opinions.take("a", Opinion.GOOD, "team", is_admin=False)


def test_what_it_cost_is_counted_whenever_it_is_known() -> None:
    metrics = Metrics()
    opinions = Opinions(metrics)
    clock = [0.0]
    meter = Meter(1.0, lambda: clock[0])
    for name in ("early", "late"):
        ledger = Ledger(metrics, remember=opinions.remember)
        entry = Entry(name, "team", "reasoning", "p", 0.5, 0.0, outcome=Outcome.ANSWERED)
        stint = meter.begin(entry.bills[0], 10)
        ledger.begin(entry)
        clock[0] += 3
        meter.end(stint)
        ledger.close(entry, 1.0)
        if name == "early":
            opinions.take(name, Opinion.GOOD, "team", is_admin=False)
        meter.settle()
        if name == "late":
            opinions.take(name, Opinion.BAD, "team", is_admin=False)
    for opinion in Opinion:
        labels = {"pool": "p", "band": "ungraded", "verdict": opinion}
        assert metrics.registry.get_sample_value("thinkgate_feedback_gpu_seconds_total", labels) == 3
