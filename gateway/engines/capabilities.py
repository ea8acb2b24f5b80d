"""What one worker can do about thinking: asked of it once when it first answers, never guessed by request.

A dialect knows the questions; whoever watches the workers knows how to ask them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

import msgspec

Ask = Callable[[str, str, Mapping[str, Any] | None], Awaitable[tuple[int, bytes]]]
"""(method, path, JSON body or None) → (status, body). What it raises ends the probe, to be tried again later."""


class Continues(StrEnum):
    """How a leg goes on from a thought that was cut."""

    IDS = "ids"
    """Token ids as the prompt of /v1/completions."""
    CHAT = "chat"
    """A last assistant message that the engine is told to continue."""
    NOT = "not"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """`context` in tokens, None if the worker does not say."""

    native_cap: bool = False
    continues: Continues = Continues.NOT
    context: int | None = None
    version: str = ""


def fields_of(status: int, body: bytes) -> dict[str, Any]:
    """A JSON object that was answered with 200; empty for anything else."""
    if status != 200:
        return {}
    try:
        found: object = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def context_of(models: Mapping[str, Any], model: str) -> int | None:
    """`max_model_len` of a model in the answer of /v1/models (vLLM, SGLang)."""
    entries = models.get("data")
    for entry in cast("list[object]", entries) if isinstance(entries, list) else ():
        fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        if fields.get("id") == model and isinstance(length := fields.get("max_model_len"), int):
            return length
    return None
