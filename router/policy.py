"""What moves a calibrated probability before it becomes a route: history, system prompt, unknown scripts.

Each is bounded and says in words what it did. Nothing here looks at a model's insides, and nothing decides alone.
"""

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from unicodedata import name

from router.lexicon import SYSTEM_CUES

RELEASE: Final = 0.55
"""What is left of the last turn's probability for a short follow-up: raised at once, released slowly."""
_RELEASE_FLOOR: Final = 0.2
"""A follow-up under this probability is plainly simple, and nothing of the past holds it up."""
_SHORT: Final = 60
"""Characters up to which a turn can be a follow-up that leans on its past; a longer one states its own topic."""
HELD_UP: Final = "a follow-up to a turn that needed reasoning"
_PRIOR: Final = 0.5
"""Most that a system prompt may move the logit, either way."""
_UNKNOWN_LOGIT: Final = 1.0
"""How far a script that no training row was written in leans to reasoning."""
_KNOWN_SCRIPTS: Final = frozenset(
    {"LATIN", "CYRILLIC", "GREEK", "ARABIC", "HEBREW", "DEVANAGARI", "BENGALI", "TAMIL", "THAI", "HANGUL", "CJK"}
    | {"HIRAGANA", "KATAKANA", "FULLWIDTH", "IDEOGRAPHIC", "HALFWIDTH", "MATHEMATICAL", "SUPERSCRIPT", "SUBSCRIPT"}
)
_WORD: Final = re.compile(r"[a-z]+")
_HARD_SYSTEM: Final = frozenset(SYSTEM_CUES["hard"].split("|"))
_SOFT_SYSTEM: Final = frozenset(SYSTEM_CUES["soft"].split("|"))


@dataclass(frozen=True, slots=True)
class Moved:
    """A probability after policy, and what moved it."""

    p: float
    reasons: tuple[str, ...] = ()


def can_lean(text: str, earlier: str) -> bool:
    """May the turn before hold this one up?"""
    return bool(earlier) and len(text) <= _SHORT


def move(p: float, *, before: float | None, system: str, text: str) -> Moved:
    """`before`: the probability of the turn before, where `can_lean`. All probabilities 0..1."""
    reasons: list[str] = []
    shift = system_shift(system) if system else 0.0
    if is_unknown_script(text):
        shift += _UNKNOWN_LOGIT
        reasons.append("a script the classifier was not trained on: leans to reasoning")
    moved = _shift(p, shift) if shift else p
    if system and abs(moved - p) >= 0.02 and not reasons:
        reasons.append("the system prompt speaks for reasoning" if shift > 0 else "the system prompt speaks for less")
    if before is not None and moved >= _RELEASE_FLOOR and before * RELEASE > moved:
        moved = before * RELEASE
        reasons.append(HELD_UP)
    return Moved(moved, tuple(reasons))


@lru_cache(maxsize=256)
def system_shift(system: str) -> float:
    """What a system prompt adds to the logit, at most half a unit either way. Remembered: it seldom changes."""
    words = set(_WORD.findall(system.lower()))
    return max(-_PRIOR, min(_PRIOR, 0.25 * (len(words & _HARD_SYSTEM) - len(words & _SOFT_SYSTEM))))


def is_unknown_script(text: str) -> bool:
    """More than half of the letters are of a script that no training row has. Looks at 64 letters at most."""
    if text.isascii():
        return False
    letters = [letter for letter in text[:256] if letter.isalpha()][:64]
    return sum(_script(letter) not in _KNOWN_SCRIPTS for letter in letters) * 2 > len(letters) > 0


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    return name(letter, "?").split(" ")[0].split("-")[0]


def _shift(p: float, shift: float) -> float:
    bounded = min(max(p, 1e-6), 1 - 1e-6)
    return 1.0 / (1.0 + math.exp(-(math.log(bounded / (1 - bounded)) + shift)))
