"""Labelled traces as JSON lines: reading them, running the detector over them, and adding up what it got right.

A line has an `id`; `pieces` (a list of texts) or `text`; optionally a `label` (`loop`, `near_loop`, `no_loop`) and the
prompt, as `prompt`, `question` or `instruction`, to see whether it asked for repetition. What must not come in: files,
printing, and detection.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, cast

from budgets.loops.asked import asks_for_repetition
from budgets.loops.detector import LoopDetector
from budgets.loops.finding import Channel, Finding, LoopState
from budgets.loops.pieces import split_pieces

LABELS = ("loop", "near_loop", "no_loop")
_PROMPTS = ("prompt", "question", "instruction")


class BadTrace(Exception):
    """A line that is no trace."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One text in pieces. `label` is None where the file has none; `prompt` is empty where it has none."""

    id: str
    pieces: tuple[str, ...]
    label: str | None = None
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the detector said of a trace. All figures in pieces; None where nothing was found.

    `onset`: the piece in which the loop begins, from 0. `fired_at`: how many pieces had been fed. `period`: pieces from
    one copy to the next, 0 where there is none.
    """

    trace: Trace
    finding: Finding | None
    onset: int | None
    fired_at: int | None
    period: int | None

    def as_json(self) -> dict[str, Any]:
        found = self.finding
        return {
            "id": self.trace.id,
            "fired": found is not None,
            "kind": found and found.kind.value,
            "onset": self.onset,
            "fired_at": self.fired_at,
            "period": self.period,
        }


def read_traces(lines: Iterable[str]) -> Iterator[Trace]:
    """The traces of a file. Raises BadTrace with the number of the line."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _trace(json.loads(line))
            except (ValueError, BadTrace) as error:
                raise BadTrace(f"line {number}: {error}") from None


def run(trace: Trace, channel: Channel = Channel.REASONING) -> Outcome:
    """Feed a trace piece by piece until a loop is found or it ends."""
    detector = LoopDetector(channel, asked_for_repetition=asks_for_repetition(trace.prompt))
    for number, piece in enumerate(trace.pieces, 1):
        if detector.feed(piece) is LoopState.LOOP:
            return _outcome(trace, detector.finding, number)
    return Outcome(trace, None, None, None, None)


@dataclass(slots=True)
class Score:
    """Counts over outcomes with a label: `found[label]` of `total[label]`."""

    total: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LABELS, 0))
    found: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LABELS, 0))

    def add(self, outcome: Outcome) -> None:
        if (label := outcome.trace.label) is not None:
            self.total[label] += 1
            self.found[label] += outcome.finding is not None

    def __str__(self) -> str:
        loops, near, healthy = (f"{self.found[label]} of {self.total[label]}" for label in LABELS)
        recall = self.found["loop"] / self.total["loop"] if self.total["loop"] else 0.0
        return f"recall {recall:.3f} ({loops} loops); near loops found: {near}; false alarms: {healthy}"


def _trace(row: object) -> Trace:
    if not isinstance(row, dict):
        raise BadTrace("not an object")
    given = cast("dict[str, Any]", row)
    pieces, text, label = given.get("pieces"), given.get("text"), given.get("label")
    if isinstance(pieces, list) and all(isinstance(piece, str) for piece in cast("list[object]", pieces)):
        cut: Sequence[str] = cast("list[str]", pieces)
    elif isinstance(text, str):
        cut = split_pieces(text)
    else:
        raise BadTrace("neither `pieces`, a list of texts, nor `text`")
    if label is not None and label not in LABELS:
        raise BadTrace(f"`label` must be one of {', '.join(LABELS)}")
    prompt = next((given[name] for name in _PROMPTS if isinstance(given.get(name), str)), "")
    return Trace(str(given.get("id", "")), tuple(cut), label, prompt)


def _outcome(trace: Trace, finding: Finding | None, fed: int) -> Outcome:
    if finding is None:
        return Outcome(trace, None, None, None, None)
    ends = list(accumulate(map(len, trace.pieces)))
    onset = bisect_right(ends, finding.onset)
    period = bisect_right(ends, finding.onset + finding.period) - onset if finding.period else 0
    return Outcome(trace, finding, onset, fed, max(period, 1) if finding.period else 0)
