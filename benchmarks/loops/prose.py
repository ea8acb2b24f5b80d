"""Healthy prose without end, from a seed: what stands before a loop, and between the structures that are no loops.

A word chain over the language reference that ships with Python (`pydoc_data.topics`), dressed as a thought: real words
in real order, with the statistics of English, and never the same passage twice. Its topics are split in two halves, so
that what was tuned on one can be reported on the other. What must not come in: loops.
"""

from __future__ import annotations

import re
from collections import defaultdict
from enum import StrEnum
from functools import cache
from pydoc_data.topics import topics
from random import Random


class Half(StrEnum):
    TUNE = "tune"
    REPORT = "report"


OPENINGS = (
    "Okay, so", "Hmm,", "Let me think.", "Wait,", "So", "Right, and", "But", "Actually,", "First,", "Now",
    "Then again,", "Alternatively,", "I should check whether", "Let me see:", "The question says that", "Maybe",
    "Therefore", "In other words,",
)  # fmt: skip

_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*[.,;:?!]?")
_Pair = tuple[str, str]


@cache
def _chain(half: Half) -> tuple[dict[_Pair, list[str]], list[_Pair]]:
    """What follows two words in a row, and the pairs that end a sentence."""
    names = sorted(topics)
    words = [word for name in names[half is Half.REPORT :: 2] for word in _WORD.findall(topics[name])]
    chain: dict[_Pair, list[str]] = defaultdict(list)
    for one, two, three in zip(words, words[1:], words[2:], strict=False):
        chain[one, two].append(three)
    return dict(chain), sorted(pair for pair in chain if pair[0][-1] in ".?!")


@cache
def _vocabulary(half: Half) -> tuple[str, ...]:
    chain, _ = _chain(half)
    plain = {word for pair in chain for word in pair if word.isalpha() and word.islower() and len(word) > 3}
    return tuple(sorted(plain))


class Source(Random):
    """A source of chance that can also speak, in the words of one half."""

    def __init__(self, seed: int, half: Half) -> None:
        super().__init__(seed)
        self.half = half

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Plain lower-case words of four letters and more."""
        return _vocabulary(self.half)

    def word(self) -> str:
        return self.choice(self.vocabulary)

    def words(self, count: int) -> list[str]:
        """Different words."""
        return self.sample(self.vocabulary, count)

    def sentence(self) -> str:
        chain, starts = _chain(self.half)
        _, *said = one, two = self.choice(starts)
        for _ in range(self.randrange(8, 40)):
            following = chain.get((one, two))
            if following is None:
                break
            one, two = two, self.choice(following)
            said.append(two)
            if two[-1] in ".?!":
                break
        told = " ".join(said)
        if self.random() < 0.25:
            told = f"{self.choice(OPENINGS)} {told[0].lower()}{told[1:]}"
        return told if told[-1] in ".?!" else told.rstrip(",;:") + "."

    def paragraph(self, sentences: int | None = None) -> str:
        return " ".join(self.sentence() for _ in range(sentences or self.randrange(2, 7)))

    def prose(self, size: int) -> str:
        """Paragraphs of at least `size` characters in all, ending with a blank line."""
        told: list[str] = []
        length = 0
        while length < size:
            told.append(self.paragraph() + "\n\n")
            length += len(told[-1])
        return "".join(told)

    def text(self, least: int, most: int) -> str:
        """One stretch of prose of about `least` to `most` characters, without a line end."""
        size = self.randrange(least, most)
        told = self.paragraph()
        while len(told) < size:
            told += " " + self.sentence()
        return told[: told.rfind(" ", 0, max(size, 8)) + 1].rstrip() + "."
