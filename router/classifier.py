"""The classifier: rules, then memory, then encoder and head. Synchronous and deterministic; no I/O after loading.

`decide` may run on a worker thread while `peek` and `lexical` run on another: the only state they share is the cache,
whose every touch is under its own lock (see `cache.py`); the head is read-only. Two threads may compute the same
verdict at once; they reach the same one.
"""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.ask import Ask
from router.cache import LRU
from router.clip import clip_text
from router.decision import Decision, Route, Tier
from router.encoder import SENTENCE, Encoder
from router.head import Head, Score
from router.lexical import features
from router.reasons import explain
from router.rules import apply_rules, is_approval

_NO_EARLIER: Final = np.zeros(SENTENCE, dtype=np.float32)
_GO_AHEAD: Final = "a go-ahead, judged by the turn before it"


class Classifier:
    """Says of an ask whether it needs reasoning, how hard it is, and why."""

    def __init__(self, encoder: Encoder, head: Head, *, threshold: float = 0.5, cache_size: int = 8192) -> None:
        """`threshold`: the p(reasoning), 0..1, from which an ask goes to reasoning. `cache_size`: verdicts kept."""
        if not 0.0 <= threshold <= 1.0:
            raise ValueError(f"threshold must lie in 0..1, not {threshold}")
        self._encoder = encoder
        self._head = head
        self._threshold = threshold
        self._cache: LRU[Decision] = LRU(cache_size)

    def decide(self, ask: Ask) -> Decision:
        """The full verdict; about 8–30 ms CPU when the encoder runs. What the encoder raises passes through."""
        if is_approval(ask):
            return _inherit(self.decide(_before(ask)))
        ruled = apply_rules(ask)
        if ruled is not None:
            return ruled
        key = self._key(ask)
        known = self._cache.get(key)
        if known is not None:
            return known
        raw = features(ask)
        scaled = self._head.scale(raw)
        earlier = self._encoder.encode(ask.earlier)[:SENTENCE] if ask.earlier else _NO_EARLIER
        score = self._head.apply(self._encoder.encode(ask.text), earlier, scaled)
        decision = self._decide(score, raw, scaled, Tier.ENCODER)
        self._cache.put(key, decision)
        return decision

    def peek(self, ask: Ask) -> Decision | None:
        """The verdict if a rule or the cache has it; microseconds, never the encoder."""
        if is_approval(ask):
            found = self.peek(_before(ask))
            return None if found is None else _inherit(found)
        return apply_rules(ask) or self._cache.get(self._key(ask))

    def lexical(self, ask: Ask) -> Decision:
        """The verdict on words alone, under 1 ms: the fallback when there is no time for the encoder. Not cached."""
        if is_approval(ask):
            return _inherit(self.lexical(_before(ask)))
        ruled = apply_rules(ask)
        if ruled is not None:
            return ruled
        raw = features(ask)
        scaled = self._head.scale(raw)
        return self._decide(self._head.apply_lexical(scaled), raw, scaled, Tier.LEXICAL)

    def _decide(self, score: Score, raw: NDArray[np.float32], scaled: NDArray[np.float32], tier: Tier) -> Decision:
        p = score.p_reasoning
        route = Route.REASONING if p >= self._threshold else Route.STANDARD
        confidence = p if route is Route.REASONING else 1.0 - p
        reasons = explain(route, p, raw, self._head.pull(scaled), encoder=tier is Tier.ENCODER)
        return Decision(route, score.complexity, confidence, p, tier, reasons)

    def _key(self, ask: Ask) -> bytes:
        """All that a verdict depends on: the clipped turns and the length of the last."""
        return self._cache.key(clip_text(ask.text), str(len(ask.text)), clip_text(ask.earlier))


def _before(ask: Ask) -> Ask:
    return Ask(ask.earlier, has_tools=ask.has_tools)


def _inherit(decision: Decision) -> Decision:
    return replace(decision, reasons=(_GO_AHEAD, *decision.reasons))
