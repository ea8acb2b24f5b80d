"""Reading the reasoning an engine has already split off, whatever it calls the field.

Works on one message or one streamed delta. What must not come in: parsing of text, and writing of fields. Content
given as a list of typed chunks (`[{"type": "thinking", …}]`) is the business of the engine dialect that sends it.
"""

from collections.abc import Mapping
from typing import cast


def read_reasoning(delta: Mapping[str, object]) -> str | None:
    """The first field that holds text: engines in transition send the same text under several names."""
    for name in ("reasoning_content", "reasoning"):
        value = delta.get(name)
        if value and isinstance(value, str):
            return value
    details = delta.get("reasoning_details")
    if details and isinstance(details, list):
        text = "".join(_detail_text(part) for part in cast("list[object]", details))
        if text:
            return text
    value = delta.get("thinking")
    return value if value and isinstance(value, str) else None


def _detail_text(part: object) -> str:
    if isinstance(part, Mapping):
        text = cast("Mapping[str, object]", part).get("text")
        if isinstance(text, str):
            return text
    return ""
