"""What the words of a text say: how many are new, and how far back each passage of three words stood before.

Fed in stretches of fixed length. Three words in a row make a gram; for each, the distance to where it last stood is
kept, in words. Two generations of grams and words are remembered, so memory is bounded. What must not come in: limits,
and what the figures mean.
"""

from __future__ import annotations

import re
from collections import deque
from itertools import chain
from typing import Final

GENERATION: Final = 2_048
"""Grams after which the older half is forgotten: some 4,000 words can be looked back, 20 KB of English."""

REMEMBERED: Final = 12
"""Stretches whose distances are kept, some 2,000 words."""

_SPACELESS: Final = 16
"""Characters a word from which a stretch has no words to speak of (Chinese, CSV, base64): signs are words then."""

_BATCH: Final = 48
"""Grams that are looked up before they are remembered: no shorter distance is told, and none is asked for."""

_WORD = re.compile(r"\S+")
_SAMPLE: Final = 4_096
_ROW: Final = 12
_SEARCHED: Final = 16_384

_SIGNS = re.compile(r"[A-Za-z0-9_]{1,12}|[^A-Za-z0-9_\s]")
"""Latin words in pieces, and each other character by itself."""


class WordWatch:
    """Follows one text. `words` counts those that were taken in."""

    __slots__ = (
        "_carried",
        "_known",
        "_last_two",
        "_older",
        "_once_known",
        "_recent",
        "distances",
        "fresh",
        "spaceless",
        "words",
    )

    def __init__(self) -> None:
        self.words = 0
        self.fresh = 1.0
        """The share of the last stretch's words that were not seen before: 0..1, different new words only."""
        self.spaceless = False
        self.distances: deque[list[int]] = deque(maxlen=REMEMBERED)
        """For each word of each stretch, how many words ago it and the two before it stood there; 0 for never."""
        self._carried = ""
        self._last_two: list[str] = []
        self._recent: dict[int, int] = {}
        self._older: dict[int, int] = {}
        self._known: set[str] = set()
        self._once_known: set[str] = set()

    def add(self, stretch: str) -> None:
        """Take in the next stretch. A word that is cut by its end is left to the next one."""
        text = self._carried + stretch
        words = text.split()
        self.spaceless = len(text) > _SPACELESS * len(words)
        if self.spaceless:
            words, self._carried = _SIGNS.findall(text), ""
        elif text[-1].isspace():
            self._carried = ""
        else:
            self._carried = words.pop()
        self._count_fresh(words)
        self._measure(words)

    def copied(self, stretches: int) -> float:
        """The share of the grams of the last so many stretches that stood in the text before, 0..1."""
        recent = list(self.distances)[-stretches:]
        total = sum(map(len, recent))
        return 1 - sum(distances.count(0) for distances in recent) / total if total else 0.0

    def back(self, stretches: int = REMEMBERED) -> list[int]:
        """The distances of the last so many stretches, in order."""
        return list(chain.from_iterable(list(self.distances)[-stretches:]))

    def _count_fresh(self, words: list[str]) -> None:
        distinct = set(words)
        self.fresh = len(distinct - self._known - self._once_known) / len(words) if words else 0.0
        self._known |= distinct
        if len(self._known) > GENERATION // 2:
            self._once_known, self._known = self._known, set()

    def _measure(self, words: list[str]) -> None:
        row = self._last_two + words
        grams = list(map(hash, zip(row, row[1:], row[2:], strict=False)))
        recent, older = self._recent, self._older
        start = self.words + len(words) - len(grams)
        found: list[int | None] = []
        for at in range(0, len(grams), _BATCH):
            batch = grams[at : at + _BATCH]
            found += map(recent.get, batch)
            recent.update(zip(batch, range(start + at, start + at + len(batch)), strict=True))
        places = [place or older.get(gram) for place, gram in zip(found, grams, strict=True)]
        distances = [place - last if last else 0 for place, last in enumerate(places, start)]
        if len(recent) > GENERATION:
            self._older, self._recent = recent, {}
        self.distances.append([0] * (len(words) - len(grams)) + distances)
        self.words += len(words)
        self._last_two = row[-2:]


def beginning(text: str) -> int:
    """Where in a text that ends in few words the use of only those began, in characters of the text.

    The words of the last `_SAMPLE` characters are taken for those of the loop; the text before is theirs as long as
    most words in a row are of them. At most `_SEARCHED` characters are gone back.
    """
    known = set(text[-_SAMPLE:].split())
    skipped = max(0, len(text) - _SEARCHED)
    words = [(found.start(), found.group() in known) for found in _WORD.finditer(text, skipped)]
    start, row = len(text), deque[bool](maxlen=_ROW)
    for place, is_known in reversed(words):
        row.append(is_known)
        if 2 * sum(row) < len(row):
            break
        start = place if is_known else start
    return start
