"""Running the detector over generated texts: what it found, how late, where it says the loop began, what it cost.

What must not come in: texts, and printing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from benchmarks.loops.shapes import LoopSample
from budgets.loops import Finding, LoopDetector, LoopState
from budgets.loops.pieces import split_pieces

PIECE = 4
"""Characters that are fed at a time: about a token, as engines stream."""

PROMPTLY = 300
"""Tokens after the second copy of an exact shape within which it must be found."""


@dataclass(slots=True)
class ShapeScore:
    """One shape. `delays`: tokens from the end of the second copy, or from the onset where copies are not exact."""

    samples: int = 0
    found: int = 0
    early: int = 0
    late: int = 0
    delays: list[int] = field(default_factory=list[int])
    onsets: list[int] = field(default_factory=list[int])
    kinds: Counter[str] = field(default_factory=Counter[str])

    def add(self, sample: LoopSample, finding: Finding | None) -> None:
        self.samples += 1
        if finding is None:
            return
        if finding.at <= sample.onset:
            self.early += 1
            return
        self.found += 1
        self.kinds[finding.kind.value] += 1
        self.onsets.append(finding.onset - sample.onset)
        second = sample.onset + 2 * sample.unit
        delay = len(split_pieces(sample.text[second : finding.at]))
        self.delays.append(delay)
        if sample.unit and delay > PROMPTLY and finding.at > second + sample.unit + 128:
            self.late += 1


@dataclass(slots=True)
class Cost:
    """Time of the process in `feed`, and characters fed."""

    seconds: float = 0.0
    characters: int = 0

    @property
    def a_thousand_tokens(self) -> float:
        """Milliseconds."""
        return self.seconds / max(1, self.characters) * PIECE * 1e6

    def add(self, other: Cost) -> None:
        self.seconds += other.seconds
        self.characters += other.characters


def find(text: str) -> Finding | None:
    detector = LoopDetector()
    for start in range(0, len(text), PIECE):
        if detector.feed(text[start : start + PIECE]) is LoopState.LOOP:
            break
    return detector.finding


def find_and_time(text: str) -> tuple[Finding | None, Cost]:
    pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
    detector = LoopDetector()
    feed = detector.feed
    began = time.process_time()
    for piece in pieces:
        feed(piece)
    cost = Cost(time.process_time() - began, len(text))
    return detector.finding, cost


def slowest_call(text: str) -> float:
    """Seconds of this thread's time in the slowest call over a text, each call taken at its best of three runs."""
    pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
    best = [float("inf")] * len(pieces)
    for _ in range(3):
        detector = LoopDetector()
        for place, piece in enumerate(pieces):
            began = time.thread_time()
            detector.feed(piece)
            best[place] = min(best[place], time.thread_time() - began)
    return max(best)


def score_shape(make: Callable[[Random, int], LoopSample], seeds: range, sizes: tuple[int, ...]) -> ShapeScore:
    score = ShapeScore()
    for seed in seeds:
        sample = make(Random(seed), sizes[seed % len(sizes)])
        score.add(sample, find(sample.text))
    return score
