"""Head-and-tail clipping: what of a long text is looked at, and nothing about how.

A pasted document carries its ask at one end or the other, and tokenising the middle would cost more than the whole
verdict. Cut in characters first (cheap, before any tokeniser or regex sees the text), then in tokens.
"""

from collections.abc import Sequence

HEAD_CHARS = 360
"""Characters kept from the start of a long text."""
TAIL_CHARS = 360
"""Characters kept from its end."""
MAX_TOKENS = 72
"""Tokens the encoder sees, its two special tokens included."""

_GAP = " … "


def clip_text(text: str, head: int = HEAD_CHARS, tail: int = TAIL_CHARS) -> str:
    """The text, or its head and tail when it is longer than both together. Lone surrogates become '?'."""
    if len(text) > head + tail + len(_GAP):
        text = text[:head] + _GAP + text[-tail:]
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def clip_ids(ids: Sequence[int], limit: int = MAX_TOKENS) -> list[int]:
    """Token ids cut to `limit` from the middle: the first half and the last half stay, with the special ids."""
    if len(ids) <= limit:
        return list(ids)
    head = limit // 2
    return [*ids[:head], *ids[len(ids) - (limit - head) :]]
