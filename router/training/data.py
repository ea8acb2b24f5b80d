"""Rows from the labelled data: reading, sampling, holding out. No embedding, no fitting."""

import hashlib
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from router.ask import Ask, read_ask

SEED = 20
PLAIN_PER_LABEL = 2400
AUG_PER_LABEL = 2400
RUN = 8
"""Neighbouring handwritten rows share a text or a conversation, so they are held out in runs of this many."""


@dataclass(frozen=True, slots=True)
class Row:
    ask: Ask
    label: int
    complexity: float
    source: str
    lang: str


@dataclass(frozen=True, slots=True)
class Splits:
    train: list[Row]
    held: list[Row]
    """A tenth of the handwritten rows, for the figures."""
    calibration: list[Row]
    """A twentieth of the handwritten rows, for calibration."""
    hard: list[Row]
    ood: list[Row]


def read_rows(path: Path) -> list[Row]:
    with path.open(encoding="utf-8") as lines:
        return [_row(json.loads(line)) for line in lines]


def _row(record: dict[str, Any]) -> Row:
    ask = read_ask([*record.get("history", ()), {"role": "user", "content": record["text"]}])
    complexity = record["complexity"] if record["complexity"] is not None else 0.0
    return Row(ask, int(record["label"]), float(complexity), record["source"], record["lang"])


def read_splits(root: Path) -> Splits:
    rng = random.Random(SEED)
    handwritten: list[Row] = []
    held: list[Row] = []
    calibration: list[Row] = []
    for path in sorted((root / "handwritten").glob("*.jsonl")):
        rows = read_rows(path)
        for start in range(0, len(rows), RUN):
            draw = rng.random()
            part = held if draw < 0.1 else calibration if draw < 0.15 else handwritten
            part.extend(rows[start : start + RUN])
    augmented = read_rows(root / "train" / "aug.jsonl")
    plain = [row for path in sorted((root / "train").glob("*.jsonl")) if path.stem != "aug" for row in read_rows(path)]
    train = [
        *handwritten,
        *_sample(augmented, AUG_PER_LABEL, rng),
        *_sample(plain, PLAIN_PER_LABEL, rng),
    ]
    hard = read_rows(root / "hard" / "hard_open.jsonl")
    ood = [row for path in sorted((root / "ood").glob("*.jsonl")) for row in read_rows(path)]
    return Splits(train, held, calibration, hard, ood)


def _sample(rows: list[Row], per_label: int, rng: random.Random) -> list[Row]:
    """At most `per_label` rows of each label, drawn evenly over the sources."""
    taken: list[Row] = []
    for label in (0, 1):
        groups: dict[str, list[Row]] = {}
        for row in rows:
            if row.label == label:
                groups.setdefault(row.source, []).append(row)
        for group in groups.values():
            rng.shuffle(group)
        left = per_label
        for position, source in enumerate(sorted(groups, key=lambda name: (len(groups[name]), name))):
            share = left // (len(groups) - position)
            taken.extend(groups[source][:share])
            left -= min(share, len(groups[source]))
    return taken


def digests(root: Path) -> dict[str, str]:
    """sha256 of every data file the head was fitted, calibrated or tested on, by path under `root`."""
    paths = [path for folder in ("handwritten", "train", "hard", "ood") for path in (root / folder).glob("*.jsonl")]
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}
