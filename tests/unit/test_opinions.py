"""Verdicts: one a request, of its own caller, among the last that are remembered."""

from __future__ import annotations

import pytest

from gateway.ledger import Entry, Ledger, Outcome
from gateway.observe.metrics import Metrics
from gateway.opinions import NoOpinion, Opinion, Opinions


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
    assert opinions.take("r", Opinion.BAD, "others", is_admin=True).request_id == "r"


def test_memory_is_bounded_and_the_oldest_goes_first() -> None:
    metrics = Metrics()
    opinions = Opinions(metrics, most=3)
    for name in "abcd":
        flown(opinions, metrics, name)
    with pytest.raises(NoOpinion):
        opinions.take("a", Opinion.GOOD, "team", is_admin=False)
    assert opinions.take("b", Opinion.GOOD, "team", is_admin=False).request_id == "b"


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
