"""Whatever the text and however it is cut: the same verdict at the same character, and never an exception."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.loops.negatives import negatives
from benchmarks.loops.shapes import shapes
from budgets.loops import LoopDetector, LoopState
from budgets.loops.detector import BLOCK
from budgets.loops.limits import exact_run
from budgets.loops.pieces import split_pieces

SAMPLES = [make(Random(5), 7_000).text for make in shapes().values()] + [
    negatives()[kind](Random(5), 6_000) for kind in ("prose", "DP table", "song with a refrain", "encoded payloads")
]

texts = st.one_of(
    st.sampled_from(SAMPLES),
    st.text(max_size=400).map(lambda unit: unit * 20),
    st.lists(st.text(alphabet="ab \n.0|-😀好", max_size=40), max_size=60).map("".join),
)


def states_by_character(text: str, sizes: list[int]) -> dict[int, LoopState]:
    """The state after each piece, by how many characters had been fed."""
    detector, at, states = LoopDetector(), 0, dict[int, LoopState]()
    turn = 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        states[min(at + size, len(text))] = detector.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    return states


@settings(max_examples=120, deadline=None)
@given(texts, st.lists(st.integers(1, 300), min_size=1, max_size=8))
def test_a_state_depends_on_the_characters_alone(text: str, sizes: list[int]) -> None:
    one_by_one = states_by_character(text, [1])
    for at, state in states_by_character(text, sizes).items():
        assert state is one_by_one[at]


@settings(max_examples=60, deadline=None)
@given(texts, st.lists(st.integers(0, 3_000), min_size=1, max_size=8))
def test_a_finding_is_the_same_under_any_chunking(text: str, sizes: list[int]) -> None:
    whole, cut = LoopDetector(), LoopDetector()
    whole.feed(text)
    at = 0
    for size in sizes:
        cut.feed(text[at : at + size])
        at += size
    cut.feed(text[at:])
    assert cut.finding == whole.finding
    assert cut.seen == whole.seen
    assert cut.signals == whole.signals


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(), max_size=2_000), st.integers(1, 30))
def test_no_text_is_too_odd(text: str, times: int) -> None:
    detector = LoopDetector()
    detector.feed(text * times)
    finding = detector.finding
    if finding is not None:
        assert 0 <= finding.onset <= finding.keep <= finding.at <= len(text) * times
        assert 0 <= finding.confidence <= 1
        assert finding.period >= 0


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="abcdefgh ,.", min_size=17, max_size=900).filter(lambda unit: any(map(str.isalpha, unit))))
def test_any_unit_is_found_within_its_limit(unit: str) -> None:
    detector = LoopDetector()
    text = "So. " + unit * 60 + unit * (4_000 // len(unit))
    assert detector.feed(text) is LoopState.LOOP
    finding = detector.finding
    assert finding is not None
    assert finding.at <= 4 + len(unit) + max(exact_run(len(unit), packed=False), 1_300) + BLOCK


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=300))
def test_pieces_are_the_text(text: str) -> None:
    pieces = split_pieces(text)
    assert "".join(pieces) == text
    assert all(pieces)
