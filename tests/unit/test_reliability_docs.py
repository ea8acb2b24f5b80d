"""docs/reliability.md names tests that exist, and numbers as they are in the code."""

from __future__ import annotations

import re
from pathlib import Path

from gateway.attempts import ATTEMPTS
from gateway.config import Health, Server, Timeouts
from gateway.edge.errors import MAX_RETRY_AFTER
from gateway.pools import retries
from gateway.steps import MAX_MOVES
from tests.chaos.test_fates import ARRIVAL, FLIGHTS, WORKERS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    table = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"][2:]


def test_every_promise_is_held_by_a_test() -> None:
    for promise, _, held in rows("The promises"):
        named = re.findall(r"`([a-z_/]+\.py)`", held)
        assert named, promise
        assert all((ROOT / "tests" / name).is_file() for name in named), named


def test_every_deadline_stands_with_its_default() -> None:
    told = {row[0].strip("`"): row[1] for row in rows("The deadlines")}
    assert list(told) == ["connect", "queue", "first_token", "idle", "thought", "total"]
    assert set(told) == set(Timeouts.model_fields)
    for name, value in Timeouts():
        if value is not None:
            assert told[name] == f"{value:g} s"


def test_the_numbers_are_those_of_the_code() -> None:
    promises = "\n".join(" | ".join(row) for row in rows("The promises"))
    assert f"{MAX_MOVES} workers lost" in promises
    assert f"{ATTEMPTS} launches" in promises
    assert f"within {retries.WINDOW:g} s at most {retries.SHARE:.0%}" in promises
    assert f"or {retries.ALWAYS};" in promises
    assert f"{MAX_RETRY_AFTER} s at most" in promises
    assert f"({Health().warm_up / 60:g} min)" in promises
    assert "drain" in Server.model_fields
    assert f"flies {FLIGHTS} requests within two seconds over five workers" in PAGE
    assert (ARRIVAL, WORKERS) == (2, 5)
