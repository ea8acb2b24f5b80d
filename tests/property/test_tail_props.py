"""One copy of a periodic end, whatever stands before it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from budgets import one_copy

text = st.text(alphabet="ab \n", max_size=40)


@given(text, st.text(alphabet="abc \n", min_size=1, max_size=12), st.integers(2, 9))
def test_a_repeated_end_is_kept_once(before: str, unit: str, times: int) -> None:
    whole = before + unit * times
    keep, _ = one_copy(whole)
    kept, rest = whole[:keep], whole[keep:]
    assert len(kept) <= len(before) + len(unit)
    assert any((kept[-size:] * len(rest)).startswith(rest) for size in range(1, len(kept) + 1)), "it says it again"


@given(st.text(alphabet="ab", max_size=60))
def test_of_any_text_something_stays(whole: str) -> None:
    keep, _ = one_copy(whole)
    assert keep == len(whole) or 0 < keep < len(whole)
    assert one_copy(whole[:keep])[0] <= keep


def test_a_text_without_repetition_stays_whole() -> None:
    assert one_copy("abcdefg") == (7, 0)
    assert one_copy("") == (0, 0)
