"""A prompt as both legs of a pair must read it: what has to be equal, and what its KV is keyed by."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from tests.doubles.mind import HEAD, TAIL, VOCABULARY, render
from tests.doubles.script import Script, script_for

SAME: Final = (
    "model",
    "messages",
    "prompt",
    "input_ids",
    "tools",
    "tool_choice",
    "chat_template_kwargs",
    "reasoning_effort",
    "documents",
    "add_generation_prompt",
    "continue_final_message",
    "mm_processor_kwargs",
    "cache_salt",
)
"""Fields that make the prompt. A leg without one, or with another value, computes the KV of another prompt."""
MEDIA: Final = ("image", "audio", "video")
RAW: Final = frozenset({"image_url", "audio_url", "input_audio", "video_url"})
EMBEDS: Final = frozenset(f"{kind}_embeds" for kind in MEDIA)


@dataclass(frozen=True, slots=True)
class Prompt:
    key: str
    """The key its last control string names."""
    base: str
    """The text up to the assistant's turn: the same for a leg and for those that continue it."""
    fields: dict[str, Any]
    media: tuple[str, ...] = ()
    """What was seen of each image or sound: the mark of its embedding."""

    def differs(self, other: Prompt) -> list[str]:
        """The fields in which the other leg's prompt is not this one."""
        return [name for name in SAME if self.fields.get(name) != other.fields.get(name)]


def read_prompt(body: dict[str, Any], media: tuple[str, ...] = ()) -> Prompt:
    """The prompt of a chat or completions body."""
    base = _base(body)
    return Prompt(script_for(base, Script()).key, base, {name: body[name] for name in SAME if name in body}, media)


def _base(body: dict[str, Any]) -> str:
    if "messages" in body:
        messages = body["messages"]
        if body.get("continue_final_message") and messages[-1].get("role") == "assistant":
            messages = messages[:-1]
        return render(messages, thinking=True, opens=False, generation=False)
    prompt = body.get("prompt", "")
    text = VOCABULARY.decode(prompt) if isinstance(prompt, list) else prompt
    before, _, mine = text.rpartition(f"{HEAD}assistant\n")
    return text if TAIL in mine or not before else before


def parts_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The content parts of all messages, in order."""
    contents = [message.get("content") for message in body.get("messages") or []]
    return [part for content in contents if isinstance(content, list) for part in content]


def raw_media(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for part in parts_of(body) if part.get("type") in RAW]


def content_of(part: dict[str, Any]) -> str:
    """A media item's content, as one hash: the same for the same URL or data."""
    kind = part["type"]
    value = part[kind]
    told = value.get("url") or value.get("data") if isinstance(value, dict) else value
    return sha256(str(told).encode()).hexdigest()
