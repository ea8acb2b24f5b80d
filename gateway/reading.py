"""An engine's bytes → deltas: framing, decoding and parsing of one leg's answer, as one pure state machine.

Fed with whatever one read of a socket gave, it says what that means, and whether the engine is done or has failed.
Any split of the bytes gives the same deltas, but for how many of them carry their raw event. No I/O, no decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from gateway import sse
from gateway.deltas import Begin, Delta, Extras, Finish, Opaque, Text, ToolCalls, Usage
from gateway.edge.errors import ApiError, engine_broke_off, engine_refused
from gateway.engines import Call
from gateway.wire import (
    EngineErrorBody,
    MalformedEvent,
    WireChoice,
    WireChunk,
    WireDelta,
    decode,
    extras_of,
    ids_of,
    mended,
    merged,
    parted,
    read_error,
    said,
    without_ids,
)
from parsers import ChoiceParser, Format, Piece, read_content, read_reasoning

INTERNAL = (b'"kv_transfer_params"', b'"ec_transfer_params"')
"""What engines tell each other beside an answer: addresses, and where another request's cache lies."""


class Identity(msgspec.Struct, frozen=True):
    """How the engine names its answer."""

    id: str
    created: int
    model: str


class Prompt(msgspec.Struct, frozen=True):
    """The prompt's length in tokens, of which `cached` came from the engine's prefix cache."""

    tokens: int
    cached: int | None = None
    ids: tuple[int, ...] = ()
    """Its token ids, where the engine told them."""


class AnswerReader:
    """One answer. After `is_over` nothing more is taken in; `failure` says that it ended badly."""

    __slots__ = (
        "_deltas",
        "_finished",
        "_format",
        "_hides_ids",
        "_hides_usage",
        "_is_bound",
        "_misfiled",
        "_splits",
        "_splitter",
        "_start",
        "_tools",
        "_voices",
        "failure",
        "identity",
        "is_over",
        "prompt",
    )  # fmt: skip

    def __init__(self, call: Call, format: Format) -> None:  # noqa: A002 - the field's word
        self.identity: Identity | None = None
        self.failure: ApiError | None = None
        self.is_over = False
        self.prompt: Prompt | None = None
        self._format = format
        self._start = call.start
        self._splits = call.engine_splits
        self._tools = bool(call.body.get("tools"))
        self._hides_ids = call.hides_ids
        self._hides_usage = call.hides_usage
        self._misfiled = call.misfiled
        self._is_bound = call.engine_splits is not True and _wants_json(call.body)
        self._splitter = sse.Splitter()
        self._voices: dict[int, _Voice] = {}
        self._finished: set[int] = set()
        self._deltas: list[Delta] = []

    def feed(self, data: bytes) -> list[Delta]:
        """What these bytes mean; b"" is the end of the stream."""
        try:
            events = self._splitter.feed(data) if data else self._splitter.finish()
        except sse.EventTooLong as error:
            self._fail(engine_broke_off(f"The engine's stream is not readable: {error}."))
            return []
        for event in events:
            if self.is_over:
                break
            self._take(event)
        if not data and not self.is_over:
            self._at_eof()
        deltas, self._deltas = self._deltas, []
        return deltas

    def fail(self, error: ApiError) -> None:
        """The transport broke."""
        self._fail(error)

    def _fail(self, error: ApiError) -> None:
        self.failure = error
        self.is_over = True

    def _at_eof(self) -> None:
        """Complete is a finish reason for every choice, with or without `[DONE]`; anything else broke off."""
        if self._is_complete:
            self.is_over = True
        else:
            self._fail(engine_broke_off("The engine's stream ended in the midst of the answer."))

    @property
    def _is_complete(self) -> bool:
        return bool(self._finished) and len(self._finished) == len(self._voices)

    def _take(self, event: bytes) -> None:
        if event == sse.DONE:
            if self._is_complete:
                self.is_over = True
            else:
                self._fail(engine_broke_off("The engine's stream ended without a finish reason."))
            return
        try:
            event, chunk = _understood(event)
        except MalformedEvent:
            body = read_error(event) if event.startswith(b"{") and b'"error"' in event else None
            self._fail(_refused(body) if body else engine_broke_off("The engine's stream is not readable."))
            return
        if said(chunk.error) is not None or chunk.object == "error":
            self._fail(_refused(read_error(event)))
            return
        if self.identity is None:
            self.identity = Identity(chunk.id or "", int(chunk.created or 0), chunk.model or "")
        if chunk.prompt_progress is not None:
            self.prompt = Prompt(chunk.prompt_progress.total, chunk.prompt_progress.cache)
        if chunk.prompt_token_ids:
            self.prompt = Prompt(len(chunk.prompt_token_ids), ids=tuple(chunk.prompt_token_ids))
        choices = chunk.choices or ()
        usage = chunk.usage
        is_only_choice = len(choices) == 1
        if is_only_choice:
            self._note_total(choices[0].index, chunk)
        hides = self._hides_usage and (usage is not None or chunk.timings is not None)
        is_internal = any(name in event for name in INTERNAL)
        passes = is_only_choice and not hides and not is_internal
        for choice in choices:
            self._take_choice(choice, event if passes else None)
        if usage is not None and usage.completion_tokens is not None:
            details = usage.prompt_tokens_details
            cached = details.cached_tokens if details is not None else None
            self._deltas.append(Usage(usage.prompt_tokens or 0, usage.completion_tokens, cached, bool(choices)))
        elif not choices and chunk.prompt_progress is None and not is_internal:
            self._deltas.append(Opaque(event))

    def _note_total(self, index: int, chunk: WireChunk) -> None:
        """What a running total has grown by belongs to the text that comes next: exact however many tokens an event
        holds, and however much of it is withheld."""
        timings, usage = chunk.timings, chunk.usage
        total = timings.predicted_n if timings is not None else usage.completion_tokens if usage is not None else None
        if total is None:
            return
        voice = self._voice(index)
        voice.owed = (voice.owed or 0) + max(0, total - voice.total)
        voice.total = total

    def _take_choice(self, choice: WireChoice, event: bytes | None) -> None:
        """`event` is the whole event, where this choice is all it holds."""
        delta, index = choice.delta, choice.index
        reasoning: str | None = None
        if delta is None:  # /v1/completions
            content, key, calls = choice.text, "text", None
        else:
            reasoning, calls = delta.reasoning_content or delta.reasoning, said(delta.tool_calls)
            if isinstance(delta.content, list) or delta.thinking or (delta.reasoning_details and not reasoning):
                reasoning, content = _of_hosted(delta)
                event = None
            else:
                content = delta.content
            if self._misfiled and reasoning:
                content, reasoning, event = reasoning + (content or ""), None, None
            key = "content" if content else "reasoning_content" if delta.reasoning_content else "reasoning"
        voice = self._voice(index)
        extras, ending = extras_of(choice), None
        if extras is not None and choice.finish_reason is not None:  # what stopped it belongs to the end, not to a word
            extras, ending = parted(extras)
        if extras is not None or voice.held is not None:
            extras, event = merged(voice.held, extras), event if voice.held is None else None
            voice.held = None
        if content or reasoning:
            pieces = voice.parser.feed(reasoning=reasoning, content=content)
            is_plain = calls is None and choice.finish_reason is None and not (content and reasoning)
            whole = event if is_plain and len(pieces) == 1 and pieces[0].text == (content or reasoning) else None
            extras = self._speak(voice, pieces, extras, whole, key)
        if calls is not None:
            extras = self._speak(voice, voice.parser.finish(), extras)
            self._deltas.append(ToolCalls(index, calls, without_ids(extras) if self._hides_ids else extras))
            extras = None
        if choice.finish_reason is not None:
            extras = self._speak(voice, voice.parser.finish(), extras)
            self._finished.add(index)
            last = without_ids(extras) if self._hides_ids else extras
            self._deltas.append(Finish(index, choice.finish_reason, merged(last, ending)))
        else:
            voice.held = extras  # of a token whose text is withheld, or has none: they go with the next

    def _speak(
        self, voice: _Voice, pieces: list[Piece], extras: Extras | None, event: bytes | None = None, key: str = ""
    ) -> Extras | None:
        """Tell the pieces. Extras and tokens go with the first; what is returned has found no text to go with."""
        if not pieces:
            return extras
        told = ids_of(extras)
        if told is not None and self._hides_ids:
            extras, event = without_ids(extras), None
        tokens = voice.owed if told is None else len(told)
        voice.owed = None if voice.owed is None else 0
        for piece in pieces:
            # Of an event that holds both, thought and answer, nobody says which id is whose.
            ids = told if len(pieces) == 1 else None
            self._deltas.append(Text(voice.index, piece.field, piece.text, tokens, extras, event, key, ids))
            extras, tokens = None, None if tokens is None else 0
        return None

    def _voice(self, index: int) -> _Voice:
        voice = self._voices.get(index)
        if voice is None:
            parser = ChoiceParser(
                self._format,
                self._start,
                tools=self._tools,
                structured=self._is_bound,
                engine_splits=self._splits,
            )
            voice = self._voices[index] = _Voice(index, parser)
            self._deltas.append(Begin(index))
        return voice


class _Voice:
    """One choice: its parser, the extras that wait for a text to go with, and what an engine's running total says."""

    __slots__ = ("held", "index", "owed", "parser", "total")

    def __init__(self, index: int, parser: ChoiceParser) -> None:
        self.index = index
        self.parser = parser
        self.held: Extras | None = None
        self.total = 0
        self.owed: int | None = None
        """Tokens that no text was told with yet; None where the engine keeps no running total."""


def _of_hosted(delta: WireDelta) -> tuple[str | None, str | None]:
    """(reasoning, content) of a delta in the words of a hosted API: Mistral's chunks, OpenRouter's details."""
    fields = msgspec.structs.asdict(delta)
    return read_reasoning(fields), read_content(fields)


def _wants_json(body: Mapping[str, Any]) -> bool:
    wanted = body.get("response_format")
    return isinstance(wanted, dict) and cast("dict[str, Any]", wanted).get("type") in ("json_object", "json_schema")


def _understood(event: bytes) -> tuple[bytes, WireChunk]:
    """The chunk of an event, and the event, mended where it held what is no text. Raises MalformedEvent."""
    try:
        return event, decode(event)
    except MalformedEvent:
        event = mended(event)
        return event, decode(event)


def without_internals(event: bytes) -> bytes:
    """A JSON object without what engines tell each other."""
    if not any(name in event for name in INTERNAL):
        return event
    fields = msgspec.json.decode(event, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({name: value for name, value in fields.items() if f'"{name}"'.encode() not in INTERNAL})


def failure_in(event: bytes) -> ApiError | None:
    """What an event says has failed; None for any other event, whatever it is."""
    if b'"error"' not in event:
        return None
    try:
        _, chunk = _understood(event)
    except MalformedEvent:
        return None
    return _refused(read_error(event)) if said(chunk.error) is not None or chunk.object == "error" else None


def _refused(body: EngineErrorBody) -> ApiError:
    status = body.code if body.code is not None and 400 <= body.code < 600 else 500
    return engine_refused(status, body, {})
