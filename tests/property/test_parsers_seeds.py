"""Inputs that the fuzz harness found, or that reach much of the code, under the invariants of every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.parsers.invariants import check_case

SEEDS = Path(__file__).parents[1] / "parsers" / "seeds.jsonl"


@pytest.mark.parametrize("seed", [json.loads(line) for line in SEEDS.read_text(encoding="utf-8").splitlines()])
def test_seed(seed: dict[str, Any]) -> None:
    check_case(seed)
