"""Is a thought in the midst of a tool call? Then it is no place to cut: half a call is neither thought nor call.

Models that reason with tools sometimes write a call before they have closed their thought (vLLM issue 44676: three runs
in four at a small budget). Pure text; which markers a family has its format says.
"""

from __future__ import annotations

from collections.abc import Iterable

LOOKED_AT = 8_192
"""Characters of the thought's end in which a call is looked for; a longer one is no call any more."""

PATIENCE = 1_024
"""Tokens that an open call may go on past the cap."""


def is_inside_call(thought: str, openers: Iterable[str]) -> bool:
    """Does one of the openers stand without its closer? `<tool_call>` closes with `</tool_call>`; an opener of another
    shape has no closer, and what follows it is a call to the end."""
    tail = thought[-LOOKED_AT:]
    return any(_last(tail, opener) > _last(tail, _closer(opener)) for opener in openers)


def _last(text: str, marker: str) -> int:
    return text.rfind(marker) if marker else -1


def _closer(opener: str) -> str:
    return f"</{opener[1:]}" if opener.startswith("<") and opener.endswith(">") and opener[1:2].isalpha() else ""
