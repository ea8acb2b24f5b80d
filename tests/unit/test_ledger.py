"""The entry a flight leaves behind: series and one log line, and nothing of the client's text or key."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.ledger import EndedBy, Entry, Ledger, Outcome
from gateway.observe.metrics import Metrics


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
