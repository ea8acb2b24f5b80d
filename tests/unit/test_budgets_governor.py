"""Counting and ruling: tokens by event, by what the engine says, by characters; the cap; the split of usage."""

from __future__ import annotations

import pytest

from budgets import Governor, Meter, Ruling, split_usage


def meter(*pieces: tuple[int, int | None]) -> Meter:
    counted = Meter()
    for characters, tokens in pieces:
        counted.add(characters, tokens)
    return counted


@pytest.mark.parametrize(
    ("pieces", "tokens"),
    [
        ([], 0),
        ([(4, None)] * 5, 5),
        ([(8, None)] * 5, 5),
        ([(40, None)] * 5, 50),
        ([(40, 7)] * 5, 35),
        ([(4, 2), (4, 0)], 2),
        ([(0, None)], 1),
    ],
)
def test_a_meter_counts_as_exactly_as_it_is_told(pieces: list[tuple[int, int | None]], tokens: int) -> None:
    assert meter(*pieces).tokens == tokens


def test_meters_add_up() -> None:
    assert meter((4, 1)) + meter((6, 2), (1, None)) == meter((4, 1), (6, 2), (1, None))


def rulings(governor: Governor, count: int, tokens: int | None = None) -> list[Ruling | None]:
    return [governor.watch_reasoning("word", tokens) for _ in range(count)]


def test_the_last_token_allowed_is_the_one_that_reaches_the_cap() -> None:
    assert rulings(Governor(3), 3) == [None, None, Ruling.CAP]
    assert rulings(Governor(1), 1) == [Ruling.CAP]
    assert rulings(Governor(6), 3, tokens=2) == [None, None, Ruling.CAP]


def test_without_a_cap_nothing_is_ruled() -> None:
    assert rulings(Governor(None), 1_000) == [None] * 1_000
    assert rulings(Governor(None, native=True), 10) == [None] * 10


@pytest.mark.parametrize(("cap", "granted"), [(4, 36), (1_000, 1_050)])
def test_an_engines_own_cap_has_a_slack(cap: int, granted: int) -> None:
    assert rulings(Governor(cap, native=True), granted)[-2:] == [None, Ruling.CAP]


def test_the_answer_is_counted_and_never_ruled() -> None:
    governor = Governor(1)
    for _ in range(5):
        governor.watch_answer("word", None)
    assert (governor.answer.tokens, governor.reasoning.tokens) == (5, 0)


THOUGHT, ANSWER, NOTHING = meter(*[(4, None)] * 10), meter(*[(4, None)] * 5), Meter()


@pytest.mark.parametrize(
    ("completion", "reasoning", "answer", "split"),
    [
        (None, THOUGHT, ANSWER, (15, 10)),
        (None, NOTHING, NOTHING, (0, 0)),
        (15, THOUGHT, ANSWER, (15, 10)),
        (18, THOUGHT, ANSWER, (18, 10)),
        (12, THOUGHT, NOTHING, (12, 12)),
        (7, NOTHING, ANSWER, (7, 0)),
        (7, NOTHING, NOTHING, (7, 0)),
        (150, THOUGHT, ANSWER, (150, 100)),
        (9, THOUGHT, ANSWER, (9, 6)),
        (0, THOUGHT, ANSWER, (0, 0)),
    ],
)
def test_usage_is_the_engines_total_split_by_what_was_counted(
    completion: int | None, reasoning: Meter, answer: Meter, split: tuple[int, int]
) -> None:
    assert split_usage(completion, reasoning, answer) == split
