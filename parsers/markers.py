"""Finding markers: the literals that count in one state, prepared for one left-to-right search.

What must not come in: what a marker does (`parsers.states` says which action each has).
"""

import re
from collections.abc import Iterable


class Markers:
    """A set of literals. At one place the longest wins; of two places the first."""

    __slots__ = ("_ends", "_firsts", "_pattern", "_prefixes", "_reach", "firsts")

    def __init__(self, markers: Iterable[str], ends: tuple[str, ...] = ()) -> None:
        """`ends` count at the very end of an output only."""
        longest_first = sorted(set(markers), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        self._prefixes = frozenset(marker[:size] for marker in longest_first for size in range(1, len(marker)))
        self._ends = ends
        whole_ends = {end[:size] for end in ends for size in range(1, len(end) + 1)}
        self._prefixes |= whole_ends
        self._reach = max((*map(len, self._prefixes), 0))
        self.firsts = frozenset(marker[0] for marker in (*longest_first, *ends))
        self._firsts = "".join(sorted(self.firsts))

    def may_grow(self, text: str, at: int) -> bool:
        """Whether the text from `at` to its end may still become a marker, or a longer one."""
        return len(text) - at <= self._reach and text[at:] in self._prefixes

    def at(self, text: str, pos: int) -> re.Match[str] | None:
        return self._pattern.match(text, pos)

    def find(self, text: str, pos: int) -> re.Match[str] | None:
        return self._pattern.search(text, pos)

    def tail(self, text: str, pos: int) -> int:
        """Where the earliest unfinished marker at the end of the text begins; its length if there is none."""
        tail = len(text)
        low = max(pos, tail - self._reach)
        for first in self._firsts:
            at = text.find(first, low)
            while at != -1:
                if text[at:] in self._prefixes:
                    tail = min(tail, at)
                    break
                at = text.find(first, at + 1)
        return tail

    def without_end(self, text: str, pos: int) -> int:
        """Where text[pos:] ends once one end token is taken off."""
        for end in self._ends:
            if text.endswith(end) and len(text) - len(end) >= pos:
                return len(text) - len(end)
        return len(text)
