"""What the person asks, read out of an OpenAI message list.

The classifier must judge the ask, not what a harness wrapped around it: injected reminders, environment dumps and
tool results are dropped here, and nowhere else. Nothing in this file classifies, and nothing in it may raise on the
odd shapes clients send: what cannot be read counts as absent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

_NOISE_TAGS = (
    "system-reminder",
    "system_reminder",
    "environment",
    "environment_details",
    "environment_context",
    "user_instructions",
    "local-command-stdout",
    "local-command-stderr",
    "command-name",
    "command-message",
    "command-args",
    "tool_result",
    "function_results",
    "user-memory",
    "memory",
    "memories",
    "ide_opened_file",
    "ide_selection",
)
_TEXT_TYPES = frozenset({"text", "input_text"})
_IMAGE_TYPES = frozenset({"image_url", "input_image", "image"})


@dataclass(frozen=True, slots=True)
class Ask:
    """The last user turn and the little of its past that the verdict may use."""

    text: str
    """The last user turn: text parts only, harness noise stripped."""
    earlier: str = ""
    """The user turn before it, read the same way; empty when there is none."""
    has_tools: bool = False
    """The request offers tools. Carried for policy; the classifier does not weigh it."""
    has_images: bool = False
    """The last user turn holds at least one image part."""
    turns: int = 1
    """User turns that carry text or an image, at least 1."""


def read_ask(messages: Sequence[Mapping[str, Any]], *, has_tools: bool = False) -> Ask:
    """Read the ask from a message list, newest user turn last.

    A user turn that holds harness noise alone (a reminder, a tool's output) is no turn. Never raises: messages
    without a role, content of any type, parts of any shape are skipped.
    """
    turns: list[tuple[str, bool]] = []
    for message in cast("Sequence[object]", messages):
        if not isinstance(message, Mapping):
            continue
        fields = cast("Mapping[str, object]", message)
        if fields.get("role") != "user":
            continue
        text, image = _read_content(fields.get("content"))
        if text or image:
            turns.append((text, image))
    if not turns:
        return Ask("", has_tools=has_tools)
    text, image = turns[-1]
    earlier = turns[-2][0] if len(turns) > 1 else ""
    return Ask(text, earlier, has_tools=has_tools, has_images=image, turns=len(turns))


def strip_noise(text: str) -> str:
    """Remove closed harness blocks; an unclosed one stays, since the ask may follow it. Linear in the text."""
    if "</" in text:
        for tag in _NOISE_TAGS:
            text = _strip_tag(text, f"<{tag}>", f"</{tag}>")
    return text.strip()


def _strip_tag(text: str, opening: str, closing: str) -> str:
    start = text.find(opening)
    if start < 0:
        return text
    kept: list[str] = []
    position = 0
    while start >= 0:
        end = text.find(closing, start)
        if end < 0:
            break
        kept.append(text[position:start])
        position = end + len(closing)
        start = text.find(opening, position)
    kept.append(text[position:])
    return "".join(kept)


def _read_content(content: object) -> tuple[str, bool]:
    """Text and presence of an image in one message's content."""
    if isinstance(content, str):
        return strip_noise(content), False
    if not isinstance(content, Sequence) or isinstance(content, bytes | bytearray | memoryview):
        return "", False
    texts: list[str] = []
    image = False
    for part in cast("Sequence[object]", content):
        if isinstance(part, str):
            texts.append(strip_noise(part))
        elif isinstance(part, Mapping):
            fields = cast("Mapping[str, object]", part)
            kind = fields.get("type")
            text = fields.get("text")
            if not isinstance(kind, str):
                continue
            if kind in _TEXT_TYPES and isinstance(text, str):
                texts.append(strip_noise(text))
            elif kind in _IMAGE_TYPES:
                image = True
    return "\n".join(text for text in texts if text), image
