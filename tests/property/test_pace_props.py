"""Who is slow: only one that is far behind its peers, for some time, and never too many of a pool."""

from __future__ import annotations

from statistics import median

from hypothesis import given
from hypothesis import strategies as st

from gateway.pools.pace import MOST_EJECTED, TIMES, WINDOWS, PaceJudge

PACES = st.floats(0, 1_000)


def after(judge: PaceJudge[int], paces: dict[int, float], windows: int, out: int = 0) -> list[int]:
    found: list[int] = []
    for _ in range(windows):
        found = judge.judge(paces, pool=len(paces), out=out)
    return found


@given(st.lists(PACES, min_size=1, max_size=12), st.integers(1, 6), st.integers(0, 4))
def test_what_must_always_hold(paces: list[float], windows: int, out: int) -> None:
    told = dict(enumerate(paces))
    found = after(PaceJudge(), told, windows, out)
    assert len(found) <= max(0, len(paces) // MOST_EJECTED - out)
    assert all(told[one] * TIMES < median(paces) * 1.0001 for one in found if median(paces) > 0)
    assert not found or (windows >= WINDOWS and len(paces) >= 3)


@given(st.floats(10, 1_000), st.floats(0.9, 1.1), st.integers(3, 9))
def test_a_degraded_interconnect_is_found(pace: float, scatter: float, count: int) -> None:
    """30 tokens a second on all but one, 1.5 there."""
    paces = {number: pace * (scatter if number % 2 else 1) for number in range(count)}
    paces[0] = pace / 20
    judge: PaceJudge[int] = PaceJudge()
    assert after(judge, paces, WINDOWS - 1) == []
    assert after(judge, paces, 1) == [0]


@given(st.floats(10, 1_000), st.floats(0.01, 0.3), st.integers(3, 9))
def test_when_all_slow_down_nobody_is_ejected_and_it_shows(pace: float, slower: float, count: int) -> None:
    judge: PaceJudge[int] = PaceJudge()
    after(judge, dict.fromkeys(range(count), pace), 60)
    assert 0.99 < judge.ratio < 1.01
    assert after(judge, dict.fromkeys(range(count), pace * slower), 2 * WINDOWS) == []
    assert judge.ratio < 0.5


def test_one_window_that_is_good_makes_good() -> None:
    judge: PaceJudge[int] = PaceJudge()
    slow, well = {0: 1.0, 1: 100.0, 2: 100.0}, {0: 90.0, 1: 100.0, 2: 100.0}
    for _ in range(10):
        assert after(judge, slow, WINDOWS - 1) == []
        assert after(judge, well, 1) == []


def test_of_two_nobody_can_say_which_is_slow() -> None:
    assert after(PaceJudge(), {0: 1.0, 1: 100.0}, 10) == []
