"""Decision + Intent + the operator's policy → the Plan: what will be enforced, and by what means.

Arithmetic only. Counting and cutting are the governor's, keeping the deadlines is the flight's, admission is the
gateway's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from budgets.intent import Intent, IntentError, Mode

RESERVE_SHARE = 10
"""At least a tenth of `max_tokens` is kept for the answer (reference policy of hosted APIs: max(256, 10 %))."""


EFFORTS = ("minimal", "low", "medium", "high", "xhigh")
"""Effort words, one a class of difficulty, weakest first."""


class How(StrEnum):
    """By what means a thought is held to its cap."""

    OFF = "off"
    """The model does not think."""
    CUT = "cut"
    """The gateway counts, ends the leg at the cap and continues to the answer."""
    NATIVE = "native"
    """The engine was told the cap; the gateway still counts."""
    NONE = "none"
    """Nothing enforces it: the engine can neither cap nor continue."""


@dataclass(frozen=True, slots=True)
class ClassCaps:
    """Caps in tokens for complexity 0, ¼, ½, ¾ and 1; never falling."""

    trivial: int
    simple: int
    moderate: int
    hard: int
    expert: int

    def at(self, complexity: float) -> int:
        """The cap in tokens for a complexity of 0..1: geometric between two classes, since caps grow by factors."""
        knots = (self.trivial, self.simple, self.moderate, self.hard, self.expert)
        place = min(max(complexity, 0.0), 1.0) * (len(knots) - 1)
        below = min(int(place), len(knots) - 2)
        share = place - below
        low, high = knots[below], knots[below + 1]
        if low == 0:
            return round(high * share)
        return round(low * (high / low) ** share)

    def level_of(self, cap: int) -> str:
        """The weakest effort word whose cap is at least this one: what a model that heeds words should be told."""
        return next((level for level in EFFORTS if self.for_level(level) >= cap), EFFORTS[-1])

    def for_level(self, level: str) -> int:
        """The cap in tokens for an effort word."""
        return {
            "minimal": self.trivial,
            "low": self.simple,
            "medium": self.moderate,
            "high": self.hard,
            "xhigh": self.expert,
            "max": self.expert,
        }[level]


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds. `queue`: for a worker to become ready; `first_token`: from asking an engine to its first event; `idle`:
    without a byte from it; `thought`: of a request, after which its thought is cut so that an answer still comes;
    `total`: of a request."""

    queue: float = 5
    first_token: float = 600
    idle: float = 120
    thought: float = 3_240
    total: float = 3_600


@dataclass(frozen=True, slots=True)
class Policy:
    """What the operator and the engine allow in one pool."""

    enabled: bool
    can_disable: bool
    max_cap: int
    caps: ClassCaps
    answer_reserve: int
    how: How
    """The means this pool's engine has: `CUT`, `NATIVE` or `NONE`."""
    has_switch: bool = True
    """Does the template switch thinking off? Where it does not, an empty thought that is closed already does."""
    least: int = 0
    """Tokens of thought before which a model is told to think on."""
    deadlines: Deadlines = Deadlines()


@dataclass(frozen=True, slots=True)
class Plan:
    """What a flight enforces.

    `cap`: most thinking tokens, None when thinking is off. `reserve`: tokens kept for the answer. `limit`: most
    completion tokens of the whole flight, None when the client set none. `source`: what decided the cap. `level`: the
    effort word the client asked for, `none` for thinking off, None if it named none; for engines that take no number.
    `effort`: the word that fits the cap, for models that heed one. `least`: tokens of thought before which the model is
    told to think on, never more than the cap. `closes`: thinking is off by an empty thought that is closed already.
    """

    how: How
    cap: int | None
    reserve: int
    limit: int | None
    source: str
    level: str | None = None
    effort: str | None = None
    least: int = 0
    closes: bool = False
    deadlines: Deadlines = Deadlines()

    @property
    def thinks(self) -> bool:
        return self.how is not How.OFF


def make_plan(intent: Intent, policy: Policy, *, complexity: float, limit: int | None, room: int | None = None) -> Plan:
    """The Plan for one request.

    `limit` is the client's `max_tokens`, the smaller where it sent two; `room` is what the model's context has left for
    thought and answer, None where it is not known. Both in tokens. Raises IntentError where the pool cannot do
    what was asked: thinking in a pool without it, silence from a model that cannot stop, a number nobody can enforce.
    """
    reserve = policy.answer_reserve
    if limit is not None:
        # Half at most: a client that allows 100 tokens wants a short thought and a short answer, not no thought.
        reserve = max(1, min(max(reserve, limit // RESERVE_SHARE), limit // 2))
    if not policy.enabled:
        if intent.mode is Mode.ON:
            raise IntentError(
                "this model answers without thinking; ask for the reasoning model, or leave the thinking control out",
                param=intent.source,
                code="thinking_not_available",
            )
        return Plan(How.OFF, None, reserve, limit, "pool", deadlines=policy.deadlines)
    if intent.mode is Mode.OFF and policy.can_disable:
        closes = not policy.has_switch
        return Plan(How.OFF, None, reserve, limit, intent.source, "none", closes=closes, deadlines=policy.deadlines)

    cap, source = _wanted_cap(intent, policy, complexity)
    if cap > policy.max_cap:
        cap, source = policy.max_cap, "max_cap"
    if limit is not None and cap > limit - reserve:
        cap, source = max(1, limit - reserve), "max_tokens"
    if room is not None and cap > room - reserve:
        cap, source = max(1, room - reserve), "context"
    if policy.how is How.NONE and intent.cap is not None:
        raise IntentError(
            "this pool's engine cannot hold this request to a number of thinking tokens"
            " (it has no cap of its own, and this request could not go on to its answer after a cut)",
            param=intent.source,
            code="unsupported_value",
        )
    level = "none" if intent.mode is Mode.OFF else intent.level
    return Plan(
        policy.how,
        cap,
        reserve,
        limit,
        source,
        level,
        effort=intent.level or policy.caps.level_of(cap),
        least=min(policy.least, cap) if policy.how is not How.NONE and intent.mode is not Mode.OFF else 0,
        deadlines=policy.deadlines,
    )


def _wanted_cap(intent: Intent, policy: Policy, complexity: float) -> tuple[int, str]:
    if intent.mode is Mode.OFF:
        # The model cannot stop thinking, so "off" is the shortest thought that still leads to an answer.
        return max(1, policy.caps.trivial), intent.source
    if intent.cap is not None:
        return intent.cap, intent.source
    if intent.level is not None:
        return max(1, policy.caps.for_level(intent.level)), intent.source
    return max(1, policy.caps.at(complexity)), "complexity"
