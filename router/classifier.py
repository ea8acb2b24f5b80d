"""The classifier: rules, the operator's routes, memory, the cheap tier, then encoder and head. No I/O after loading.

`decide` may run on a worker thread while `glance` runs on another: the only state they share is the cache,
whose every touch is under its own lock (see `cache.py`); all weights are read-only. Two threads may compute the same
verdict at once; they reach the same one.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.ask import Ask
from router.cache import LRU
from router.cheap import Cheap
from router.clip import clip_text
from router.decision import Decision, Mode, Route, Tier
from router.encoder import Encoder, TextIds
from router.head import Head, Score
from router.lexical import features
from router.policy import can_lean, move
from router.reasons import explain
from router.rules import apply_rules, is_approval
from router.userroutes import UserRoutes

_SKIMMED: Final = "skimmed: too many prompts at once to read each"
_GO_AHEAD: Final = "a go-ahead, judged by the turn before it"

SURE_SIMPLE: Final = 0.1
SURE_REASONING: Final = 0.9
"""Where the cheap tier decides alone in `balanced`: beyond these its verdict is the encoder's in 98 of 100 cases."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Models:
    """Everything trained, as loaded."""

    encoder: Encoder
    head: Head
    cheap: Cheap
    ids: TextIds


@dataclass(frozen=True, slots=True)
class Working:
    """What one ask's tiers share, computed once for all of them."""

    raw: Floats
    """Lexical features."""
    scaled: Floats
    ids: list[int]
    """Tokens of the last turn."""


@dataclass(frozen=True, slots=True)
class Glance:
    """The verdict to be had without the encoder."""

    decision: Decision
    """Of tier `LEXICAL` when it does not stand: what counts if the encoder has no time."""
    is_final: bool
    working: Working | None = None
    """What was worked out on the way, for the encoder to go on from; None where nothing is left to do."""


class Classifier:
    """Says of an ask whether it needs reasoning, how hard it is, and why."""

    def __init__(
        self,
        models: Models,
        *,
        mode: Mode = Mode.BALANCED,
        threshold: float = 0.5,
        cache_size: int = 8192,
        routes: UserRoutes | None = None,
    ) -> None:
        """`threshold`: the p(reasoning), 0..1, from which an ask goes to reasoning. `cache_size`: verdicts kept."""
        if not 0.0 <= threshold <= 1.0:
            raise ValueError(f"threshold must lie in 0..1, not {threshold}")
        self.models = models
        self.mode = mode
        self.threshold = threshold
        self.routes = routes
        self._cache: LRU[Decision] = LRU(cache_size)

    def decide(self, ask: Ask, seen: Glance | None = None) -> Decision:
        """The full verdict; about 4 ms CPU when the encoder runs. What the encoder raises passes through.

        `seen`: a glance at this ask that did not stand; its work is not done again.
        """
        if is_approval(ask):
            return _inherit(self.decide(before(ask), seen))
        working = seen.working if seen is not None else None
        key = self._key(ask)
        if working is None:
            known = self._known(ask, key)
            if known is not None:
                return known
            working = self.work(ask)
            if self.mode is not Mode.ACCURATE:
                score = self.cheap_score(ask, working)
                if self._is_enough(score):
                    return self._remember(key, self._cheap_verdict(ask, score, working, Tier.CHEAP))
        matched = self.routes.by_utterance(ask) if self.routes is not None else None
        if matched is not None:
            return self._remember(key, matched)
        lean = self.decide(before(ask)).p_reasoning if can_lean(ask.text, ask.earlier) else None
        return self._remember(key, self._verdict(ask, self.full_score(ask, working), working, Tier.ENCODER, lean))

    def glance(self, ask: Ask) -> Glance:
        """What rules, memory and the cheap tier say, and whether that stands; under half a millisecond, no encoder."""
        if is_approval(ask):
            found = self.glance(before(ask))
            return replace(found, decision=_inherit(found.decision))
        key = self._key(ask)
        known = self._known(ask, key)
        if known is not None:
            return Glance(known, is_final=True)
        working = self.work(ask)
        score = self.cheap_score(ask, working)
        if self._is_enough(score):
            decision = self._remember(key, self._cheap_verdict(ask, score, working, Tier.CHEAP))
            return Glance(decision, is_final=True)
        return Glance(self._cheap_verdict(ask, score, working, Tier.LEXICAL), is_final=False, working=working)

    def skim(self, ask: Ask) -> Decision:
        """What rules, memory and lexical features alone say; a tenth of a millisecond, for when not even the cheap
        tier has time. Worth little on crossed prompts (AUROC .72 where the encoder has .95)."""
        if is_approval(ask):
            return _inherit(self.skim(before(ask)))
        known = self._known(ask, self._key(ask))
        if known is not None:
            return known
        head, raw = self.models.head, features(ask)
        score = head.lexical_score(head.scale(raw))
        route = Route.REASONING if score.p_reasoning >= self.threshold else Route.STANDARD
        confidence = score.p_reasoning if route is Route.REASONING else 1.0 - score.p_reasoning
        return Decision(route, score.complexity, confidence, score.p_reasoning, Tier.LEXICAL, (_SKIMMED,))

    def _known(self, ask: Ask, key: bytes) -> Decision | None:
        """What a rule, a route by words, or memory says."""
        ruled = apply_rules(ask) or (self.routes.by_words(ask) if self.routes is not None else None)
        return ruled if ruled is not None else self._cache.get(key)

    def _remember(self, key: bytes, decision: Decision) -> Decision:
        self._cache.put(key, decision)
        return decision

    def _is_enough(self, score: Score) -> bool:
        """Does the cheap tier decide alone?"""
        if self.mode is Mode.ACCURATE or (self.routes is not None and self.routes.needs_encoder):
            return False
        return self.mode is Mode.FAST or not SURE_SIMPLE < score.p_reasoning < SURE_REASONING

    def work(self, ask: Ask) -> Working:
        raw = features(ask)
        return Working(raw, self.models.head.scale(raw), self.models.ids(ask.text))

    def full_score(self, ask: Ask, working: Working) -> Score:
        """Encoder and head, whatever the mode."""
        return self.models.head.score(self.inputs(ask, working))

    def inputs(self, ask: Ask, working: Working) -> Floats:
        """What the head sees: the last turn's encoding, the earlier turn's, scaled features."""
        encoder = self.models.encoder
        width = encoder.sentence
        earlier = encoder.encode(ask.earlier)[:width] if ask.earlier else np.zeros(width, dtype=np.float32)
        return np.concatenate((encoder.encode(ask.text, working.ids), earlier, working.scaled))

    def cheap_score(self, ask: Ask, working: Working) -> Score:
        earlier = self.models.ids(ask.earlier) if ask.earlier else []
        return self.models.cheap.score(working.ids, earlier, working.scaled)

    def _cheap_verdict(self, ask: Ask, score: Score, working: Working, tier: Tier) -> Decision:
        lean = self.glance(before(ask)).decision.p_reasoning if can_lean(ask.text, ask.earlier) else None
        return self._verdict(ask, score, working, tier, lean)

    def _verdict(self, ask: Ask, score: Score, working: Working, tier: Tier, lean: float | None) -> Decision:
        moved = move(score.p_reasoning, before=lean, system=ask.system, text=ask.text)
        route = Route.REASONING if moved.p >= self.threshold else Route.STANDARD
        confidence = moved.p if route is Route.REASONING else 1.0 - moved.p
        pull = self.models.head.pull(working.scaled)
        reasons = explain(route, moved.p, working.raw, pull, encoder=tier is Tier.ENCODER)
        return Decision(route, score.complexity, confidence, moved.p, tier, (reasons[0], *moved.reasons, *reasons[1:]))

    def _key(self, ask: Ask) -> bytes:
        """All that a verdict depends on: the clipped turns, the length of the last, the system prompt's head."""
        turns = (clip_text(ask.text), str(len(ask.text)), clip_text(ask.earlier))
        # The turn before the earlier one counts only where a follow-up may lean on it.
        return self._cache.key(*turns, clip_text(ask.before) if can_lean(ask.text, ask.earlier) else "", ask.system)


def before(ask: Ask) -> Ask:
    """The ask as it stood one user turn earlier, without what came before that."""
    return Ask(ask.earlier, ask.before, system=ask.system, has_tools=ask.has_tools)


def _inherit(decision: Decision) -> Decision:
    return replace(decision, reasons=(_GO_AHEAD, *decision.reasons))
