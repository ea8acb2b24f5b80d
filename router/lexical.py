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
from router.counting import NAMES, counts
from router.lexicon import AUX_WORDS, CUES, WH_WORDS

_WORD: Final = re.compile(r"[^\W\d_]+")
_NUMBER: Final = re.compile(r"\d+")
_OPTION: Final = re.compile(r"[\n ][A-Ea-e1-5][.)] ")
_MATH: Final = re.compile(r"[=+*/^<>≤≥≠√∑∫∞≡∈∀∃→×÷°±$\\|]")
_CODE: Final = re.compile(r"[{}\[\];`_]")
_QUESTION: Final = re.compile("[?？؟;]")
_MONEY: Final = re.compile("[$€£¥₹%₽]")
_CLAUSE: Final = re.compile("[,，、،;；]")
_CAPITAL: Final = re.compile("[A-Z]")
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
    *NAMES,
)
"""Names of the features, in the order of the vector."""


Phrases = tuple[tuple[str, int], ...]
_NONE: Final[Phrases] = ()


def _compile_cues() -> tuple[dict[str, int], dict[str, Phrases], Phrases, Phrases]:
    """Each cue with the index of its category: whole words; phrases by their first word; the other phrases, first those
    in ASCII, then all.

    A phrase in a script that spaces its words begins where a word does: it can only be in a text that has its first
    word, and most texts have none of them.
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
    opened: dict[str, Phrases] = {}
    scanned: list[tuple[str, int]] = []
    for phrase, index in phrases.items():
        first = _WORD.match(phrase, 1) if phrase[0] == " " else None
        if first is None or first.end() == len(phrase):
            scanned.append((phrase, index))
        else:
            opened[first[0]] = (*opened.get(first[0], _NONE), (phrase, index))
    return words, opened, tuple(item for item in scanned if item[0].isascii()), tuple(scanned)


def _spaces_words(cue: str) -> bool:
    """Latin, Greek and Cyrillic, Hebrew and Arabic: scripts whose words `_WORD` finds whole.

    The rest joins its words, or writes vowels with marks that no letter class holds.
    """
    return all(letter < "\u0700" or "\u1e00" <= letter < "\u2000" for letter in cue)


_WORDS, _OPENED, _ASCII_SCANNED, _SCANNED = _compile_cues()


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
        *counts(text, words, _NUMBER.findall(text)),
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
    spaced = f" {lower}".replace("\n", " ")
    end = len(spaced) - _EDGE_CHARS
    opened = [phrase for word in _OPENED.keys() & words for phrase in _OPENED[word]]
    for phrase, index in (*opened, *(_ASCII_SCANNED if lower.isascii() else _SCANNED)):
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
    is_ascii = text.isascii()
    foreign = 0 if is_ascii else sum(letter >= "\u0370" for letter in text)
    capitals = len(_CAPITAL.findall(text)) if is_ascii else sum(map(str.isupper, text))
    earlier = _earlier(ask.earlier)
    return [
        math.log1p(len(ask.text)) / 4,
        math.log1p(len(words)) / 2,
        min(letters / max(len(words), 1), 20.0) / 8,
        sum(map(len, numbers)) / size * 4,
        math.log1p(len(numbers)),
        math.log1p(max(map(len, numbers), default=0)),
        math.log1p(len(_QUESTION.findall(text))),
        float(bool(stripped) and _QUESTION.fullmatch(stripped[-1]) is not None),
        float(first in WH_WORDS),
        float(first in AUX_WORDS),
        math.log1p(text.count("\n")) / 2,
        math.log1p(len(_CODE.findall(text))) / 2,
        math.log1p(len(_MATH.findall(text))) / 2,
        math.log1p(len(_OPTION.findall(text))),
        math.log1p(len(_MONEY.findall(text))),
        float('"' in text or "“" in text or "「" in text or ":" in text or "：" in text),
        capitals / size * 4,
        foreign / size * 2,
        math.log1p(len(_CLAUSE.findall(text))) / 2,
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
