"""Where a text that ends in exact copies has one copy of them: for engines that end a loop themselves and say no more.

vLLM's `repetition_detection` ends a request at three or four copies, before a detector of ours would; what is continued
must still not hold them. Once a leg, and under a millisecond whatever the text.
"""

from __future__ import annotations

from typing import Final

LOOKED_AT: Final = 16_384
"""Characters of the text's end in which copies are looked for."""

_ANCHOR: Final = 8
_MOST_PLACES: Final = 64


def one_copy(text: str) -> tuple[int, int]:
    """(characters of the text to keep so that its periodic end stands there once, the period in characters).

    All of it and 0 if it has no periodic end. Of several periods, of which there are two whole copies each, the one
    counts that drops most.
    """
    tail = text[-LOOKED_AT:]
    size, keep, best = len(tail), len(tail), 0
    found: list[tuple[int, int]] = []
    for period in (*_periods(tail, 1), *_periods(tail, _ANCHOR)):
        is_multiple = any(period % shorter == 0 and 2 * period <= run for shorter, run in found)
        if is_multiple or tail[-period:] != tail[-2 * period : -period]:
            continue
        run = _run(tail, period)
        found.append((period, run + period))
        kept = size - run
        if kept < keep:
            keep, best = kept, period
    return len(text) - size + keep, best


def _periods(tail: str, length: int) -> list[int]:
    """How far back the last `length` characters stand before, nearest first, as many as are worth a look: one
    character finds the short periods, several the long ones."""
    size, anchor = len(tail), tail[-length:]
    periods: list[int] = []
    place = tail.rfind(anchor, 0, size - 1)
    while anchor and place >= 0 and len(periods) < _MOST_PLACES:
        period = size - len(anchor) - place
        if 0 < 2 * period <= size:
            periods.append(period)
        place = tail.rfind(anchor, 0, place + len(anchor) - 1)
    return periods


def _run(tail: str, period: int) -> int:
    """How many of the last characters equal those one period before them, by doubling steps and halving ones."""
    size, length, step = len(tail), 0, period
    while step:
        end = size - length
        if length + step <= size - period and tail[end - step : end] == tail[end - step - period : end - period]:
            length += step
            step *= 2
        else:
            step //= 2
    return length
