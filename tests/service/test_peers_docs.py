"""docs/peers.md: what it says of thinkgate is what thinkgate does now, in the words of the comparison itself."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.peers.behaviour import ROWS, Engines, Row, put
from benchmarks.peers.cost import SCENARIOS
from benchmarks.peers.install import PACKAGES
from benchmarks.peers.systems import BEGINS, System
from tests.doubles.server import Host
from tests.pages import ROOT

PAGE = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")


def table(heading: str) -> list[list[str]]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if line[:1] == "|"]


@pytest.fixture(scope="module")
def engines(host: Host) -> Iterator[Engines]:
    engines = Engines(host)
    yield engines
    for one in engines.all:
        host.remove(one)


@pytest.fixture(scope="module")
def system(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with System("thinkgate", engines.urls, tmp_path_factory.mktemp("peers")) as system:
        yield system


# After the 429 both engines would have to be left alone for seconds; `test_worker_lives` has it.
@pytest.mark.parametrize("row", [row for row in ROWS if not row.settle], ids=lambda row: row.question.__name__)
def test_thinkgate_does_what_is_told_of_it(row: Row, system: System, engines: Engines) -> None:
    told = {cells[0]: cells[1] for cells in table("What they do when something happens")[2:]}
    seen = asyncio.run(put(row, system, engines))
    within, count = re.compile(r"within [\d.]+ s"), re.compile(r"\d+(?= tokens generated)")
    assert count.sub("so many", within.sub("soon", seen)) == count.sub("so many", within.sub("soon", told[row.asked]))
    # A token more may be on its way when the engine is stopped.
    assert list(map(int, count.findall(seen))) == pytest.approx(list(map(int, count.findall(told[row.asked]))), rel=0.1)


def test_the_tables_have_every_row_and_every_peer() -> None:
    behaviour, cost = table("What they do when something happens"), table("What it costs")
    assert [cells[0] for cells in behaviour[2:]] == [row.asked for row in ROWS]
    assert [cells[0] for cells in cost[2:]] == list(SCENARIOS)
    assert set(cost[0][1:]) == set(BEGINS)
    assert set(behaviour[0][1:]) == set(BEGINS) - {"plain"}


def test_it_names_the_versions_that_are_installed_and_a_day() -> None:
    for package in PACKAGES.values():
        name, _, version = package.partition("==")
        assert f"{name.partition('[')[0]} {version}" in PAGE
    assert re.search(r"\b\d{1,2} \w+ 20\d\d\b", PAGE)


def test_every_peer_is_started_as_told(tmp_path: Path) -> None:
    for name, begin in BEGINS.items():
        start = begin(8000, ["http://127.0.0.1:9001", "http://127.0.0.1:9002"], tmp_path)
        assert "8000" in " ".join(start.command), name
