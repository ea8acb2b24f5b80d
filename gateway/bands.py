"""The five classes of difficulty as a label: what a complexity of 0 to 1 is called in metrics."""

from __future__ import annotations

from enum import StrEnum

from router import Decision, Tier


class Band(StrEnum):
    """The class whose complexity (0, 0.25, 0.5, 0.75, 1) is nearest; the same as in `thinking.caps`."""

    TRIVIAL = "trivial"
    SIMPLE = "simple"
    MODERATE = "moderate"
    HARD = "hard"
    EXPERT = "expert"
    UNGRADED = "ungraded"
    """Nobody looked: the client said how much to think, or named a model that does not think."""


_GRADED = (Band.TRIVIAL, Band.SIMPLE, Band.MODERATE, Band.HARD, Band.EXPERT)


def band_of(decision: Decision) -> Band:
    """Rules that look at the text grade it above 0; only a decision without a look stands at 0."""
    if decision.tier is Tier.RULE and decision.complexity == 0:
        return Band.UNGRADED
    return _GRADED[min(4, int(decision.complexity * 4 + 0.5))]
