"""Whether a text goes through the same passage again and again with words changed, by how far back its grams stood.

In a near-copy loop most grams stood one period ago, or two or three where the last copies had another word there: words
change and change back, at any place. A template (a record, a test, a case of many) changes at the same places each
time, to something new. So three figures tell them apart: how much is copied at the period and its multiples, how much
of it comes back from before the last copy, and which share of the passage never changes. What must not come in: limits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_SHORTEST: Final = 48
"""Words a period must have: shorter passages are found by their density."""

_BIN: Final = 12
_WEAKEST: Final = 0.08
"""The share of grams that two neighbouring bins must hold to be worth a closer look."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """`period` in words; `once`, `twice`, `thrice`: shares of grams that stood so many periods ago, 0..1."""

    period: int
    once: float
    twice: float
    thrice: float

    @property
    def held(self) -> float:
        return self.once + self.twice + self.thrice


def align(distances: Sequence[int]) -> Alignment | None:
    """The strongest period among distances, None where none stands out."""
    counted = Counter(distances)
    bins: dict[int, int] = {}
    for distance, times in counted.items():
        if distance >= _SHORTEST:
            bins[distance // _BIN] = bins.get(distance // _BIN, 0) + times
    if not bins:
        return None
    best = max(bins, key=lambda place: bins[place] + bins.get(place + 1, 0))
    if bins[best] + bins.get(best + 1, 0) < _WEAKEST * len(distances):
        return None
    period = (best + 1) * _BIN
    shares = [0, 0, 0]
    for distance, times in counted.items():
        multiple = round(distance / period)
        if 1 <= multiple <= 3 and abs(distance - multiple * period) <= _tolerance(period) * multiple**0.5:
            shares[multiple - 1] += times
    once, twice, thrice = (share / len(distances) for share in shares)
    return Alignment(period, once, twice, thrice)


def core(distances: Sequence[int], period: int) -> float:
    """The share of a passage, 0..1, that none of the last three copies changed.

    `distances` end with the text; those of three periods are looked at, or as many as there are. A gram that stood
    about one period ago was not changed; one that stands twice within a copy says nothing.
    """
    places: list[int] = []
    changed: set[int] = set()
    for at, distance in enumerate(distances[max(0, len(distances) - 3 * period) :]):
        if 2 * distance >= period and 2 * distance < 3 * period:
            places.append(places[at - distance] if at >= distance else at)
            continue
        places.append(places[-1] + 1 if places else 0)
        if distance == 0 or 2 * distance >= period:
            changed.add(places[-1])
    return 1 - len(changed) / max(1, len(set(places)))


def longest_new(distances: Sequence[int]) -> int:
    """The most words in a row that stand in no passage of before."""
    return max(map(len, bytes(map(bool, distances)).split(b"\1")))


def _tolerance(period: int) -> float:
    """Words by which a copy may be longer or shorter than the last."""
    return max(14.0, 0.12 * period)
