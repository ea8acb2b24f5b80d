"""What a judge says of a text: how near it is to a loop, and where one was found.

Inside the room only: the detector makes a `Finding` of it. What must not come in: judging.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from budgets.loops.finding import Kind


@dataclass(frozen=True, slots=True)
class Verdict:
    """A loop; as `Finding`, with one copy of the unit in place of its fingerprint."""

    kind: Kind
    onset: int
    keep: int
    period: int
    copies: float
    confidence: float
    reason: str
    unit: str


class Judgement(NamedTuple):
    """`share`: how much of a limit is used up; a verdict comes with 1 and above."""

    share: float
    verdict: Verdict | None = None


CLEAR: Final = Judgement(0.0)

SUSPECT: Final = 0.5
"""The share of a limit from which a text is suspect."""
