"""The boards and rules as files: what is committed is what is generated, every panel says what it shows, every alert
was seen to fire and has an entry in the runbook."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.grafana.boards import BOARDS, render
from deploy.grafana.drawing import filled
from gateway.observe.metrics import Metrics

ROOT = Path(__file__).parents[2]
GRAFANA = ROOT / "deploy" / "grafana"
RULES = ROOT / "deploy" / "prometheus" / "thinkgate.rules.yaml"
TESTS = RULES.with_name("thinkgate.rules.test.yaml")
SERIES = re.compile(r"\bthinkgate_[a-z_]+\b")
FIXED_WINDOWS = {"Ejections"}
"""Panels that count over a window of their own, and say so."""
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian package prometheus)"
)


def names_of_code() -> set[str]:
    """Of all samples that /metrics may have."""
    metrics = Metrics()
    found: set[str] = set()
    for family in metrics.registry.collect():
        endings = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count", ""]}.get(family.type, [""])
        found |= {f"{family.name}{ending}" for ending in endings}
    return found


NAMES = names_of_code()


def board_of(name: str) -> dict[str, Any]:
    return json.loads((GRAFANA / name).read_text(encoding="utf-8"))


FILES = sorted(path.name for path in GRAFANA.glob("*.json"))
PANELS = [
    pytest.param(panel, id=f"{name.removesuffix('.json')}: {panel['title']}")
    for name in FILES
    for panel in board_of(name)["panels"]
    if panel["type"] != "row"
]


def test_what_is_committed_is_what_is_generated() -> None:
    assert {name: (GRAFANA / name).read_text(encoding="utf-8") for name in FILES} == render(), (
        "run `python -m deploy.grafana`"
    )
    assert len(FILES) == len(BOARDS) == 3


@pytest.mark.parametrize("name", FILES)
def test_a_board_can_be_imported_anywhere_and_leads_to_the_others(name: str) -> None:
    board = board_of(name)
    assert board["uid"] == name.removesuffix(".json")
    assert "thinkgate" in board["tags"]
    assert [variable["name"] for variable in board["templating"]["list"]] == ["datasource", "job", "pool"]
    assert all(one["allValue"] == ".*" for one in board["templating"]["list"][1:])
    [link] = board["links"]
    assert (link["type"], link["tags"], link["includeVars"], link["keepTime"]) == (
        "dashboards",
        ["thinkgate"],
        True,
        True,
    )
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    titles = [panel["title"] for panel in board["panels"]]
    assert len(titles) == len(set(titles))
    assert [panel["type"] for panel in board["panels"][:6]] == ["stat"] * 6, "a row of stats on top"


@pytest.mark.parametrize("name", FILES)
def test_panels_do_not_overlap_and_stay_on_the_grid(name: str) -> None:
    places = [panel["gridPos"] for panel in board_of(name)["panels"]]
    for place in places:
        assert place["x"] + place["w"] <= 24
        assert min(place.values()) >= 0
    for one, other in combinations(places, 2):
        apart_x = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart_y = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart_x or apart_y, (one, other)


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_says_what_it_shows(panel: dict[str, Any]) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert defaults["noValue"]
    assert "unit" in defaults or panel["type"] == "state-timeline"
    if panel["type"] == "stat":
        assert defaults["thresholds"]["steps"][0]["value"] is None
    told = set(SERIES.findall(panel["description"]))
    assert panel["description"].endswith(".")
    used: set[str] = set()
    refs: set[str] = set()
    for target in panel["targets"]:
        assert 'job=~"$job"' in target["expr"]
        assert target["refId"] not in refs
        refs.add(target["refId"])
        windows = re.findall(r"\[([^\]]+)\]", target["expr"])
        assert panel["title"] in FIXED_WINDOWS or set(windows) <= {"$__rate_interval"}
        used |= set(SERIES.findall(target["expr"]))
        if panel["type"] != "stat" and " by (" in target["expr"]:
            assert target["legendFormat"]
    assert used <= NAMES
    assert {name.removesuffix("_bucket") for name in used} == told, "the description names its series, and no others"


@pytest.mark.parametrize("panel", PANELS)
def test_what_the_router_and_the_edge_count_knows_no_pool(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        for name, select in re.findall(r"(thinkgate_[a-z_]+)\{([^}]*)\}", target["expr"]):
            is_poolless = name.startswith(("thinkgate_router", "thinkgate_rejections", "thinkgate_key"))
            assert ("$pool" in select) is not is_poolless


# Rules


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


ALERTS = [pytest.param(rule, id=rule["alert"]) for rule in rules() if "alert" in rule]


@needs_promtool
def test_promtool_accepts_the_rules_and_their_tests() -> None:
    for command in (["check", "rules", RULES.name], ["test", "rules", TESTS.name]):
        done = subprocess.run(["promtool", *command], cwd=RULES.parent, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_promtool_accepts_every_query_of_the_boards(tmp_path: Path) -> None:
    found = [
        {"record": f"query_{number}", "expr": filled(target["expr"])}
        for number, target in enumerate(
            target for name in FILES for panel in board_of(name)["panels"] for target in panel.get("targets", [])
        )
    ]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "boards", "rules": found}]}))
    done = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(found)} rules found" in done.stdout


def test_rules_know_only_series_that_there_are() -> None:
    records = {rule["record"] for rule in rules() if "record" in rule}
    for rule in rules():
        told = re.sub(r"\w+:\w+:\w+", "", rule["expr"])
        assert set(SERIES.findall(told)) <= NAMES
        assert set(re.findall(r"\w+:\w+:\w+", rule["expr"])) <= records


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_says_what_to_do_and_was_seen_to_fire(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"warning", "critical"}
    assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    headings = re.findall(r"^## (.+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert alert["alert"] in headings
    assert anchor == alert["alert"].lower()
    tests = yaml.safe_load(TESTS.read_text(encoding="utf-8"))["tests"]
    seen = [one for test in tests for one in test.get("alert_rule_test", []) if one["alertname"] == alert["alert"]]
    assert any(one["exp_alerts"] for one in seen), "a test sees it fire"


def test_the_runbook_has_no_entry_for_what_is_no_alert() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == [rule["alert"] for rule in rules() if "alert" in rule]
