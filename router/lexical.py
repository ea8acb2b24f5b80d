"""Cheap features of an ask: counts of cues and of surface marks, in less than half a millisecond.

They stand beside the embedding, and alone when there is no time for it. Every pattern is a single character class or
a plain substring search over a clipped text, so the time is linear and bounded whatever is pasted. No verdicts here.
"""

import math
import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.ask import Ask
from router.clip import clip_text
from router.lexicon import AUX_WORDS, CUES, WH_WORDS

_WORD: Final = re.compile(r"[^\W\d_]+")
_NUMBER: Final = re.compile(r"\d+")
_OPTION: Final = re.compile(r"[\n ][A-Ea-e1-5][.)] ")
_MATH: Final = frozenset("=+*/^<>≤≥≠√∑∫∞≡∈∀∃→×÷°±$\\|")
_CODE: Final = frozenset("{}[];`_")
_QUESTION: Final = frozenset("?？؟;")
_MONEY: Final = frozenset("$€£¥₹%₽")
_EDGE_CHARS: Final = 70
_EDGE_WORDS: Final = 12
_EARLIER_CHARS: Final = 240

CATEGORIES: Final = tuple(CUES)
_EDGED: Final = ("prove", "compute", "debug", "plan", "decide", "transform", "recall", "create")
_HARD: Final = ("prove", "compute", "debug", "plan", "decide")
_SOFT: Final = ("transform", "recall", "create", "social")
_SURFACE: Final = (
    "log chars",
    "log words",
    "word length",
    "digit share",
    "log numbers",
    "largest number",
    "question marks",
    "ends in a question",
    "opens with wh",
    "opens with auxiliary",
    "log lines",
    "code marks",
    "maths marks",
    "options",
    "money or percent",
    "quoted or after a colon",
    "capitals",
    "non-latin share",
    "clauses",
    "has earlier turn",
    "short follow-up",
    "earlier hard cues",
    "earlier soft cues",
)
FEATURES: Final = (
    *_SURFACE,
    *CATEGORIES,
    *(f"{name} at the head" for name in _EDGED),
    *(f"{name} at the tail" for name in _EDGED),
)
"""Names of the features, in the order of the vector."""


Phrases = tuple[tuple[str, int], ...]


def _compile_cues() -> tuple[dict[str, int], Phrases, Phrases]:
    """Whole words, ASCII phrases and all phrases, each with the index of its category.

    A phrase in a script that spaces its words begins where a word does.
    """
    words: dict[str, int] = {}
    phrases: dict[str, int] = {}
    for index, cues in enumerate(CUES.values()):
        for cue in cues.split("|"):
            if not _spaces_words(cue):
                phrases.setdefault(cue, index)
            elif _WORD.fullmatch(cue):
                words.setdefault(cue, index)
            else:
                phrases.setdefault(f" {cue}", index)
    ascii_phrases = tuple(item for item in phrases.items() if item[0].isascii())
    return words, ascii_phrases, tuple(phrases.items())


def _spaces_words(cue: str) -> bool:
    """Latin, Greek and Cyrillic, Hebrew and Arabic: scripts whose words `_WORD` finds whole.

    The rest joins its words, or writes vowels with marks that no letter class holds.
    """
    return all(letter < "\u0700" or "\u1e00" <= letter < "\u2000" for letter in cue)


_WORDS, _ASCII_PHRASES, _ALL_PHRASES = _compile_cues()


def features(ask: Ask) -> NDArray[np.float32]:
    """The vector of an ask in the order of `FEATURES`; entries are 0 or more, mostly logarithms of counts below 4."""
    text = clip_text(ask.text)
    lower = text.lower()
    words = _WORD.findall(lower)
    whole, head, tail = _cues(lower, words)
    surface = _surface(ask, text, lower, words)
    rows = [
        *surface,
        *(math.log1p(count) for count in whole),
        *(float(head[index]) for index in _EDGED_INDEXES),
        *(float(tail[index]) for index in _EDGED_INDEXES),
    ]
    return np.array(rows, dtype=np.float32)


_EDGED_INDEXES: Final = tuple(CATEGORIES.index(name) for name in _EDGED)
_HARD_INDEXES: Final = tuple(CATEGORIES.index(name) for name in _HARD)
_SOFT_INDEXES: Final = tuple(CATEGORIES.index(name) for name in _SOFT)


def _cues(lower: str, words: list[str]) -> tuple[list[int], list[bool], list[bool]]:
    """For each category: cues in the whole text, and whether one stands at the head or at the tail."""
    whole = [0] * len(CATEGORIES)
    head = [False] * len(CATEGORIES)
    tail = [False] * len(CATEGORIES)
    last = len(words) - _EDGE_WORDS
    for position, word in enumerate(words):
        index = _WORDS.get(word)
        if index is not None:
            whole[index] += 1
            head[index] = head[index] or position < _EDGE_WORDS
            tail[index] = tail[index] or position >= last
    phrases = _ASCII_PHRASES if lower.isascii() else _ALL_PHRASES
    spaced = f" {lower}".replace("\n", " ")
    end = len(spaced) - _EDGE_CHARS
    for phrase, index in phrases:
        start = spaced.find(phrase)
        if start >= 0:
            whole[index] += 1
            head[index] = head[index] or start < _EDGE_CHARS
            tail[index] = tail[index] or spaced.rfind(phrase) >= end
    return whole, head, tail


def _surface(ask: Ask, text: str, lower: str, words: list[str]) -> list[float]:
    size = max(len(text), 1)
    numbers = _NUMBER.findall(text)
    letters = sum(map(len, words))
    first = words[0] if words else ""
    stripped = text.rstrip()
    foreign = 0 if text.isascii() else sum(letter >= "\u0370" for letter in text)
    earlier = _earlier(ask.earlier)
    return [
        math.log1p(len(ask.text)) / 4,
        math.log1p(len(words)) / 2,
        min(letters / max(len(words), 1), 20.0) / 8,
        sum(map(len, numbers)) / size * 4,
        math.log1p(len(numbers)),
        math.log1p(max(map(len, numbers), default=0)),
        math.log1p(sum(text.count(mark) for mark in _QUESTION)),
        float(stripped[-1:] in _QUESTION and bool(stripped)),
        float(first in WH_WORDS),
        float(first in AUX_WORDS),
        math.log1p(text.count("\n")) / 2,
        math.log1p(sum(text.count(mark) for mark in _CODE)) / 2,
        math.log1p(sum(text.count(mark) for mark in _MATH)) / 2,
        math.log1p(len(_OPTION.findall(text))),
        math.log1p(sum(text.count(mark) for mark in _MONEY)),
        float('"' in text or "“" in text or "「" in text or ":" in text or "：" in text),
        sum(map(str.isupper, text)) / size * 4,
        foreign / size * 2,
        math.log1p(sum(text.count(mark) for mark in ",，、،;；")) / 2,
        float(bool(ask.earlier)),
        float(bool(ask.earlier) and len(words) <= 6 and len(lower) < 48),
        *earlier,
    ]


def _earlier(earlier: str) -> tuple[float, float]:
    """Hard and soft cues of the turn before, whose weight a short follow-up inherits."""
    if not earlier:
        return 0.0, 0.0
    lower = clip_text(earlier, _EARLIER_CHARS // 2, _EARLIER_CHARS // 2).lower()
    whole, _, _ = _cues(lower, _WORD.findall(lower))
    hard = sum(whole[index] for index in _HARD_INDEXES)
    soft = sum(whole[index] for index in _SOFT_INDEXES)
    return math.log1p(hard), math.log1p(soft)
