"""Rows from the labelled data: reading, holding out, and what one epoch of fine-tuning sees. No fitting.

Held out: runs of neighbouring handwritten rows (neighbours share a text), whole templates of the crossed generator,
whole sources (`ood/`) and `hard/`. The mix of an epoch is drawn anew from its seed: all handwritten rows, and samples
of the rest, even over sources and labels; the last epoch is short.
"""

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from router.ask import Ask, read_ask
from router.retrain.log import LogRow
from router.training.crossed import Made, generate, pairs, problems, read_templates

SEED = 20
RUN = 8
GRADED = ("gsm8k", "cmath_zh", "reasoning_gym")
"""Public sources whose rows carry a grade of their own: steps, or the setting of a generator."""
STEPPED = ("gsm8k", "cmath_zh")
"""Those whose grade is a count of steps."""
AUGMENTED, PLAIN, CROSSED = 2600, 2600, 5000
"""Rows of an epoch beside the handwritten ones."""
RESTING = (700, 700, 1600)
"""The same in the last epoch, where the rate falls to nothing."""
LAST = 2
"""The short epoch; the ones after it are wide."""
WIDENED = (800, 2400, 2000)
"""The same in a wide epoch, beside groups, the problems with counted steps and the graded rows."""
SHARE = 0.5
"""Of the groups, drawn for each wide epoch."""
BRANCHES, ROUNDS = 2, 3
"""After the short epoch: so many runs side by side, a wide epoch each, whose mean the next round begins from."""
HELD_CROSSED = 9000
"""Prompts generated for the figures; only those from held-out templates are used, about an eighth."""


@dataclass(frozen=True, slots=True)
class Row:
    ask: Ask
    label: int
    complexity: float
    source: str
    lang: str
    sub: str = ""


class Corpus:
    """All rows under one root, split."""

    def __init__(self, root: Path) -> None:
        rng = random.Random(SEED)
        self.handwritten: list[Row] = []
        self.held: list[Row] = []
        """A tenth of the handwritten rows, for the figures."""
        self.calibration: list[Row] = []
        """A twentieth of the handwritten rows, for calibration."""
        for path in sorted((root / "handwritten").glob("*.jsonl")):
            rows = read_rows(path)
            for start in range(0, len(rows), RUN):
                draw = rng.random()
                part = self.held if draw < 0.1 else self.calibration if draw < 0.15 else self.handwritten
                part.extend(rows[start : start + RUN])
        self.augmented = read_rows(root / "train" / "aug.jsonl")
        self.plain = [
            row for path in sorted((root / "train").glob("*.jsonl")) if path.stem != "aug" for row in read_rows(path)
        ]
        self.hard = read_rows(root / "hard" / "hard_open.jsonl")
        self.ood = [row for path in sorted((root / "ood").glob("*.jsonl")) for row in read_rows(path)]
        self.templates = read_templates()

    def epochs(self) -> range:
        """Numbers of all epochs, the wide ones after `LAST`."""
        return range(LAST + 1 + BRANCHES * ROUNDS)

    def epoch(self, number: int) -> list[Row]:
        """What epoch `number` (from 0) is fitted on, shuffled."""
        rng = random.Random(SEED * 1000 + number)
        is_wide = number > LAST
        augmented, plain, count = WIDENED if is_wide else RESTING if number == LAST else (AUGMENTED, PLAIN, CROSSED)
        crossed = generate(self.templates, count, SEED * 1000 + number, self.lent)
        rows = [
            *self.handwritten,
            *_sample(self.augmented, augmented // 2, rng),
            *_sample(self.fitted, plain // 2, rng),
            *(of_made(made) for made in crossed if not made.is_held),
        ]
        if is_wide:
            rows += [of_made(made) for made in pairs(self.templates, SEED * 1000 + number, share=SHARE)]
            rows += [of_made(made) for made in problems(SEED * 1000 + number)]
            rows += rng.sample(self.stepped, len(self.stepped) // 2)
        rng.shuffle(rows)
        return rows

    @cached_property
    def fitted(self) -> list[Row]:
        """The public rows but for those whose grades are held out."""
        return [row for row in self.plain if row.source not in GRADED or not is_grade_held(row)]

    @cached_property
    def graded(self) -> list[Row]:
        """Rows with grades, to fit the residual difficulty on: handwritten, and two in three of the public ones."""
        public = [row for row in self.plain if row.source in GRADED and not is_grade_held(row)]
        return [*self.handwritten, *public, *(of_made(made) for made in problems(SEED))]

    @cached_property
    def stepped(self) -> list[Row]:
        """Rows of the public sources whose grade is a count of steps, but for those held out of grading."""
        return [row for row in self.plain if row.source in STEPPED and not is_grade_held(row)]

    @cached_property
    def held_crossed(self) -> list[Row]:
        made = generate(self.templates, HELD_CROSSED, SEED + 1, self.lent)
        return [of_made(one) for one in made if one.is_held and one.kind != "any"]

    @cached_property
    def held_pairs(self) -> list[Row]:
        """The groups held out, each ask once: what no epoch and no calibration sees."""
        return [of_made(made) for made in pairs(self.templates, SEED + 2, held=True)]

    @cached_property
    def lent(self) -> Sequence[tuple[str, str]]:
        """Problems of the public sources, to be edited and translated in crossed prompts."""
        return [(row.lang, row.ask.text) for row in self.plain if row.label == 1 and len(row.ask.text) < 900]


def is_grade_held(row: Row) -> bool:
    """Kept aside from the fit of the residual difficulty, for its figures: a third, by a digest of the text."""
    return hashlib.sha256(row.ask.text.encode()).digest()[0] % 3 == 0


def read_rows(path: Path) -> list[Row]:
    with path.open(encoding="utf-8") as lines:
        return [_row(json.loads(line)) for line in lines]


def _row(record: dict[str, Any]) -> Row:
    ask = read_ask([*(record.get("history") or ()), {"role": "user", "content": record["text"]}])
    complexity = record["complexity"] if record["complexity"] is not None else 0.0
    return Row(
        ask, int(record["label"]), float(complexity), record["source"], record["lang"], str(record.get("sub") or "")
    )


def of_log(row: LogRow) -> Row:
    """A labelled request; one without a label raises ValueError."""
    if row.label is None:
        raise ValueError("every line of a log to fine-tune on needs a label")
    return Row(row.ask, row.label, 0.6 if row.label else 0.15, "own", "?")


def of_made(made: Made) -> Row:
    turns = [*made.history, made.text]
    ask = read_ask([{"role": "user", "content": turn} for turn in turns])
    source = made.kind if made.kind == "steps" else "crossed"
    return Row(ask, made.label, made.complexity, source, made.lang, made.kind)


def _sample(rows: Sequence[Row], per_label: int, rng: random.Random) -> list[Row]:
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
    """sha256 of every data file used, by path under `root`."""
    paths = [path for folder in ("handwritten", "train", "hard", "ood") for path in (root / folder).glob("*.jsonl")]
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}
