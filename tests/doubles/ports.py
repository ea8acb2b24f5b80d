"""Ports for doubles, none given twice in a run of tests.

A gateway goes on polling an engine that has gone. If its port came to a double of another test, beside it or after it,
that double would see requests that are not its own. The system gives ports of its ephemeral range out again at once, so
doubles take theirs from below it, one after the other, and tests that run beside each other from parts of their own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from typing import Final

FIRST, LAST = 10_000, 32_000
"""Below Linux's ephemeral range, which begins at 32768."""
PARTS: Final = 4
ROOM: Final = (LAST - FIRST) // PARTS


def ports() -> Iterator[int]:
    """Without end; after `ROOM` of them from the beginning again. One that is taken is to be passed over."""
    part = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % PARTS
    begin = os.getpid() * 37  # two runs on one machine rarely meet
    for number in count(begin):
        yield FIRST + part * ROOM + number % ROOM
