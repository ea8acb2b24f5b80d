"""How much a text says a character: the compressed size of its last 4 and 16 KiB, and what they are made of.

Runs of ornament and blanks are shortened first, since a box table would look empty otherwise. Digits are not folded: a
calculation says something with each number. What must not come in: limits.
"""

from __future__ import annotations

import re
import zlib
from collections import deque
from typing import Final

STRETCH: Final = 1_024
"""Characters between two measurements."""

_SMALL: Final = 4
_LARGE: Final = 16
_LEVEL: Final = 1
"""zlib's fastest: level 6 costs five times as much at 16 KiB and separates no better."""

_RUNS = re.compile(r"([^\w])\1{3,}")
_DIGITS: Final = b"0123456789"
_PLAIN: Final = bytes(range(0x30)) + bytes(range(0x3A, 0x41)) + bytes(range(0x5B, 0x61)) + bytes(range(0x7B, 0x80))


class Density:
    """The end of one text, as bytes, in stretches of `STRETCH` characters."""

    __slots__ = ("_stretches",)

    def __init__(self) -> None:
        self._stretches: deque[bytes] = deque(maxlen=_LARGE)

    def add(self, stretch: str) -> None:
        self._stretches.append(_RUNS.sub(r"\1\1\1", stretch).encode("utf-8", "surrogatepass"))

    @property
    def small_is_full(self) -> bool:
        return len(self._stretches) >= _SMALL

    @property
    def large_is_full(self) -> bool:
        return len(self._stretches) == _LARGE

    def small(self) -> float:
        """Compressed size by size of the last 4 KiB: about 0.5 for English, 0.01 to 0.2 for loops."""
        return _ratio(self._window())

    def large(self) -> float:
        """The same of the last 16 KiB."""
        return _ratio(b"".join(self._stretches))

    def letters(self) -> float:
        """The share of letters in the last 4 KiB, 0..1; what is not ASCII counts as letters."""
        window = self._window()
        return len(window.translate(None, _PLAIN + _DIGITS)) / max(1, len(window))

    def digits(self) -> float:
        """The share of digits in the last 4 KiB, 0..1."""
        window = self._window()
        return 1 - len(window.translate(None, _DIGITS)) / max(1, len(window))

    def _window(self) -> bytes:
        return b"".join(list(self._stretches)[-_SMALL:])


def _ratio(window: bytes) -> float:
    return len(zlib.compress(window, _LEVEL)) / max(1, len(window))
