"""Routes of the operator's own: by keyword, by regular expression, or by example utterances with fitted thresholds.

They come before the classifier's own verdict, in the order given, and abstain where they do not fit. Utterances are
for overrides ("refunds go to this pool"), not for telling hard from easy: five of them a class are a poor classifier.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from router.ask import Ask
from router.clip import clip_text
from router.decision import Decision, Route, Tier
from router.encoder import Encoder, Vector

_TOP: Final = 3
"""Utterances whose similarity counts: the best three, as one lucky match says little."""
_FALSE_SHARE: Final = 0.01
"""Share of the shipped background prompts that a fitted threshold lets through."""


@dataclass(frozen=True, slots=True)
class UserRoute:
    """As the operator wrote it. At least one of the three ways to match must be given."""

    name: str
    route: Route
    target: str | None = None
    """A pool or model by name; None takes the route's own pool."""
    keywords: tuple[str, ...] = ()
    """Any of them, as whole words, in any case."""
    regex: str | None = None
    """Searched in the clipped text of the last turn."""
    utterances: tuple[str, ...] = ()
    """What people say who should go here; three or more."""
    negatives: tuple[str, ...] = ()
    """What people say who should not, though it sounds alike."""
    threshold: float | None = None
    """Similarity (cosine, -1..1) from which utterances match; None fits it."""


@dataclass(frozen=True, slots=True)
class _Fitted:
    route: UserRoute
    vectors: Vector
    negatives: Vector
    threshold: float


class UserRoutes:
    """The routes, compiled and fitted. Read-only after it is made."""

    def __init__(self, routes: Sequence[UserRoute], encoder: Encoder, background: Sequence[str]) -> None:
        """Raises ValueError on a route that can never match or a regular expression that does not compile."""
        self._encoder = encoder
        self._worded: list[tuple[UserRoute, re.Pattern[str]]] = []
        spoken: list[UserRoute] = []
        for route in routes:
            if not (route.keywords or route.regex or route.utterances):
                raise ValueError(f"the route {route.name!r} has no keywords, no regex and no utterances")
            if route.keywords or route.regex:
                self._worded.append((route, _pattern(route)))
            if route.utterances:
                spoken.append(route)
        self._fitted = self._fit(spoken, background) if spoken else []

    @property
    def needs_encoder(self) -> bool:
        """Some route goes by utterances, so that every ask must be encoded."""
        return bool(self._fitted)

    def by_words(self, ask: Ask) -> Decision | None:
        """The first route whose keyword or expression is in the ask; microseconds."""
        text = clip_text(ask.text) if self._worded else ""
        for route, pattern in self._worded:
            if pattern.search(text):
                return _decision(route, f"the route {route.name!r} matches its words")
        return None

    def by_utterance(self, ask: Ask) -> Decision | None:
        """The route whose utterances are nearest, if near enough; None abstains."""
        if not self._fitted:
            return None
        vector = self._encoder.encode(ask.text)[: self._encoder.sentence]
        best: tuple[float, UserRoute] | None = None
        for fitted in self._fitted:
            margin = _score(fitted.vectors, vector) - fitted.threshold
            if len(fitted.negatives) and float((fitted.negatives @ vector).max()) > float(
                (fitted.vectors @ vector).max()
            ):
                continue
            if margin >= 0 and (best is None or margin > best[0]):
                best = (margin, fitted.route)
        if best is None:
            return None
        return _decision(best[1], f"near the utterances of the route {best[1].name!r} (margin {best[0]:.2f})")

    def _fit(self, routes: list[UserRoute], background: Sequence[str]) -> list[_Fitted]:
        stacks = [self._encode(route.utterances) for route in routes]
        ground = self._encode(background)
        fitted: list[_Fitted] = []
        for index, (route, vectors) in enumerate(zip(routes, stacks, strict=True)):
            threshold = route.threshold
            if threshold is None:
                foreign = np.concatenate([ground, *(stack for other, stack in enumerate(stacks) if other != index)])
                threshold = fit_threshold(vectors, foreign)
            fitted.append(_Fitted(route, vectors, self._encode(route.negatives), threshold))
        return fitted

    def _encode(self, texts: Sequence[str]) -> Vector:
        width = self._encoder.sentence
        rows = [self._encoder.encode(text)[:width] for text in texts]
        return np.stack(rows) if rows else np.zeros((0, width), dtype=np.float32)


def fit_threshold(own: Vector, foreign: Vector) -> float:
    """Between what the route's own utterances score with each left out and what the others score, cosine.

    Never below what lets a hundredth of the others through.
    """
    scores = [_score(np.delete(own, index, axis=0), own[index]) for index in range(len(own))] if len(own) > 1 else [1.0]
    others = np.array([_score(own, vector) for vector in foreign]) if len(foreign) else np.zeros(1)
    ceiling = float(np.quantile(others, 1 - _FALSE_SHARE))
    return max(ceiling, (float(np.median(scores)) + ceiling) / 2)


def _score(vectors: Vector, vector: Vector) -> float:
    similar = np.sort(vectors @ vector)[-_TOP:]
    return float(similar.mean()) if len(similar) else -1.0


def _pattern(route: UserRoute) -> re.Pattern[str]:
    words = [rf"(?<!\w){re.escape(word)}(?!\w)" for word in route.keywords]
    try:
        return re.compile("|".join([*words, *([f"(?:{route.regex})"] if route.regex else [])]), re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"the regex of the route {route.name!r} does not compile: {error}") from error


def _decision(route: UserRoute, why: str) -> Decision:
    hard = route.route is Route.REASONING
    return Decision(route.route, 0.6 if hard else 0.15, 1.0, float(hard), Tier.RULE, (why,), route.target, route.name)
