"""Deltas → the bytes of OpenAI's `chat.completion.chunk` events, under the name the client wants for thoughts.

An engine's own event travels as it came wherever it already says what the client should read; else the chunk is
built from a template. All deltas of one read become one `bytes`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gateway import sse
from gateway.account import Account
from gateway.config import ReasoningOutput
from gateway.deltas import Begin, Delta, Extras, Finish, Opaque, Text, ToolCalls
from gateway.landing import Landing
from gateway.output import Output
from gateway.reading import Identity
from parsers import Field

INLINE_OPEN, INLINE_CLOSE = "<think>\n", "\n</think>\n\n"

_encode = msgspec.json.encode
_KEYS = {ReasoningOutput.REASONING_CONTENT: ("reasoning_content",), ReasoningOutput.REASONING: ("reasoning",),
         ReasoningOutput.BOTH: ("reasoning_content", "reasoning")}  # fmt: skip


class Emitter:
    """One stream. `model` is the name the client is shown."""

    def __init__(self, model: str, output: Output) -> None:
        self._model = model
        self._output = output.reasoning
        self._keys = _KEYS.get(output.reasoning, ())
        self._whole: dict[int, list[str]] | None = {} if output.in_one_piece else None
        """Thoughts that wait for their end, by choice."""
        self._identity: Identity | None = None
        self._head = b""
        self._may_pass = False
        self._inside: set[int] = set()

    def encode(self, deltas: list[Delta], identity: Identity) -> bytes:
        """The events of one read, joined; may be empty."""
        if self._identity is None:
            self._begin(identity)
        may_pass = self._may_pass and identity is self._identity
        parts: list[bytes] = []
        for delta in deltas:
            if self._whole is not None and self._waits(delta, parts):
                continue
            if isinstance(delta, Text):
                if may_pass and delta.raw is not None and (raw := self._passed(delta, delta.raw)) is not None:
                    parts.append(raw)
                else:
                    self._text(delta, parts)
            elif isinstance(delta, Begin):
                parts.append(self._chunk(delta.index, b'"role":"assistant","content":""', None))
            elif isinstance(delta, ToolCalls):
                self._close_inline(delta.index, parts)
                parts.append(self._chunk(delta.index, b'"tool_calls":' + delta.calls, delta.extras))
            elif isinstance(delta, Opaque) and may_pass:
                parts.append(sse.event(delta.raw))
        return b"".join(parts)

    def land(self, landing: Landing, *, include_usage: bool) -> bytes:
        """Finish chunks, the usage chunk if it was asked for, and `[DONE]`."""
        parts: list[bytes] = []
        last = len(landing.finishes) - 1
        for place, finish in enumerate(landing.finishes):
            self._tell_whole(finish.index, parts)
            self._close_inline(finish.index, parts)
            report = landing.report if place == last else None
            parts.append(self._finish(finish, report))
        if include_usage:
            usage = _encode(usage_of(landing.account))
            parts.append(b"data: " + self._head + b'[],"usage":' + usage + b"}\n\n")
        parts.append(sse.DONE_EVENT)
        return b"".join(parts)

    def _begin(self, identity: Identity) -> None:
        self._identity = identity
        self._may_pass = identity.model == self._model
        shown = {
            "id": identity.id,
            "object": "chat.completion.chunk",
            "created": identity.created,
            "model": self._model,
        }
        self._head = _encode(shown)[:-1] + b',"choices":'

    def _passed(self, delta: Text, raw: bytes) -> bytes | None:
        """The engine's event as it came, with the thought's key renamed where it has the other name; None if it
        must be built."""
        if delta.field is Field.CONTENT:
            return sse.event(raw) if delta.raw_key == "content" and self._output is not ReasoningOutput.INLINE else None
        if len(self._keys) != 1:
            return None
        key = self._keys[0]
        if delta.raw_key == key:
            return sse.event(raw)
        # In JSON text every quote is escaped, so `"reasoning":` can be nothing but a key, and the delta's comes first.
        theirs, ours = f'"{delta.raw_key}":'.encode(), f'"{key}":'.encode()
        if theirs not in raw or ours in raw:  # where both are there, one would come twice
            return None
        return sse.event(raw.replace(theirs, ours, 1))

    def _waits(self, delta: Delta, parts: list[bytes]) -> bool:
        """Keep a thought back until something else of its choice comes. Its extras stay with their tokens: untold."""
        assert self._whole is not None
        if isinstance(delta, Text) and delta.field is Field.REASONING:
            self._whole.setdefault(delta.index, []).append(delta.text)
            return True
        if isinstance(delta, Text | ToolCalls):
            self._tell_whole(delta.index, parts)
        return False

    def _tell_whole(self, index: int, parts: list[bytes]) -> None:
        if self._whole and (thought := self._whole.pop(index, None)):
            self._text(Text(index, Field.REASONING, "".join(thought)), parts)

    def _text(self, delta: Text, parts: list[bytes]) -> None:
        if delta.field is Field.REASONING:
            if self._output is ReasoningOutput.HIDDEN:
                return
            if self._output is ReasoningOutput.INLINE:
                opening = "" if delta.index in self._inside else INLINE_OPEN
                self._inside.add(delta.index)
                inline = b'"content":' + _encode(opening + delta.text)
                parts.append(self._chunk(delta.index, inline, delta.extras))
                return
            text = _encode(delta.text)
            said = b",".join(b'"%b":%b' % (key.encode(), text) for key in self._keys)
            parts.append(self._chunk(delta.index, said, delta.extras))
            return
        self._close_inline(delta.index, parts)
        parts.append(self._chunk(delta.index, b'"content":' + _encode(delta.text), delta.extras))

    def _close_inline(self, index: int, parts: list[bytes]) -> None:
        if index in self._inside:
            self._inside.discard(index)
            parts.append(self._chunk(index, b'"content":' + _encode(INLINE_CLOSE), None))

    def _chunk(self, index: int, delta: bytes, extras: Extras | None) -> bytes:
        logprobs, rest = _extras(extras)
        return b'data: %b[{"index":%d,"delta":{%b},"logprobs":%b,"finish_reason":null%b}]}\n\n' % (
            self._head,
            index,
            delta,
            logprobs,
            rest,
        )

    def _finish(self, finish: Finish, report: dict[str, Any] | None) -> bytes:
        logprobs, rest = _extras(finish.extras)
        extension = b"" if report is None else b',"thinkgate":' + _encode(report)
        return b'data: %b[{"index":%d,"delta":{},"logprobs":%b,"finish_reason":%b%b}]%b}\n\n' % (
            self._head,
            finish.index,
            logprobs,
            _encode(finish.reason),
            rest,
            extension,
        )


def usage_of(account: Account) -> dict[str, Any]:
    """OpenAI's usage object."""
    usage: dict[str, Any] = {
        "prompt_tokens": account.prompt,
        "completion_tokens": account.completion,
        "total_tokens": account.prompt + account.completion,
        "completion_tokens_details": {"reasoning_tokens": account.reasoning},
    }
    if account.cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": account.cached}
    return usage


def _extras(extras: Extras | None) -> tuple[bytes, bytes]:
    """(logprobs, the rest as `,"key":value…`)."""
    if extras is None:
        return b"null", b""
    rest = b"".join(
        b',"%b":%b' % (name, bytes(value))
        for name, value in (
            (b"token_ids", extras.token_ids),
            (b"stop_reason", extras.stop_reason),
            (b"matched_stop", extras.matched_stop),
        )
        if value is not None
    )
    return (bytes(extras.logprobs) if extras.logprobs is not None else b"null"), rest
