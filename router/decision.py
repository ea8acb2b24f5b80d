"""The verdict's vocabulary. Values only: how a verdict is reached stands elsewhere."""

from dataclasses import dataclass
from enum import StrEnum


class Route(StrEnum):
    """Which kind of model the ask needs."""

    STANDARD = "standard"
    REASONING = "reasoning"


class Tier(StrEnum):
    """What reached the verdict, cheapest first.

    `LEXICAL` is the cheap tier when it had to answer for an encoder that was late or failed. `DEFAULT` is for callers
    that had to answer without the classifier.
    """

    RULE = "rule"
    CHEAP = "cheap"
    ENCODER = "encoder"
    LEXICAL = "lexical"
    DEFAULT = "default"


class Mode(StrEnum):
    """How much a verdict may cost."""

    FAST = "fast"
    """Rules and the cheap tier alone; under half a millisecond."""
    BALANCED = "balanced"
    """The encoder only where the cheap tier is unsure."""
    ACCURATE = "accurate"
    """The encoder for every ask that no rule decides."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict on one ask."""

    route: Route
    complexity: float
    """How hard the ask is, 0 (a greeting) to 1 (an olympiad problem)."""
    confidence: float
    """Calibrated probability that the chosen route is the right one, 0..1."""
    p_reasoning: float
    """Calibrated probability that the ask needs reasoning, 0..1."""
    tier: Tier
    reasons: tuple[str, ...]
    """Why, in words for people, strongest first. Never holds text of the user."""
    target: str | None = None
    """Pool or model that a rule of the operator's names; None leaves it to the route."""
    rule: str | None = None
    """Name of the operator's route that matched; None where none did."""
