"""Lines until there are enough of them."""

from __future__ import annotations

from collections.abc import Iterator


def lines_of(lines: Iterator[str], size: int) -> str:
    """At least `size` characters of lines, or all there are."""
    told: list[str] = []
    length = 0
    for line in lines:
        told.append(line + "\n")
        length += len(told[-1])
        if length >= size:
            break
    return "".join(told)
