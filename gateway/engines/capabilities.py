"""What one worker can do about thinking: asked of it whenever it becomes ready or was restarted, never by request.

A dialect knows the questions; whoever watches the workers knows how to ask them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

import msgspec

Ask = Callable[[str, str, Mapping[str, Any] | None], Awaitable[tuple[int, bytes]]]
"""(method, path, JSON body or None) → (status, body). What it raises ends the probe, to be tried again later."""


class Path(StrEnum):
    """How a leg goes on from what was generated before it."""

    IDS = "ids"
    """Token ids as the prompt of /v1/completions: no template comes between, and no parser of the engine's."""
    CHAT_IDS = "chat-ids"
    """Token ids beside the messages of a chat request, so that the engine still parses tool calls (SGLang)."""
    CHAT = "chat"
    """A last assistant message that the engine is told to continue: its template has the last word."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a worker said. `paths` is in no order: which is best for a request its dialect knows."""

    native_cap: bool = False
    paths: frozenset[Path] = frozenset()
    splits: bool | None = None
    """Does it separate thoughts from the answer itself? None where that could not be told."""
    misfiles: bool = False
    """Does it file a continued answer as thought? Then everything on that path is read as answer."""
    context: int | None = None
    """Tokens of prompt and output together; None if it does not say."""
    version: str = ""
    counted: Mapping[str, int] = field(default_factory=dict[str, int])
    """Tokens of the pool's own phrases; empty where the worker does not count."""

    @property
    def shown(self) -> dict[str, object]:
        """As an operator reads it."""
        return {
            "native_cap": self.native_cap,
            "paths": sorted(str(path) for path in self.paths),
            "splits": self.splits,
            "misfiles": self.misfiles,
            "context": self.context,
            "version": self.version,
        }


def fields_of(status: int, body: bytes) -> dict[str, Any]:
    """A JSON object that was answered with 200; empty for anything else."""
    if status != 200:
        return {}
    try:
        found: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
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
