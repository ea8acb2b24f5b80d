"""The project's Markdown, as GitHub reads it: pages, code, headings and their anchors."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_FENCE: Final = re.compile(r"^([ \t]*)(```+|~~~+)[^\n]*\n(.*?)^[ \t]*\2[ \t]*$", re.MULTILINE | re.DOTALL)
_SPAN: Final = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_HEADING: Final = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$", re.MULTILINE)
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def _pages() -> Iterator[Path]:
    """Not those of an environment or of node's packages."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "node_modules"]
        yield from (Path(folder, name) for name in files if name.endswith(".md"))


PAGES: Final = sorted(_pages())


def fences(text: str) -> list[str]:
    """What stands in fenced blocks."""
    return [found[3] for found in _FENCE.finditer(text)]


def without_code(text: str, *, keep_spans: bool = False) -> str:
    """The text without fenced blocks, and without what stands in backticks unless `keep_spans`."""
    text = _FENCE.sub("", text)
    return text if keep_spans else _SPAN.sub("code", text)


def anchors(text: str) -> set[str]:
    """The anchors GitHub gives a page's headings: lower case, words and hyphens; the second like one gets a number."""
    seen: Counter[str] = Counter()
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        shown = _LINK.sub(r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found
