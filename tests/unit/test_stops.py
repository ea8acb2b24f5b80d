"""Stop strings on the answer alone: the same cut under any split, nothing held back longer than need be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.stops import StopMatcher


def run(pieces: list[str], *stops: str) -> tuple[str, str | None]:
    matcher, shown = StopMatcher(stops), ""
    for piece in pieces:
        text, stop = matcher.feed(piece)
        shown += text
        if stop is not None:
            return shown, stop
    return shown + matcher.flush(), None


@pytest.mark.parametrize(
    ("text", "stops", "shown", "stop"),
    [
        ("one END two", ("END",), "one ", "END"),
        ("one EN two", ("END",), "one EN two", None),
        ("one E", ("END",), "one E", None),
        ("END", ("END",), "", "END"),
        ("aab", ("ab",), "a", "ab"),
        ("xaaab", ("aab",), "xa", "aab"),
        ("abcd", ("bcd", "cd"), "a", "bcd"),
        ("abcd", ("cd", "bc"), "a", "bc"),
        ("zwei, drei", ("drei", ","), "zwei", ","),
        ("日本語", ("本",), "日", "本"),
    ],
)
def test_the_answer_ends_before_the_stop(text: str, stops: tuple[str, ...], shown: str, stop: str | None) -> None:
    assert run([text], *stops) == run(list(text), *stops) == (shown, stop)


def test_only_what_may_become_a_stop_is_held_back() -> None:
    matcher = StopMatcher(("\n\nUser:",))
    assert matcher.feed("Hello\n") == ("Hello", None)
    assert matcher.feed("\nUs") == ("", None)
    assert matcher.feed("ually") == ("\n\nUsually", None)
    assert matcher.flush() == ""


@given(
    st.text("ab\n", max_size=40),
    st.lists(st.text("ab\n", min_size=1, max_size=4), min_size=1, max_size=4),
    st.lists(st.integers(1, 5), max_size=40),
)
def test_any_split_gives_the_same_and_loses_nothing(text: str, stops: list[str], sizes: list[int]) -> None:
    pieces: list[str] = []
    rest = text
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    shown, stop = run([*pieces, rest], *stops)
    assert (shown, stop) == run(list(text), *stops)
    assert text.startswith(shown + (stop or ""))
    assert stop is not None or shown == text
