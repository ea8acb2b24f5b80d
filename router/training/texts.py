"""The prompts that ship with the weights: exemplars for explanations, and the guard set of retraining. CC0 rows only.

Exemplars come from rows that were trained on, the guard set from rows that were not.
"""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from router.training.data import SEED, Corpus, Row

EXEMPLARS = 240
GUARD = 320
LONGEST = 220
"""Characters of an exemplar: it is shown to people."""


def write_exemplars(corpus: Corpus, path: Path) -> None:
    short = [row for row in corpus.handwritten if 12 < len(row.ask.text) <= LONGEST and not row.ask.earlier]
    _write(path, [{"text": row.ask.text, "label": row.label} for row in _even(short, EXEMPLARS)])


def write_guard(corpus: Corpus, path: Path) -> None:
    rows: list[dict[str, Any]] = []
    for row in _even(corpus.held, GUARD):
        turns = [turn for turn in (row.ask.earlier, row.ask.text) if turn]
        rows.append({"messages": [{"role": "user", "content": turn} for turn in turns], "label": row.label})
    _write(path, rows)


def _even(rows: Sequence[Row], count: int) -> list[Row]:
    """`count` rows, half of each label, drawn."""
    rng = random.Random(SEED)
    found: list[Row] = []
    for label in (0, 1):
        fitting = [row for row in rows if row.label == label]
        found.extend(rng.sample(fitting, min(count // 2, len(fitting))))
    return found


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
