"""Why a verdict fell, in words for people. Built from fixed phrases and numbers alone: never from the user's text."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.decision import Route
from router.lexical import FEATURES

_KINDS: Final = (
    ("prove", "asks for a proof or derivation"),
    ("compute", "asks for a calculation or a count"),
    ("debug", "asks for a cause"),
    ("plan", "asks for a plan, a design or an optimum"),
    ("decide", "asks to weigh or decide"),
    ("transform", "asks to rewrite, translate or reformat"),
    ("recall", "asks for a fact or a meaning"),
    ("create", "asks for a text to be written"),
    ("social", "small talk"),
    ("light", "asks for something short or quick"),
    ("effort", "asks for care or for steps"),
    ("logic", "states conditions"),
    ("quantify", "compares or bounds quantities"),
)
_SURFACE: Final = (
    ("log numbers", "several numbers"),
    ("maths marks", "mathematical notation"),
    ("code marks", "code"),
    ("options", "a list of options"),
    ("earlier hard cues", "the turn before asked for reasoning"),
    ("earlier soft cues", "the turn before was simple"),
    ("short follow-up", "a short follow-up"),
)


def _phrases() -> Mapping[int, str]:
    phrases: dict[int, str] = {}
    kinds = dict(_KINDS)
    surface = dict(_SURFACE)
    for index, name in enumerate(FEATURES):
        kind = name.split(" at the ")[0]
        if kind in kinds:
            phrases[index] = kinds[kind]
        elif name in surface:
            phrases[index] = surface[name]
    return MappingProxyType(phrases)


_PHRASES: Final = _phrases()
_MOST: Final = 3


def explain(
    route: Route, p_reasoning: float, raw: NDArray[np.float32], pull: NDArray[np.float32], *, encoder: bool
) -> tuple[str, ...]:
    """The verdict in a sentence, then at most three features that speak for it.

    `raw` are the lexical features, `pull` what each adds to the lexical logit (positive: reasoning).
    """
    kind = "needs several dependent steps" if route is Route.REASONING else "can be answered directly"
    voice = "reads like an ask that" if encoder else "by its words alone, an ask that"
    sign = 1.0 if route is Route.REASONING else -1.0
    found: list[str] = []
    for index in np.argsort(-sign * pull, kind="stable").tolist():
        if sign * float(pull[index]) < 0.1 or len(found) == _MOST:
            break
        phrase = _PHRASES.get(index)
        if phrase is not None and float(raw[index]) > 0 and f"{phrase} (lexical)" not in found:
            found.append(f"{phrase} (lexical)")
    return (f"{voice} {kind}: p={p_reasoning:.2f}", *found)
