"""Reading what an engine has already split, whatever it calls the field.

Works on one message or one streamed delta. What must not come in: parsing of text, and writing of fields.
"""

from collections.abc import Iterator, Mapping
from typing import cast


def read_reasoning(delta: Mapping[str, object]) -> str | None:
    """The first field that holds text: engines in transition send the same text under several names."""
    for name in ("reasoning_content", "reasoning"):
        value = delta.get(name)
        if value and isinstance(value, str):
            return value
    text = "".join(_texts(delta.get("reasoning_details")))
    if not text:
        value = delta.get("thinking")
        text = value if isinstance(value, str) else ""
    if not text:
        text = "".join(_of_chunk(chunk) for chunk in _chunks(delta.get("content")) if _is_thought(chunk))
    return text or None


def read_content(delta: Mapping[str, object]) -> str | None:
    """The answer: a string as it is, or the text chunks of a list; chunks of thinking are left to `read_reasoning`."""
    content = delta.get("content")
    if isinstance(content, str):
        return content or None
    return "".join(_of_chunk(chunk) for chunk in _chunks(content) if not _is_thought(chunk)) or None


def _chunks(value: object) -> Iterator[Mapping[str, object]]:
    if isinstance(value, list):
        for chunk in cast("list[object]", value):
            if isinstance(chunk, Mapping):
                yield cast("Mapping[str, object]", chunk)


def _texts(value: object) -> Iterator[str]:
    for chunk in _chunks(value):
        text = chunk.get("text")
        if isinstance(text, str):
            yield text


def _is_thought(chunk: Mapping[str, object]) -> bool:
    return chunk.get("type") in ("thinking", "reasoning")


def _of_chunk(chunk: Mapping[str, object]) -> str:
    """Mistral nests text chunks in a thinking chunk, Anthropic puts a string there."""
    value = chunk.get("text") or chunk.get("thinking")
    return value if isinstance(value, str) else "".join(_texts(value))
