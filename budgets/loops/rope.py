"""How much rope a repeated unit gets: separators, blank forms, digits and table rows repeat in healthy text too.

Pure looks at a unit's characters. What must not come in: counting copies, and who asked for what.
"""

from __future__ import annotations

import re
from typing import Final

DECORATIVE: Final = 4.0
"""Rope of what only decorates: rules, dot leaders, `| | |`, box lines (four times, by 432 real hits that were read)."""

WORDLESS: Final = 2.0
"""Rope of digits and brackets without a letter: matrices of zeros, long division, empty lists."""

STRUCTURED: Final = 1.25
"""Rope of table rows and of what stands in a code fence."""

STRUCTURE_FACTOR: Final = 0.85
"""Code, tables and lists must compress so much better than prose before that means anything."""

_ORNAMENT = re.compile(r"[\s\-=_*.|+~#/\\:<>^`'\",·•…‐-―‖‗′″⁃−─-▟■-◿⠀-⣿。．・，、＿ー＊＝｜／＼\u200b\ufeff]*")
_PACKED = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
_BARE = re.compile(r"[\d()\[\]{}<>]")
_ROW = re.compile(r"[ \t]*[|+].*[|+][ \t]*")


def is_decorative(text: str) -> bool:
    """Whether all characters are ornament or blanks."""
    return _ORNAMENT.fullmatch(text) is not None


def unit_rope(unit: str, *, fenced: bool) -> float:
    """The factor on the limit for a unit that repeats. `fenced`: it stands in an open code fence."""
    if is_decorative(unit):
        return DECORATIVE
    if not any(map(str.isalpha, unit)) and _BARE.search(unit):
        return WORDLESS
    if fenced or is_table(unit):
        return STRUCTURED
    return 1.0


def is_packed(text: str) -> bool:
    """Whether most of it is Chinese, Japanese or Korean."""
    return 2 * len(_PACKED.findall(text)) > len(text)


def is_table(unit: str) -> bool:
    """Whether the whole lines of a unit, which may begin in the middle of one, are rows of a table."""
    lines = (unit + unit).split("\n")[1:-1] if "\n" in unit else []
    return bool(lines) and all(_ROW.fullmatch(line) for line in lines)


_STRUCTURE = re.compile(r"(?: {4}|\t)|\s*(?:[|│┃+#<>{}\[\]()*\-•]|\d+[.):]|\w+\(|.*[;{}|,:]\s*$)")


def is_structured(text: str) -> bool:
    """Whether more than half of the lines look like code, a table or a list."""
    lines = [line for line in text.split("\n") if line.strip()]
    return 2 * sum(_STRUCTURE.match(line) is not None for line in lines) > len(lines)
