"""The series: names, help, bounded labels, and a text that Prometheus reads."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families

from gateway.ledger import MOST_KEYS, OTHER_KEYS, Entry, Ledger, Outcome
from gateway.observe.metrics import Metrics

NAME = re.compile(r"^thinkgate_[a-z_]+(_total|_seconds|_tokens|_ready|_in_flight|_ratio|_requests|_state|_successful)$")
LABELS = {
    "pool",
    "action",
    "channel",
    "result",
    "route",
    "outcome",
    "kind",
    "by",
    "tier",
    "worker",
    "cause",
    "verdict",
    "state",
    "status",
    "le",
    "band",
    "key",
    "held",
    "phase",
    "why",
    "agrees",
}


def filled() -> Metrics:
    """Every series with one sample."""
    metrics = Metrics()
    for series in vars(metrics).values():
        names = getattr(series, "_labelnames", None)
        if names is not None:
            child = series.labels(*("x" for _ in names)) if names else series
            (child.observe if hasattr(child, "observe") else child.inc)(1)
    return metrics


def test_every_series_has_help_and_a_name_with_its_unit() -> None:
    families = list(text_string_to_metric_families(filled().render().decode()))
    assert len(families) >= 12
    for family in families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert NAME.match(name), name
        assert len(family.documentation) > 20, name
        assert family.documentation.endswith("."), name
        assert family.samples, name


def test_labels_are_the_bounded_ones() -> None:
    for family in text_string_to_metric_families(filled().render().decode()):
        for sample in family.samples:
            assert set(sample.labels) <= LABELS
            assert not sample.name.endswith("_created")


def test_histograms_reach_as_far_as_a_thought_may_take() -> None:
    for family in text_string_to_metric_families(filled().render().decode()):
        if family.type == "histogram":
            bounds = [float(sample.labels["le"]) for sample in family.samples if "le" in sample.labels]
            assert bounds == sorted(bounds)
            assert bounds[-1] == float("inf")
            if family.name.endswith("_tokens"):
                assert bounds[-2] == 65_536
            else:
                assert bounds[-2] >= (1.0 if "router" in family.name or "per_output" in family.name else 1_200)


def test_two_apps_in_one_process_do_not_share_their_counts() -> None:
    first, second = Metrics(), Metrics()
    first.rejections.labels("400").inc()
    assert b'status="400"' in first.render()
    assert b'status="400"' not in second.render()


def test_nothing_of_a_request_becomes_a_label() -> None:
    metrics = Metrics()
    ledger = Ledger(metrics)
    entry = Entry("canary-id", "team", "reasoning", "p", 0.5, 0.0, outcome=Outcome.FAILED, problem="canary-problem")
    ledger.begin(entry)
    ledger.close(entry, 1.0)
    assert b"canary" not in metrics.render()


def test_what_is_forgotten_leaves_no_series_and_takes_no_others() -> None:
    metrics = filled()
    metrics.worker_ready.labels("x", "other").set(1)
    metrics.rejections.labels("400").inc()
    metrics.forget(pool="x", worker="x")
    text = metrics.render().decode()
    assert 'worker="x"' not in text
    assert 'thinkgate_worker_ready{pool="x",worker="other"} 1.0' in text
    metrics.forget(pool="x")
    text = metrics.render().decode()
    assert 'pool="' not in text
    assert 'status="400"' in text


def test_keys_are_named_by_alias_up_to_a_bound() -> None:
    metrics = Metrics()
    ledger = Ledger(metrics)
    for number in range(MOST_KEYS + 50):
        ledger.close(Entry("r", f"team-{number}", "reasoning", "p", 0.5, 0.0, outcome=Outcome.FAILED), 1.0)
    families = text_string_to_metric_families(metrics.render().decode())
    found = {s.labels["key"]: s.value for f in families if f.name == "thinkgate_key_requests" for s in f.samples}
    assert len(found) == MOST_KEYS + 1
    assert found[OTHER_KEYS] == 50
