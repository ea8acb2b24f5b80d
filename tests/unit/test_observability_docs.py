"""docs/observability.md says what the code does: every series, and every number in the text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway import ledger, opinions
from gateway.bands import Band
from gateway.config import Health
from gateway.engines import vllm
from gateway.ledger import ANSWERS, KINDS, Outcome
from gateway.observe import metricsdocs
from gateway.observe.multiprocess import VARIABLE

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")
BY_HAND, _, TABLE = PAGE.partition(metricsdocs.MARKER)
FLAT = " ".join(BY_HAND.split())


def test_the_table_is_the_code_s() -> None:
    assert "\n\n" + metricsdocs.render() == TABLE, "run `python -m gateway.observe.metricsdocs docs`"
    assert len(metricsdocs.families()) > 40


def test_regenerating_keeps_what_is_written_by_hand(tmp_path: Path) -> None:
    page = tmp_path / "observability.md"
    page.write_text(f"# by hand\n\n{metricsdocs.MARKER}\nold", encoding="utf-8")
    metricsdocs.write(tmp_path)
    assert page.read_text(encoding="utf-8") == f"# by hand\n\n{metricsdocs.MARKER}\n\n{metricsdocs.render()}"


def test_every_row_has_a_unit_and_labels_that_the_series_has() -> None:
    named = metricsdocs.labels()
    assert named.keys() == metricsdocs.families().keys()
    for line in metricsdocs.render().splitlines()[2:]:
        name, kind, labels, unit, meaning = (cell.strip() for cell in line.strip("|").split(" | "))
        assert re.findall(r"`(\w+)`", labels) == list(named[name.strip("`")])
        assert kind in {"counter", "gauge", "histogram"}
        assert unit
        assert meaning.endswith(".")


def test_series_in_the_text_exist() -> None:
    for name in re.findall(r"`(thinkgate_\w+)`", BY_HAND):
        assert name in metricsdocs.families(), name


@pytest.mark.parametrize(
    "told",
    [
        f"of the aliases, {ledger.MOST_KEYS} have series of their own, the rest is `{ledger.OTHER_KEYS}`",
        f"remembered are the last {opinions.REMEMBERED:,} requests",
        f"(`health.interval`, {Health().interval:g} s)",
        f"set `{VARIABLE}` to an empty folder",
        *(f"`{outcome}`" for outcome in Outcome),
        *(f"`{band}`" for band in Band),
        *(f"`{kind}`" for kind in KINDS),
    ],
)
def test_the_text_names_what_the_code_has(told: str) -> None:
    assert told in FLAT


def test_successes_are_those_that_it_names() -> None:
    said = FLAT.partition("are successes.")[0].rpartition("**Outcome**")[2]
    assert {Outcome(word) for word in re.findall(r"`(\w+)`", said)} == ANSWERS


def test_the_sums_it_names_are_read() -> None:
    assert vllm.LOAD.times is not None
    for name in ("request_queue_time_seconds", "request_prefill_time_seconds"):
        assert f"`{name}`" in FLAT
        assert f"vllm:{name}_sum" in vllm.LOAD.times


def test_its_pictures_and_pages_are_there() -> None:
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", BY_HAND):
        if not link.startswith("http"):
            assert (ROOT / "docs" / link).exists(), link
