"""A client request after the edge: the body as sent, checked as far as the gateway itself depends on it.

What only the engine understands is left to the engine's own 400. No HTTP and no routing in here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from budgets import Intent, IntentError, read_intent
from gateway.config import LoopAction, ReasoningOutput
from gateway.edge.errors import ApiError, bad_request
from gateway.edge.hygiene import checked
from gateway.observe.trace import FlightTrace
from gateway.output import Output, read_output

MAX_CHOICES = 128


@dataclass(slots=True)
class Query:
    """One chat request. `body` holds what may travel on; `limit` is the most completion tokens, None if unset."""

    body: dict[str, Any]
    model: str
    messages: list[Mapping[str, Any]]
    stream: bool
    include_usage: bool
    limit: int | None
    choices: int
    intent: Intent
    output: Output
    request_id: str
    caller: str
    loops: LoopAction | None = None
    """What an administrator wants done about loops in this request."""
    trace: FlightTrace | None = None


def decode_object(raw: bytes) -> dict[str, Any]:
    """A JSON object, or ApiError 400."""
    try:
        found: object = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise bad_request(f"The body is not valid JSON: {reason}.", code="invalid_json") from error
    if not isinstance(found, dict):
        raise bad_request("The body must be a JSON object.", code="invalid_json")
    return cast("dict[str, Any]", found)


def encode_object(body: Mapping[str, Any]) -> bytes:
    """A body as JSON for an engine, or ApiError 400: what was decoded low in the stack may be too deep higher up."""
    try:
        return msgspec.json.encode(body)
    except RecursionError as error:
        raise bad_request("The body is nested too deeply.", code="invalid_json") from error


def read_chat(
    raw: bytes,
    *,
    output: ReasoningOutput,
    request_id: str,
    caller: str,
    budget_header: str | None = None,
    loops: LoopAction | None = None,
) -> Query:
    """The Query of a chat-completions body. Raises ApiError (400) with the field it is about."""
    body = decode_object(raw)
    model = _model(body)
    messages = _messages(body.get("messages"))
    stream = _boolean(body, "stream")
    options = _stream_options(body, stream=stream)
    choices = _integer(body, "n", 1, MAX_CHOICES) or 1
    limits = [
        limit
        for name in ("max_tokens", "max_completion_tokens")
        if (limit := _integer(body, name, 1, None)) is not None
    ]
    try:
        intent = read_intent(body, budget_header)
    except IntentError as error:
        raise of_intent(error) from error
    return Query(
        body=checked(body),
        model=model,
        messages=messages,
        stream=stream,
        include_usage=bool(options.get("include_usage")),
        limit=min(limits, default=None),
        choices=choices,
        intent=intent,
        output=read_output(body, output, visible=intent.visible),
        request_id=request_id,
        caller=caller,
        loops=loops,
    )


def of_intent(error: IntentError) -> ApiError:
    """A thinking control that cannot be honoured, as a client's error."""
    return bad_request(error.message, param=error.param, code=error.code)


def _model(body: Mapping[str, Any]) -> str:
    model = body.get("model")
    if model is None:
        raise bad_request("`model` is missing.", param="model", code="missing_required_parameter")
    if not isinstance(model, str) or not model:
        raise bad_request("`model` must be a non-empty string.", param="model", code="invalid_type")
    return model


def _messages(value: object) -> list[Mapping[str, Any]]:
    if value is None:
        raise bad_request("`messages` is missing.", param="messages", code="missing_required_parameter")
    if not isinstance(value, list):
        raise bad_request("`messages` must be an array.", param="messages", code="invalid_type")
    messages = cast("list[object]", value)
    if not messages:
        raise bad_request("`messages` must not be empty.", param="messages", code="empty_array")
    for place, message in enumerate(messages):
        where = f"messages[{place}]"
        if not isinstance(message, dict):
            raise bad_request(f"`{where}` must be an object.", param=where, code="invalid_type")
        fields = cast("dict[str, Any]", message)
        if not isinstance(fields.get("role"), str):
            raise bad_request(f"`{where}.role` must be a string.", param=f"{where}.role", code="invalid_type")
        if not isinstance(fields.get("content"), str | list | None):
            raise bad_request(
                f"`{where}.content` must be a string, an array of parts or null.",
                param=f"{where}.content",
                code="invalid_type",
            )
    return cast("list[Mapping[str, Any]]", messages)


def _boolean(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise bad_request(f"`{name}` must be true or false.", param=name, code="invalid_type")


def _integer(body: Mapping[str, Any], name: str, low: int, high: int | None) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad_request(f"`{name}` must be an integer.", param=name, code="invalid_type")
    if value < low or (high is not None and value > high):
        bounds = f"at least {low}" if high is None else f"between {low} and {high}"
        raise bad_request(f"`{name}` must be {bounds}.", param=name, code="invalid_value")
    return value


def _stream_options(body: Mapping[str, Any], *, stream: bool) -> Mapping[str, Any]:
    options = body.get("stream_options")
    if options is None:
        return {}
    if not isinstance(options, dict):
        raise bad_request("`stream_options` must be an object.", param="stream_options", code="invalid_type")
    if not stream:
        raise bad_request("`stream_options` needs `stream: true`.", param="stream_options", code="invalid_value")
    return cast("dict[str, Any]", options)
