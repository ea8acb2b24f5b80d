"""The shipped classifier on the crossed set it was calibrated on: a floor under regressions, not a claim."""

import json
from pathlib import Path

import pytest

from router import Route, load, read_ask

HARD_OPEN = Path(__file__).parents[2].parent / "shared" / "data" / "router" / "hard" / "hard_open.jsonl"
FLOOR = 0.89

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not HARD_OPEN.exists(), reason=f"no labelled data at {HARD_OPEN}"),
]


def test_hard_open() -> None:
    classifier = load()
    right = []
    with HARD_OPEN.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            ask = read_ask([*row.get("history", ()), {"role": "user", "content": row["text"]}])
            right.append((classifier.decide(ask).route is Route.REASONING) == (row["label"] == 1))
    assert len(right) > 200
    assert sum(right) / len(right) >= FLOOR
