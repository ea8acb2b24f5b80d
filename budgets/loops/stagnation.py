"""Text that goes on and says nothing new though no two stretches need be equal: judged a stretch at a time.

Two judgements. *Density*: the last 4 or 16 KiB compress to next to nothing, for several stretches in a row. *Near
copies*: one passage comes again and again with words changed. What must not come in: exact copies, floods, and how the
figures are measured.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from budgets.loops import limits
from budgets.loops.alignment import Alignment, align, core, longest_new
from budgets.loops.density import STRETCH, Density
from budgets.loops.finding import Kind
from budgets.loops.rope import STRUCTURE_FACTOR, is_structured
from budgets.loops.soft import LOOKED_AT, echo, has_sentences, is_round, leash
from budgets.loops.verdict import Verdict
from budgets.loops.words import WordWatch, beginning

_WINDOW: Final = LOOKED_AT // STRETCH
"""Stretches whose words are judged together, the same 4 KiB as the small window of the density."""


class Stagnation:
    """Follows one text. `copied`, `fresh` and `compressed` are those of the last stretch, as `Signals` has them."""

    __slots__ = (
        "_dense",
        "_density",
        "_fresh",
        "_near",
        "_rope",
        "_since",
        "_words",
        "compressed",
        "copied",
        "suspicious",
    )

    def __init__(self, rope: float) -> None:
        self.suspicious = False
        """The last stretch looked like a loop."""
        self.compressed: float | None = None
        self.copied = 0.0
        self._rope = rope
        self._words = WordWatch()
        self._density = Density()
        self._fresh: deque[float] = deque(maxlen=_WINDOW)
        self._dense = 0
        self._near = 0
        self._since: tuple[int, int] | None = None
        """Words and characters before the first of the stretches in a row that are mostly copied."""

    @property
    def fresh(self) -> float:
        return self._words.fresh

    def add(self, text: str, seen: int) -> Verdict | None:
        """Judge the last `STRETCH` characters of `text`, the end of all `seen` characters."""
        stretch, before = text[-STRETCH:], self._words.words
        self._density.add(stretch)
        self._words.add(stretch)
        self._fresh.append(self._words.fresh)
        self.copied = self._words.copied(1)
        if self.copied < limits.COPIED_STRETCH:
            self._since = None
        elif self._since is None:
            self._since = (before, seen - STRETCH)
        self._dense = self._dense + 1 if self._is_dense(text) else 0
        near = self._near_copies(text)
        self._near = self._near + 1 if near else 0
        self.suspicious = self._dense > 0 or near is not None
        return self._verdict(near, text, seen) if self.suspicious else None

    def _verdict(self, near: Alignment | None, text: str, seen: int) -> Verdict | None:
        rope = self._rope * leash(text)
        if near and self._near >= max(1, int(limits.NEAR_CHECKS * rope)):
            return self._near_verdict(near, text, seen)
        if self._dense >= max(1, int(limits.DENSE_CHECKS * rope)):
            return self._dense_verdict(text, seen)
        return None

    def _near_verdict(self, near: Alignment, text: str, seen: int) -> Verdict:
        words, place = self._since or (0, 0)
        period = max(1, round(near.period * (seen - place) / (self._words.words - words)))
        onset = max(0, place - period)
        copies = (seen - onset) / period
        reason = f"{copies:.1f} near copies of about {period} characters, {near.held:.0%} of it copied"
        unit = text[-period:]
        return Verdict(
            Kind.NEAR_COPIES, onset, max(place, onset), period, copies, round((1 + near.held) / 2, 3), reason, unit
        )

    def _dense_verdict(self, text: str, seen: int) -> Verdict:
        onset = seen - len(text) + beginning(text)
        compressed = self.compressed or 0.0
        reason = (
            f"4 KiB compress to {compressed:.1%}, and the {seen - onset} characters since onset are made of their words"
        )
        unit = text[-STRETCH:]
        return Verdict(Kind.LOW_INFORMATION, onset, onset, 0, 0, round(1 - compressed, 3), reason, unit)

    # --- density ---------------------------------------------------------------------------------------------------

    def _is_dense(self, text: str) -> bool:
        self.compressed = None
        fresh = sum(self._fresh) / len(self._fresh)
        if not self._density.small_is_full or fresh > limits.FRESH_ENOUGH:
            return False
        self.compressed = compressed = self._density.small()
        if compressed >= limits.SMALL_STALE:
            return False
        most = self._most_for_density(text, fresh, compressed)
        return compressed < most and (compressed < most * STRUCTURE_FACTOR or not is_structured(text[-LOOKED_AT:]))

    def _most_for_density(self, text: str, fresh: float, compressed: float) -> float:
        """The compressed share of 4 KiB below which text like this says nothing."""
        if self._density.digits() >= limits.DIGITS or self._density.letters() < limits.LETTERS:
            is_handful = compressed < limits.SMALL_ECHOED and is_round(text[-LOOKED_AT:])
            return limits.SMALL_ECHOED if is_handful else limits.SMALL_ANY
        if self._words.spaceless:
            return limits.SMALL_ECHOED
        if _is_salad(text[-LOOKED_AT:]):
            return limits.SMALL_SALAD
        if fresh >= limits.STALE or echo(text) < limits.ECHO:
            return limits.SMALL_PLAIN
        if fresh >= limits.NOTHING_NEW or not self._density.large_is_full:
            return limits.SMALL_ECHOED
        return limits.SMALL_STALE if self._density.large() < limits.LARGE_ECHOED else limits.SMALL_ECHOED

    # --- near copies -----------------------------------------------------------------------------------------------

    def _near_copies(self, text: str) -> Alignment | None:
        """The alignment of a near-copy loop, None where there is none."""
        if self._since is None or self._words.copied(_WINDOW) < limits.COPIED:
            return None
        copied = self._words.words - self._since[0]
        if copied < limits.LEAST_WORDS or self._density.digits() >= limits.NUMBERS:
            return None
        near = self._align()
        if near is None or copied < 2 * near.period:
            return None
        if near.held >= limits.UNCHANGED and max(self._fresh) < limits.NOTHING_NEW:
            return near if copied >= 3 * near.period else None
        prose = self._density.digits() < limits.PROSE_DIGITS and self._density.letters() >= limits.PROSE_LETTERS
        slack = limits.PROSE_SLACK if prose else 1.0
        if near.once < limits.NEAR_ONCE * slack or near.held < limits.NEAR_HELD * slack:
            return None
        if near.twice < limits.NEAR_TWICE or near.thrice < limits.NEAR_THRICE or is_structured(text[-LOOKED_AT:]):
            return None
        if longest_new(self._words.back(_WINDOW)) > limits.NEW_IN_A_ROW:
            return None
        return near if core(self._words.back(), near.period) <= limits.NEAR_CORE else None

    def _align(self) -> Alignment | None:
        """By the last 4 KiB, or by all that is remembered where the period is too long for that."""
        recent = self._words.back(_WINDOW)
        near = align(recent)
        return align(self._words.back()) if near and 2 * near.period > len(recent) else near


def _is_salad(text: str) -> bool:
    """Whether a handful of words makes up a text, or a few more a list of them without a sentence."""
    words = text.split()
    different = len(set(words))
    if different > limits.LIST_WORDS or len(text) < limits.WORD_LENGTH * len(words):
        return False
    return different <= limits.SALAD_WORDS or not has_sentences(text)
