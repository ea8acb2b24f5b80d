"""What a problem counts: each kind is found, in several languages."""

import math

import pytest

from router import Ask
from router.counting import KINDS, NAMES, counts
from router.lexical import FEATURES, features


def count(name: str, text: str) -> int:
    """Of the vector's entry, undone: how many were counted."""
    return round(math.expm1(float(features(Ask(text))[FEATURES.index(name)])))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("quantities", "Tom has 3 apples, twice as many pears and a dozen plums.", 3),
        ("numbers with spelled ones", "Tom has 3 apples, twice as many pears and a dozen plums.", 2),
        ("distinct numbers", "12 of 12, and 7", 2),
        ("sentences", "He came. Who? 3.5 metres! Done", 3),
        ("sentences", "他来了。几点？", 1),
        ("rates", "Each box holds 4, per shelf 6", 2),
        ("comparisons", "three more than half as many", 3),
        ("totals", "how many are left in total", 2),
        ("spans of time", "two hours a day, seven days a week", 4),
        ("kinds of time", "two hours, then three hours", 1),
        ("conditions", "if he sells them and then buys", 3),
        ("fractions and decimals", "3/4 of 2.5 litres", 2),
        ("parts", "Die Hälfte und ein Drittel", 2),
        ("rates", "cada caja", 1),
        ("totals", "сколько всего осталось", 2),
    ],
)
def test_counts(name: str, text: str, expected: int) -> None:
    assert count(name, text) == expected


def test_names_and_counts_agree() -> None:
    assert len(counts("", [], [])) == len(NAMES) == len(set(NAMES))
    assert not set(NAMES) - set(FEATURES)


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_single_lower_case_words_and_stand_once(kind: str) -> None:
    words = KINDS[kind].split("|")
    assert len(words) == len(set(words)), [word for word in words if words.count(word) > 1]
    assert all(word.isalpha() and word == word.lower() for word in words)
