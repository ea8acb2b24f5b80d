"""How well loops are found, how often healthy text is taken for one, how late, and at what cost.

    python -m benchmarks.loops [FILE.jsonl ...] [--shared DIR] [--samples N] [--half tune|report]

Three parts: generated loops and generated hard negatives; the real traces beside the checkout, where they are; and any
file of traces that is named (as `python -m budgets.loops --json` reads them).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random
from statistics import median

from benchmarks.loops.negatives import negatives
from benchmarks.loops.prose import Half
from benchmarks.loops.scoring import PIECE, Cost, ShapeScore, find_and_time, score_shape, slowest_call
from benchmarks.loops.shapes import shapes
from budgets.loops.labelled import BadTrace, Score, read_traces, run

SHARED = Path(__file__).parents[2].parent / "shared"
TRACES = ("cases/loops.jsonl", "data/loops/degenerate.jsonl", "data/loops/ordinary.jsonl")

LENGTHS = (8_000, 16_000)
"""Characters of a loop."""

HEALTHY = (6_000, 14_000, 24_000, 40_000)
"""Characters of a negative."""


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.loops", description=__doc__)
    options.add_argument("files", nargs="*", type=Path, metavar="FILE.jsonl", help="labelled traces to score as well")
    options.add_argument("--shared", type=Path, default=SHARED, metavar="DIR", help="where the real traces are")
    options.add_argument("--samples", type=int, default=30, metavar="N", help="samples of each shape and kind")
    options.add_argument("--half", choices=list(Half), default=Half.REPORT, help="which words and seeds")
    given = options.parse_args()
    half = Half(given.half)
    seeds = range(0, given.samples) if half is Half.TUNE else range(70_000, 70_000 + given.samples)
    _score_shapes(half, seeds)
    _score_negatives(half, seeds)
    _score_files([given.shared / name for name in TRACES] + given.files)


def _score_shapes(half: Half, seeds: range) -> None:
    print(f"## Loops of {' and '.join(f'{length:,}' for length in LENGTHS)} characters ({half} half)\n")
    print("Delay in tokens: after the second copy of an exact loop, after the onset of another; median and most.")
    print("Onset: how far off it is told, in characters, least and most.\n")
    print("| shape | recall | delay | onset | late | found as |\n|---|---|---|---|---|---|")
    scores: dict[str, ShapeScore] = {}
    for name, make in shapes(half).items():
        scores[name] = score = score_shape(make, seeds, LENGTHS)
        found = score.delays or [0]
        kinds = ", ".join(f"{kind} {times}" for kind, times in score.kinds.most_common())
        onsets = f"{min(score.onsets, default=0):+} … {max(score.onsets, default=0):+}"
        print(
            f"| {name} | {score.found / score.samples:.2f} | {median(found):,.0f}, {max(found):,} | {onsets}"
            f" | {score.late if name in _exact(half) else ''} | {kinds} |"
        )
    _sum_up("all shapes", scores.values())
    _sum_up("without re-derivations", (score for name, score in scores.items() if "re-derivation" not in name))
    print()


def _exact(half: Half) -> set[str]:
    return {name for name, make in shapes(half).items() if make(Random(0), 1_000).unit}


def _sum_up(name: str, scores: Iterable[ShapeScore]) -> None:
    counted = list(scores)
    found, samples = sum(score.found for score in counted), sum(score.samples for score in counted)
    early = sum(score.early for score in counted)
    print(f"| **{name}** | **{found / samples:.3f}** | | | {early} before the onset | {found} of {samples} |")


def _score_negatives(half: Half, seeds: range) -> None:
    print(f"## Text that repeats and is no loop ({half} half)\n\n| kind | false alarms | ms a 1,000 tokens |")
    print("|---|---|---|")
    total, alarms, slowest = Cost(), 0, 0.0
    for name, make in negatives(half).items():
        cost, wrong = Cost(), 0
        for seed in seeds:
            finding, spent = find_and_time(make(Random(seed), HEALTHY[seed % len(HEALTHY)]))
            cost.add(spent)
            wrong += finding is not None
        print(f"| {name} | {wrong} of {len(seeds)} | {cost.a_thousand_tokens:.2f} |")
        total.add(cost)
        alarms += wrong
        slowest = max(slowest, slowest_call(make(Random(seeds[0]), HEALTHY[1])))
    tokens = total.characters // PIECE
    print(f"| **{tokens:,} tokens** | **{alarms}** | **{total.a_thousand_tokens:.2f}** |")
    print(f"\nThe slowest single call took {slowest * 1e3:.2f} ms.\n")


def _score_files(files: list[Path]) -> None:
    print("## Files of traces\n")
    for file in files:
        if not file.exists():
            print(f"- {file.name}: skipped, it is not there")
            continue
        score = Score()
        try:
            with file.open(encoding="utf-8") as lines:
                for trace in read_traces(lines):
                    score.add(run(trace))
        except (BadTrace, UnicodeDecodeError) as error:
            sys.exit(f"{file}: {error}")
        print(f"- {file.name}: {score}")


if __name__ == "__main__":
    main()
