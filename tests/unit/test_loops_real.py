"""Real traces beside the checkout: small models that loop, and outputs of many models, degenerate and ordinary."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgets.loops.labelled import Score, read_traces, run

SHARED = Path(__file__).parents[2].parent / "shared"
CASES = SHARED / "cases" / "loops.jsonl"
OUTPUTS = SHARED / "data" / "loops"

pytestmark = pytest.mark.shared


def score(file: Path) -> Score:
    if not file.exists():
        pytest.skip("the real traces are not beside this checkout")
    counted = Score()
    with file.open(encoding="utf-8") as lines:
        for trace in read_traces(lines):
            counted.add(run(trace))
    return counted


def test_small_models() -> None:
    """Four hundred tokens at most, so many a loop has only begun: a part is found, and nothing healthy is."""
    counted = score(CASES)
    assert counted.found["no_loop"] == 0
    assert counted.found["loop"] >= 0.6 * counted.total["loop"]


def test_degenerate_outputs() -> None:
    """What is not found is ornament (art, padded tables, blank lines), asked for, or over before it was long."""
    counted = score(OUTPUTS / "degenerate.jsonl")
    assert counted.found["loop"] >= 0.85 * counted.total["loop"]


def test_ordinary_outputs() -> None:
    counted = score(OUTPUTS / "ordinary.jsonl")
    assert counted.found["no_loop"] == 0
