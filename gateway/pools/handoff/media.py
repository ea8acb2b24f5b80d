"""The pictures, sounds and films of a request: found in its messages, named by what they are, and put back as places
for embeddings.

Pure. Who encodes them, and how an encoder is asked, is `encode`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast

MODALITIES = {"image_url": "image", "audio_url": "audio", "input_audio": "audio", "video_url": "video"}
"""Kinds of content parts, and what vLLM calls their embeddings."""


@dataclass(frozen=True, slots=True)
class Item:
    """One content part. `place`: the message, and the part of it."""

    place: tuple[int, int]
    part: Mapping[str, Any]
    modality: str
    uuid: str
    """Named by its content: the same picture twice is encoded once."""


def items_of(messages: Sequence[Mapping[str, Any]]) -> list[Item]:
    """All of them, in their order."""
    found: list[Item] = []
    for number, message in enumerate(messages):
        content = message.get("content")
        for index, part in enumerate(cast("list[object]", content) if isinstance(content, list) else ()):
            fields = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
            modality = MODALITIES.get(str(fields.get("type")))
            if modality is not None:
                found.append(Item((number, index), fields, modality, _uuid_of(fields)))
    return found


def rewritten(
    messages: Sequence[Mapping[str, Any]], metadata: Mapping[tuple[int, int], tuple[Item, Mapping[str, Any]]]
) -> list[Any]:
    """The messages with a place for embeddings where there was an item whose metadata is known."""
    told: list[Any] = []
    for number, message in enumerate(messages):
        content = message.get("content")
        if not isinstance(content, list) or not any(place[0] == number for place in metadata):
            told.append(message)
            continue
        parts = [
            _placeholder(*metadata[number, index]) if (number, index) in metadata else part
            for index, part in enumerate(cast("list[object]", content))
        ]
        told.append({**message, "content": parts})
    return told


def _placeholder(item: Item, metadata: Mapping[str, Any]) -> dict[str, Any]:
    kind = f"{item.modality}_embeds"
    return {"type": kind, kind: {name: _flat(value) for name, value in metadata.items()}, "uuid": item.uuid}


def _flat(value: object) -> object:
    """vLLM takes a tensor's numbers in one list."""
    if not isinstance(value, list):
        return value
    flat: list[object] = []
    for one in cast("list[object]", value):
        inner = _flat(one)
        flat += cast("list[object]", inner) if isinstance(inner, list) else [inner]
    return flat


def _uuid_of(part: Mapping[str, Any]) -> str:
    own = part.get("uuid")
    if isinstance(own, str) and own:
        return own
    content = part.get(str(part.get("type")))
    fields = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    data = fields.get("url", fields.get("data", content))
    return sha256(str(data).encode("utf-8", "surrogatepass")).hexdigest()
