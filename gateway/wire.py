"""Reads an engine's chat-completion chunks: bytes of one event → typed fields, decoded only as far as needed.

All engines stream OpenAI's `chat.completion.chunk`; they differ in the name of the reasoning field and in extras
(vLLM 0.32, SGLang 0.5.23 and llama.cpp's server as recorded). No state, no parsing of text.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from gateway.deltas import Extras

ABSENT = msgspec.Raw(b"")
"""A raw field that was not sent. (`Raw | None` would not do: in a union msgspec reads nothing but the null.)"""


class MalformedEvent(ValueError):
    """An event that is not a chunk at all: the stream cannot be trusted any further."""


class WireDelta(msgspec.Struct, gc=False):
    """Thoughts come as `reasoning_content` or `reasoning`, from some hosted APIs as details or as chunks of content."""

    role: str | None = None
    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: Any = None
    thinking: Any = None
    tool_calls: msgspec.Raw = ABSENT


class WireChoice(msgspec.Struct, gc=False):
    index: int = 0
    delta: WireDelta | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: msgspec.Raw = ABSENT
    token_ids: msgspec.Raw = ABSENT
    stop_reason: msgspec.Raw = ABSENT
    matched_stop: msgspec.Raw = ABSENT


class WirePromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class WireUsage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: WirePromptDetails | None = None


class WireProgress(msgspec.Struct, gc=False):
    """llama-server's `prompt_progress`: how far it has read the prompt, in tokens."""

    total: int = 0
    cache: int = 0


class WireTimings(msgspec.Struct, gc=False):
    """llama-server's `timings`, in tokens: what it has generated so far."""

    predicted_n: int | None = None


class WireChunk(msgspec.Struct, gc=False):
    id: str | None = None
    created: float | None = None
    model: str | None = None
    object: str | None = None
    choices: list[WireChoice] | None = None
    usage: WireUsage | None = None
    prompt_progress: WireProgress | None = None
    timings: WireTimings | None = None
    prompt_token_ids: list[int] | None = None
    error: msgspec.Raw = ABSENT


class EngineErrorBody(msgspec.Struct, gc=False):
    """An engine's error object; every field may be missing or of another type."""

    message: str = ""
    type: str | None = None
    param: str | None = None
    code: int | None = None


_decoder = msgspec.json.Decoder(WireChunk)


def decode(data: bytes) -> WireChunk:
    """One event's payload. Raises MalformedEvent."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedEvent(str(error)) from error


_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
"""An escape in JSON text: a proper surrogate pair, a lone surrogate (group 1), or any other."""


def mended(data: bytes) -> bytes:
    """The event with U+FFFD for what is no text: broken UTF-8, and halves of surrogate pairs, which byte-fallback
    tokens leave behind. Nothing else is changed."""
    text = data.decode("utf-8", "replace")
    return _ESCAPE.sub(lambda found: "\\ufffd" if found[1] else found[0], text).encode()


def parted(extras: Extras) -> tuple[Extras | None, Extras | None]:
    """(what belongs to the tokens, what belongs to the end)."""
    of_tokens = Extras(extras.logprobs, extras.token_ids)
    of_the_end = Extras(stop_reason=extras.stop_reason, matched_stop=extras.matched_stop)
    return (None if of_tokens == Extras() else of_tokens), (None if of_the_end == Extras() else of_the_end)


def merged(one: Extras | None, other: Extras | None) -> Extras | None:
    """The extras of two pieces of one choice, in their order."""
    if one is None or other is None:
        return one or other
    return Extras(
        _joined_logprobs(one.logprobs, other.logprobs),
        _joined_ids(one.token_ids, other.token_ids),
        other.stop_reason or one.stop_reason,
        other.matched_stop or one.matched_stop,
    )


def _joined_ids(one: msgspec.Raw | None, other: msgspec.Raw | None) -> msgspec.Raw | None:
    if one is None or other is None:
        return one or other
    try:
        first, second = (msgspec.json.decode(raw, type=list[int]) for raw in (one, other))
    except msgspec.DecodeError:
        return other
    return msgspec.Raw(msgspec.json.encode(first + second))


def _joined_logprobs(one: msgspec.Raw | None, other: msgspec.Raw | None) -> msgspec.Raw | None:
    """OpenAI's logprobs: `{"content": [an entry a token]}`."""
    if one is None or other is None:
        return one or other
    try:
        first, second = (msgspec.json.decode(raw, type=_Logprobs).content or [] for raw in (one, other))
    except msgspec.DecodeError:
        return other
    return msgspec.Raw(msgspec.json.encode({"content": first + second}))


class _Logprobs(msgspec.Struct):
    content: list[msgspec.Raw] | None = None


def extras_of(choice: WireChoice) -> Extras | None:
    """The choice's extras, None where there are none."""
    logprobs, ids = said(choice.logprobs), said(choice.token_ids)
    stop, matched = said(choice.stop_reason), said(choice.matched_stop)
    if logprobs is None and ids is None and stop is None and matched is None:
        return None
    return Extras(logprobs, ids, stop, matched)


def said(raw: msgspec.Raw) -> msgspec.Raw | None:
    """A raw field, None where it was not sent or is null. A copy: it would keep the whole event alive."""
    return None if raw is ABSENT or bytes(raw) == b"null" else raw.copy()


def ids_of(extras: Extras | None) -> list[int] | None:
    """The tokens an event says it carries."""
    if extras is None or extras.token_ids is None:
        return None
    try:
        return msgspec.json.decode(extras.token_ids, type=list[int])
    except msgspec.DecodeError:
        return None


def without_ids(extras: Extras | None) -> Extras | None:
    """For a client that did not ask for them."""
    if extras is None or extras.token_ids is None:
        return extras
    rest = Extras(extras.logprobs, None, extras.stop_reason, extras.matched_stop)
    return None if rest == Extras() else rest


def read_error(data: bytes | msgspec.Raw) -> EngineErrorBody:
    """An engine's error, nested under `error` (vLLM, llama.cpp) or flat (SGLang), or anything else as its text.

    The message is cut at 2,000 characters.
    """
    try:
        found: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return EngineErrorBody(message=bytes(data)[:2000].decode("utf-8", "replace"))
    if isinstance(found, dict) and "error" in found:
        found = found["error"]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(found, str):
        return EngineErrorBody(message=found[:2000])
    if not isinstance(found, dict):
        return EngineErrorBody()
    fields: dict[str, Any] = found  # pyright: ignore[reportUnknownVariableType]
    message, kind, param, code = (fields.get(name) for name in ("message", "type", "param", "code"))
    return EngineErrorBody(
        message=str(message)[:2000] if message else "",
        type=kind if isinstance(kind, str) else None,
        param=param if isinstance(param, str) else None,
        code=code if isinstance(code, int) and not isinstance(code, bool) else None,
    )
