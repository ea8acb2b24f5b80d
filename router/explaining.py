"""All that went into a verdict, for people who ask why: more work than a verdict, and done only on demand.

Unlike a `Decision`'s reasons, an explanation may name the shipped exemplars and cut the asker's own text into
sentences; it is for the one who asked, never for logs.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np

from router.ask import Ask
from router.classifier import Classifier, before
from router.clip import HEAD_CHARS, TAIL_CHARS
from router.decision import Decision, Tier
from router.lexical import FEATURES
from router.loading import Exemplar
from router.policy import HELD_UP, can_lean
from router.rules import is_approval

_SENTENCE: Final = re.compile(r"(?<=[.!?。！？।])\s*|\n+")
_MOST_SENTENCES: Final = 8
_NEAREST: Final = 5
_FEATURES_SHOWN: Final = 6


class Effect(StrEnum):
    """What the turns before the last one did to the verdict."""

    NONE = "none"
    """There are none, or a rule looked at the last turn alone."""
    READ = "read"
    """The turn before was read beside the last one, and no more."""
    HELD_UP = "held up"
    """A short follow-up took a share of the probability of the turn before: raised at once, released slowly."""
    GO_AHEAD = "go-ahead"
    """The last turn only says yes: the turn before it was judged instead."""


@dataclass(frozen=True, slots=True)
class History:
    """What the turns before the last one did."""

    effect: Effect
    p_without: float
    """Calibrated, of the last turn alone."""
    p_before: float | None
    """Of the turn before, where it could hold the last one up or was judged in its stead; after policy."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A verdict and what made it. Of a go-ahead, all figures are those of the turn that it approves."""

    decision: Decision
    p_raw: float
    """As the encoder's head gives it, before calibration."""
    p_calibrated: float
    """Before history, system prompt and script moved it."""
    p_cheap: float
    """The cheap tier's, calibrated."""
    threshold: float
    margin: float
    """p minus threshold; its sign is the route."""
    history: History
    exemplars: tuple[tuple[float, Exemplar], ...]
    """Cosine and exemplar, nearest first."""
    features: tuple[tuple[str, float], ...]
    """Lexical features by what they add to the lexical logit, strongest first."""
    sentences: tuple[tuple[str, float], ...]
    """Each sentence and what p loses without it, strongest first; empty unless asked for."""
    is_clipped: bool

    def as_json(self) -> dict[str, Any]:
        decision = self.decision
        return {
            "route": decision.route,
            "target": decision.target,
            "rule": decision.rule,
            "complexity": round(decision.complexity, 4),
            "confidence": round(decision.confidence, 4),
            "p_reasoning": round(decision.p_reasoning, 4),
            "tier": decision.tier,
            "reasons": list(decision.reasons),
            "p_raw": round(self.p_raw, 4),
            "p_calibrated": round(self.p_calibrated, 4),
            "p_cheap": round(self.p_cheap, 4),
            "history": {
                "effect": self.history.effect,
                "p_without": round(self.history.p_without, 4),
                "p_before": None if self.history.p_before is None else round(self.history.p_before, 4),
            },
            "threshold": round(self.threshold, 4),
            "margin": round(self.margin, 4),
            "clipped": self.is_clipped,
            "exemplars": [
                {"similarity": round(similar, 3), "label": ("simple", "reasoning")[one.label], "text": one.text}
                for similar, one in self.exemplars
            ],
            "features": [{"name": name, "adds": round(adds, 3)} for name, adds in self.features],
            "sentences": [{"text": text, "p_falls_by": round(fall, 3)} for text, fall in self.sentences],
        }


class Explainer:
    """Explains verdicts of one classifier. Encodes the exemplars at its first use, about a second of CPU."""

    def __init__(self, classifier: Classifier, exemplars: list[Exemplar]) -> None:
        self._classifier = classifier
        self._exemplars = exemplars
        self._vectors: np.ndarray[Any, np.dtype[np.float32]] | None = None

    def explain(self, ask: Ask, *, sentences: bool = False) -> Explanation:
        """`sentences`: also weigh each sentence by leaving it out, one more encoding each, eight at most."""
        classifier = self._classifier
        decision = classifier.decide(ask)
        history = self._history(ask, decision)
        while is_approval(ask):
            ask = before(ask)
        working = classifier.work(ask)
        score = classifier.full_score(ask, working)
        pull = classifier.models.head.pull(working.scaled)
        strongest: list[int] = np.argsort(-np.abs(pull), kind="stable")[:_FEATURES_SHOWN].tolist()
        return Explanation(
            decision=decision,
            p_raw=score.p_raw,
            p_calibrated=score.p_reasoning,
            p_cheap=classifier.cheap_score(ask, working).p_reasoning,
            threshold=classifier.threshold,
            margin=decision.p_reasoning - classifier.threshold,
            history=history,
            exemplars=self._nearest(ask.text),
            features=tuple((FEATURES[index], float(pull[index])) for index in strongest),
            sentences=self._weigh(ask, score.p_reasoning) if sentences else (),
            is_clipped=len(ask.text) > HEAD_CHARS + TAIL_CHARS,
        )

    def _history(self, ask: Ask, decision: Decision) -> History:
        alone = self._p(Ask(ask.text))
        if is_approval(ask):
            return History(Effect.GO_AHEAD, alone, decision.p_reasoning)
        if not ask.earlier or decision.tier is Tier.RULE:
            return History(Effect.NONE, alone, None)
        if not can_lean(ask.text, ask.earlier):
            return History(Effect.READ, alone, None)
        effect = Effect.HELD_UP if HELD_UP in decision.reasons else Effect.READ
        return History(effect, alone, self._classifier.decide(before(ask)).p_reasoning)

    def _p(self, ask: Ask) -> float:
        return self._classifier.full_score(ask, self._classifier.work(ask)).p_reasoning

    def _nearest(self, text: str) -> tuple[tuple[float, Exemplar], ...]:
        encoder = self._classifier.models.encoder
        if self._vectors is None:
            self._vectors = np.stack([encoder.encode(one.text)[: encoder.sentence] for one in self._exemplars])
        similar = self._vectors @ encoder.encode(text)[: encoder.sentence]
        order: list[int] = np.argsort(-similar, kind="stable")[:_NEAREST].tolist()
        return tuple((float(similar[index]), self._exemplars[index]) for index in order)

    def _weigh(self, ask: Ask, p: float) -> tuple[tuple[str, float], ...]:
        parts = [part for part in _SENTENCE.split(ask.text) if part.strip()][:_MOST_SENTENCES]
        if len(parts) < 2:
            return ()
        falls = [
            (part.strip(), p - self._p(Ask(" ".join(parts[:index] + parts[index + 1 :]), ask.earlier)))
            for index, part in enumerate(parts)
        ]
        return tuple(sorted(falls, key=lambda item: -abs(item[1])))
