"""A real Prometheus that scrapes a real gateway under traffic: every query of every board and every rule gives data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.grafana.drawing import draw, filled
from tests.boardtraffic import BOARDS, House, house
from tests.prometheus import is_installed

SECONDS = 32.0
"""Of traffic: a pool's pace is measured over ten, and known after the second of those."""

QUIET = {
    "ThinkgatePoolDown": "a pool has always a worker here",
    "ThinkgatePoolSaturated": "the doubles' caches never fill",
    "ThinkgateInterconnectDegraded": "the doubles keep their pace",
    "ThinkgateLoopsRising": "it compares with the day before",
    "ThinkgateBudgetNotHonoured": "a native cap is overrun once, perhaps before the first scrape",
    "ThinkgateWorkerWarmingLong": "it takes half an hour",
    "ThinkgateWorkerNeverReady": "it takes half an hour",
    "ThinkgateErrorBudgetBurnsFast": "the frail pool is a small part of the traffic",
    "ThinkgateErrorBudgetBurns": "the frail pool is a small part of the traffic",
}
"""Alerts whose expression is empty while all is well. That they fire when they should, `promtool test rules` shows."""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    if not is_installed():
        pytest.skip("Prometheus is not installed (Debian package prometheus)")
    with house(tmp_path_factory.mktemp("boards")) as found:
        found.run(SECONDS)
        yield found


def boards() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(BOARDS.glob("*.json"))}


@pytest.mark.parametrize("name", boards())
def test_every_panel_query_gives_numbers(live: House, name: str) -> None:
    queries = [
        (panel["title"], target["expr"]) for panel in boards()[name]["panels"] for target in panel.get("targets", [])
    ]
    assert len(queries) > 15
    empty = [title for title, expr in queries if not live.ask(filled(expr))]
    assert empty == []


def test_every_rule_is_well_and_every_record_gives_numbers(live: House) -> None:
    rules = live.prometheus.rules()
    assert {(rule["name"], rule["health"], rule.get("lastError", "")) for rule in rules} == {
        (rule["name"], "ok", "") for rule in rules
    }
    records = [rule["name"] for rule in rules if rule["type"] == "recording"]
    assert len(records) >= 10
    assert [name for name in records if not live.ask(name)] == []
    assert {rule["name"] for rule in rules if rule["type"] == "alerting"} == set(QUIET)


def test_what_the_alerts_look_at_is_there(live: House) -> None:
    names = live.prometheus.names()
    for rule in live.prometheus.rules():
        if rule["type"] == "alerting":
            series = set(re.findall(r"\bthinkgate_[a-z_]+\b(?!:)", re.sub(r"\w+:\w+:\w+", "", rule["query"])))
            assert series <= names, rule["name"]


def test_the_boards_can_be_drawn(live: House, tmp_path: Path) -> None:
    for name, board in boards().items():
        draw(board, live.ask, tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 50_000


def test_gpu_time_is_conserved_in_all_of_it(live: House) -> None:
    now = live.gateway.scrape()
    for pool in ("standard", "reasoning", "frail", "loose"):
        parts = ("gpu_seconds_total", "gpu_pending_seconds", "gpu_seconds_unattributed_total")
        told = sum(now.value(f"thinkgate_{part}", pool=pool) for part in parts)
        assert told == pytest.approx(now.value("thinkgate_gpu_busy_seconds_total", pool=pool), rel=1e-6)
