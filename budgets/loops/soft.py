"""Soft evidence: doubt in every line, sentences said again, the same answer given over and over.

Healthy thoughts have all three (a sentence echo alone is a false alarm on every second one), so none of it ends
anything: where two agree, the limits of the hard evidence get shorter. What must not come in: limits of hard evidence.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

LOOKED_AT: Final = 4_096
"""Characters at the end of a text that soft evidence is read from."""

LEASH: Final = 0.75
"""What is left of a limit where two kinds agree."""

_REMEMBERED: Final = 16_384
_SHORTEST: Final = 16
_HANDFUL: Final = 8
_ROUNDS: Final = 3
_LONGEST_SENTENCE: Final = 1_000
_HEDGES_A_KILOCHARACTER: Final = 5
_SAME_ANSWERS: Final = 4
_MUCH_ECHO: Final = 0.6

_ENDS = re.compile(r"[.!?。！？]\s+|\n+|[。！？]")
_HEDGES: Final = (
    "wait,", "wait.", "hmm", "actually,", "hold on", "let me re", "let me double", "let me check", "alternatively",
    "but what if", "on second thought", "等等", "不对",
)  # fmt: skip
_ANSWER = re.compile(
    r"(?:answer|result|total|solution) (?:is|equals|should be|must be)[:\s]*([^\s.,;]{1,24})|boxed\{([^}]{1,24})\}"
)


def echo(text: str) -> float:
    """The share of the last 4 KiB, 0..1, in sentences and lines that stood in the 16 KiB up to them before."""
    known: set[str] = set(_ENDS.split(text[-_REMEMBERED:-LOOKED_AT]))
    total = again = 0
    for sentence in _ENDS.split(text[-LOOKED_AT:]):
        if len(sentence) >= _SHORTEST:
            total += len(sentence)
            again += len(sentence) if sentence in known else 0
            known.add(sentence)
    return again / total if total else 0.0


def is_round(text: str) -> bool:
    """Whether a text is made of a handful of sentences or lines, each said several times."""
    sentences = [sentence for sentence in _ENDS.split(text)[1:-1] if sentence]
    return len(set(sentences)) <= _HANDFUL and len(sentences) >= _ROUNDS * _HANDFUL


def has_sentences(text: str) -> bool:
    """Whether a text has sentences or lines at all, and is not one long list."""
    return len(_ENDS.findall(text)) > len(text) // _LONGEST_SENTENCE


def leash(text: str) -> float:
    """What the soft evidence at the end of a text leaves of a limit: 1.0, or less where two kinds agree."""
    end = text[-LOOKED_AT:].lower()
    hedging = sum(map(end.count, _HEDGES)) >= _HEDGES_A_KILOCHARACTER * len(end) / 1_000
    answers = Counter(one or other for one, other in _ANSWER.findall(end))
    kinds = hedging + (max(answers.values(), default=0) >= _SAME_ANSWERS)
    return LEASH if kinds == 2 or (kinds == 1 and echo(text) >= _MUCH_ECHO) else 1.0
