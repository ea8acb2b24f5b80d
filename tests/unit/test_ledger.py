"""The entry a flight leaves behind: series and one log line, and nothing of the client's text or key."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from budgets import native_limit
from gateway.bands import Band, band_of
from gateway.ledger import ANSWERS, EndedBy, Entry, Ledger, Outcome
from gateway.observe.metrics import Metrics
from gateway.pools.meter import Meter
from router import Decision, Route, Tier


def entry(**fields: Any) -> Entry:
    base = {"request_id": "r", "caller": "k", "route": "reasoning", "pool": "p", "complexity": 0.5, "started": 100.0}
    return Entry(**{**base, **fields})


class Books:
    def __init__(self) -> None:
        self.metrics = Metrics()
        self.ledger = Ledger(self.metrics)

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"thinkgate_{name}", {"pool": "p", **labels})


def test_a_flight_is_counted_from_begin_to_close() -> None:
    books = Books()
    found = entry(
        outcome=Outcome.CUT_ANSWERED, kinds=["first", "retry", "answer"], prompt=10, cached=4, reasoning=5, answer=3,
        injected=2, ended_by=EndedBy.CAP, first_token=100.5, first_answer_token=102.0, worker="w",
    )  # fmt: skip
    books.ledger.begin(found)
    assert books.sample("flights_in_flight") == 1
    with capture_logs() as lines:
        books.ledger.close(found, 103.0)
    assert books.sample("flights_in_flight") == 0
    assert books.sample("requests_total", route="reasoning", outcome="cut_answered") == 1
    assert [books.sample("legs_total", kind=kind) for kind in ("first", "retry", "answer")] == [1, 1, 1]
    kinds = ("prompt", "cached", "reasoning", "answer", "injected")
    assert [books.sample("tokens_total", kind=kind) for kind in kinds] == [10, 4, 5, 3, 2]
    assert books.sample("thinking_ended_total", by="cap") == 1
    assert books.sample("request_duration_seconds_sum", outcome="cut_answered") == 3
    assert books.sample("time_to_first_token_seconds_sum") == 0.5
    assert books.sample("time_to_first_answer_token_seconds_sum") == 2
    [line] = lines
    assert (line["event"], line["outcome"], line["seconds"], line["key"]) == ("flight", "cut_answered", 3.0, "k")


def test_what_did_not_happen_is_not_observed() -> None:
    books = Books()
    found = entry(outcome=Outcome.REJECTED)
    books.ledger.begin(found)
    books.ledger.close(found, 101.0)
    assert books.sample("time_to_first_token_seconds_count") is None
    assert books.sample("tokens_total", kind="prompt") is None
    assert books.sample("thinking_ended_total", by="cap") is None


@pytest.mark.parametrize("outcome", list(Outcome))
def test_only_a_failure_is_a_warning(outcome: Outcome) -> None:
    books = Books()
    found = entry(outcome=outcome, problem="engine_error")
    books.ledger.begin(found)
    with capture_logs() as lines:
        books.ledger.close(found, 101.0)
    assert lines[0]["log_level"] == ("warning" if outcome is Outcome.FAILED else "info")
    assert lines[0]["problem"] == "engine_error"


@pytest.mark.parametrize(
    ("complexity", "tier", "band"),
    [
        (0.0, Tier.RULE, Band.UNGRADED),
        (0.02, Tier.RULE, Band.TRIVIAL),
        (0.0, Tier.CHEAP, Band.TRIVIAL),
        (0.124, Tier.CHEAP, Band.TRIVIAL),
        (0.126, Tier.CHEAP, Band.SIMPLE),
        (0.5, Tier.CHEAP, Band.MODERATE),
        (0.8, Tier.CHEAP, Band.HARD),
        (1.0, Tier.CHEAP, Band.EXPERT),
    ],
)
def test_a_band_is_the_nearest_class(complexity: float, tier: Tier, band: Band) -> None:
    assert band_of(Decision(Route.REASONING, complexity, 0.9, 0.9, tier, ())) is band


def test_success_is_an_answer_and_nothing_else() -> None:
    books = Books()
    for outcome in Outcome:
        found = entry(outcome=outcome)
        books.ledger.begin(found)
        books.ledger.close(found, 101.0)
    assert books.sample("successes_total", route="reasoning", band="ungraded") == 4
    assert {one.value for one in ANSWERS} == {"answered", "cut_answered", "loop_rescued", "migrated"}


@pytest.mark.parametrize(
    ("reasoning", "injected", "held"),
    [
        (100, 0, "yes"),
        (140, 10, "yes"),
        (140, 0, "no"),
        (300, 200, "yes"),
        (native_limit(100) - 1, 0, "yes"),
        (native_limit(100), 0, "no"),  # there a worker that was told the cap has overrun it
    ],
)
def test_a_thought_keeps_to_its_cap_or_does_not(reasoning: int, injected: int, held: str) -> None:
    books = Books()
    found = entry(cap=100, reasoning=reasoning, injected=injected, answer=3)
    books.ledger.begin(found)
    books.ledger.close(found, 101.0)
    assert books.sample("caps_total", held=held) == 1


def test_gpu_time_is_booked_once_the_last_part_is_known() -> None:
    books = Books()
    clock = [0.0]
    meter = Meter(2.0, lambda: clock[0])
    found = entry(outcome=Outcome.ANSWERED, gpu_hour_price=7.2, band=Band.HARD)
    books.ledger.begin(found)
    stint = meter.begin(found.bills[0], 10)
    clock[0] = 5.0
    meter.end(stint)
    books.ledger.close(found, 105.0)
    labels = {"route": "reasoning", "outcome": "answered"}
    assert books.sample("gpu_seconds_total", **labels) is None
    meter.settle()
    assert books.sample("gpu_seconds_total", **labels) == 10
    assert books.sample("gpu_seconds_by_band_total", band="hard") == 10
    assert books.sample("gpu_cost_total", **labels) == pytest.approx(0.02)


def test_times_are_told_apart() -> None:
    books = Books()
    found = entry(
        outcome=Outcome.ANSWERED, dispatched=100.25, first_token=101.0, first_answer_token=104.0, reasoning=40,
        answer=11, began_with_thought=True, trimmed=7,
    )  # fmt: skip
    books.ledger.begin(found)
    with capture_logs() as lines:
        books.ledger.close(found, 106.0)
    assert books.sample("queue_seconds_sum") == 0.25
    assert books.sample("thinking_seconds_sum", band="ungraded") == 3
    assert books.sample("time_per_output_token_seconds_sum") == pytest.approx(0.1)
    assert books.sample("thinking_tokens_sum", band="ungraded") == 40
    assert books.sample("tokens_total", kind="trimmed") == 7
    assert (lines[0]["queue"], lines[0]["first_token"], lines[0]["first_answer"]) == (0.25, 1.0, 4.0)
