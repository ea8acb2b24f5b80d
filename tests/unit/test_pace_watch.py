"""From what streams are made to wait to an ejection, window by window, on a clock that a test turns."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.config import Health
from gateway.pools import Pool, State, pace, stride
from gateway.pools.pace import EJECTED_FOR, PaceWatch
from gateway.pools.roster import Cause
from gateway.pools.stride import Stride
from tests.scripted import Tape, make_ready, scripted_pool
from tests.unit.test_health import Moves

WINDOW = Health().pace_window


@pytest.fixture
def turn(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_000.0]
    monkeypatch.setattr(stride, "monotonic", lambda: now[0])
    return now


def fleet(turn: list[float]) -> tuple[Pool, Moves]:
    pool, _ = scripted_pool(Tape(), [], [], [])
    pool.clock = lambda: turn[0]
    moves = Moves()
    pool.listener = moves
    return pool, moves


def window(pool: Pool, watch: PaceWatch, turn: list[float], said: list[int]) -> None:
    """One stream on each worker for a whole window, in which each says so many characters."""
    began: list[Any] = [worker.stride.wait() for worker in pool.workers]
    turn[0] += WINDOW
    for worker, start, characters in zip(pool.workers, began, said, strict=True):
        worker.stride.heard(start, characters)
    watch.look()


def test_a_slow_worker_is_left_alone_for_longer_each_time(turn: list[float]) -> None:
    pool, moves = fleet(turn)
    ratios: list[float] = []
    watch = PaceWatch(pool, lambda name, ratio: ratios.append(ratio))
    slow = pool.workers[0]
    for times in range(3):
        for _ in range(pace.WINDOWS):
            assert slow.is_ready
            window(pool, watch, turn, [15, 300, 310])
        assert (slow.state, slow.ejected_until - turn[0]) == (State.EJECTED, WINDOW * EJECTED_FOR * 2**times)
        make_ready(pool, slow)
    assert moves.causes == [Cause.SLOW] * 3
    assert ratios[-1] == 1.0


def test_who_hardly_streams_is_not_compared(turn: list[float]) -> None:
    pool, moves = fleet(turn)
    watch = PaceWatch(pool, lambda name, ratio: None)
    for _ in range(10):
        began = [worker.stride.wait() for worker in pool.workers]
        turn[0] += 1
        for worker, start, said in zip(pool.workers, began, [0, 30, 30], strict=True):
            worker.stride.heard(start, said)
        turn[0] += WINDOW - 1
        watch.look()
    assert moves.causes == []


def test_text_that_lay_ready_says_nothing_of_the_engine(turn: list[float]) -> None:
    """A client that reads slowly finds much at once: its worker is neither fast nor slow for it."""
    one = Stride()
    began = one.wait()
    turn[0] += 2
    one.heard(began, 100)
    turn[0] += 8  # the client is busy
    one.heard(one.wait(), 5_000)
    assert one.take() == (100, 2.0)
    began = one.wait()
    turn[0] += 3
    assert one.take() == (0, 3.0), "a stream that stalls counts while it does"
    one.heard(began, 0)
    assert one.take() == (0, 0.0)
