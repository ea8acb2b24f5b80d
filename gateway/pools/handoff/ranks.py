"""Data-parallel ranks in turn, of each prefill worker by itself.

One count for all of them would skip ranks: two workers that take turns, and two ranks each, would only ever meet in the
same halves (vllm-project/router#223).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import count

from gateway.confighandoff import PrefillWorker


class Ranks:
    """Of one pool."""

    def __init__(self) -> None:
        self._turns: defaultdict[str, Iterator[int]] = defaultdict(count)

    def next(self, source: PrefillWorker, ranks: int | None = None) -> int:
        """0 ≤ rank < `ranks`, or the worker's configured size."""
        return next(self._turns[source.url]) % (ranks or source.dp_size)
