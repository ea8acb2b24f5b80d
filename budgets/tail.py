"""Where a text that ends in exact copies has one copy of them: for engines that end a loop themselves and say no more.

vLLM's `repetition_detection` ends a request at three or four copies, before a detector of ours would; what is continued
must still not hold them. One pass, once a leg.
"""

from __future__ import annotations

LONGEST_PERIOD = 2_048
"""Characters of a unit that is looked for."""


def one_copy(text: str) -> int:
    """Characters of the text to keep so that its periodic end stands there once; all of it if it has none.

    Of several periods, of which there are two whole copies each, the one counts that drops most.
    """
    size = len(text)
    keep = size
    for period in range(1, min(LONGEST_PERIOD, size // 2) + 1):
        if text[-period:] == text[-2 * period : -period]:
            start = size - 2 * period
            while start and text[start - 1] == text[start - 1 + period]:
                start -= 1
            keep = min(keep, start + period)
    return keep
