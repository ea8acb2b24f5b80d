"""Deltas → one `chat.completion` body, for clients that do not stream.

The same deltas as a stream's, so that the two modes cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from gateway.api.emit import INLINE_CLOSE, INLINE_OPEN, usage_of
from gateway.config import ReasoningOutput
from gateway.deltas import Begin, Delta, Extras, Text, ToolCalls
from gateway.landing import Landing
from gateway.reading import Identity
from parsers import Field


@dataclass(slots=True)
class _Choice:
    reasoning: list[str] = field(default_factory=list[str])
    content: list[str] = field(default_factory=list[str])
    is_inside: bool = False
    """Is an inline thought open?"""
    calls: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    logprobs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    token_ids: list[int] | None = None


class Assembler:
    """Collects one answer. `model` is the name the client is shown."""

    def __init__(self, model: str, output: ReasoningOutput) -> None:
        self._model = model
        self._output = output
        self._choices: dict[int, _Choice] = {}
        self._identity: Identity | None = None

    def add(self, deltas: list[Delta], identity: Identity) -> None:
        self._identity = self._identity or identity
        for delta in deltas:
            if isinstance(delta, Begin):
                self._choices.setdefault(delta.index, _Choice())
            elif isinstance(delta, Text):
                choice = self._choices.setdefault(delta.index, _Choice())
                is_thought = delta.field is Field.REASONING
                if is_thought and self._output is ReasoningOutput.INLINE:
                    choice.content += (delta.text,) if choice.is_inside else (INLINE_OPEN, delta.text)
                    choice.is_inside = True
                elif is_thought:
                    choice.reasoning.append(delta.text)
                else:
                    _close_inline(choice)
                    choice.content.append(delta.text)
                if not (is_thought and self._output is ReasoningOutput.HIDDEN):
                    _add_extras(choice, delta.extras)
            elif isinstance(delta, ToolCalls):
                choice = self._choices.setdefault(delta.index, _Choice())
                _close_inline(choice)
                _add_calls(choice.calls, delta.calls)
                _add_extras(choice, delta.extras)

    def body(self, landing: Landing) -> bytes:
        """The whole answer as JSON."""
        identity = self._identity or Identity("", 0, "")
        choices: list[dict[str, Any]] = []
        for finish in landing.finishes:
            choice = self._choices.get(finish.index, _Choice())
            _close_inline(choice)
            _add_extras(choice, finish.extras)
            shown: dict[str, Any] = {
                "index": finish.index,
                "message": self._message(choice),
                "logprobs": {"content": choice.logprobs} if choice.logprobs else None,
                "finish_reason": finish.reason,
            }
            if choice.token_ids is not None:
                shown["token_ids"] = choice.token_ids
            for name in ("stop_reason", "matched_stop"):
                if finish.extras is not None and (value := getattr(finish.extras, name)) is not None:
                    shown[name] = value
            choices.append(shown)
        return msgspec.json.encode(
            {
                "id": identity.id,
                "object": "chat.completion",
                "created": identity.created,
                "model": self._model,
                "choices": choices,
                "usage": usage_of(landing.account),
                "thinkgate": landing.report,
            }
        )

    def _message(self, choice: _Choice) -> dict[str, Any]:
        reasoning, content = "".join(choice.reasoning), "".join(choice.content)
        message: dict[str, Any] = {"role": "assistant", "content": content or (None if choice.calls else "")}
        if self._output in {ReasoningOutput.REASONING_CONTENT, ReasoningOutput.BOTH}:
            message["reasoning_content"] = reasoning or None
        if self._output in {ReasoningOutput.REASONING, ReasoningOutput.BOTH}:
            message["reasoning"] = reasoning or None
        if choice.calls:
            message["tool_calls"] = [choice.calls[place] for place in sorted(choice.calls)]
        return message


def _close_inline(choice: _Choice) -> None:
    if choice.is_inside:
        choice.is_inside = False
        choice.content.append(INLINE_CLOSE)


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Fragment(msgspec.Struct):
    index: int = 0
    id: str | None = None
    function: _Function | None = None


def _add_calls(calls: dict[int, dict[str, Any]], fragments: msgspec.Raw) -> None:
    """Merge streamed fragments: id, type and name come once, arguments in pieces."""
    try:
        found = msgspec.json.decode(fragments, type=list[_Fragment])
    except msgspec.DecodeError:
        return
    for fragment in found:
        call = calls.setdefault(fragment.index, {"id": None, "type": "function", "function": {}})
        call["id"] = fragment.id or call["id"]
        function, known = fragment.function or _Function(), call["function"]
        if function.name:
            known["name"] = function.name
        known["arguments"] = known.get("arguments", "") + (function.arguments or "")


def _add_extras(choice: _Choice, extras: Extras | None) -> None:
    if extras is None:
        return
    try:
        if extras.logprobs is not None:
            content = msgspec.json.decode(extras.logprobs, type=dict[str, Any]).get("content")
            choice.logprobs += content or []
        if extras.token_ids is not None:
            ids = msgspec.json.decode(extras.token_ids, type=list[int])
            choice.token_ids = [*(choice.token_ids or []), *ids]
    except msgspec.DecodeError:
        return
