"""The name of a conversation: what its turns have in common, so that they can meet in one worker's prefix cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, cast

OPENING = 2_048
"""Characters of each message that are looked at: the gateway must not spend a millisecond on a long one."""


def conversation_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """A short hash of everything up to the first user message, which every later turn repeats."""
    digest = blake2b(digest_size=12)
    for message in messages:
        role = message.get("role")
        digest.update(f"{role}\0{_opening(message.get('content'))}\0".encode("utf-8", "surrogatepass"))
        if role == "user":
            break
    return digest.hexdigest()


def _opening(content: object) -> str:
    if isinstance(content, str):
        return content[:OPENING]
    if not isinstance(content, list):
        return ""
    parts = (cast("dict[str, object]", part) for part in cast("list[object]", content) if isinstance(part, dict))
    texts = (part.get("text") for part in parts)
    return "".join(text[:OPENING] for text in texts if isinstance(text, str))[:OPENING]
