"""A generation request as every engine reads it: checked, its prompt understood, its script chosen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.doubles.checks import check_body
from tests.doubles.engine import Double, Refused
from tests.doubles.exchange import Exchange
from tests.doubles.mind import VOCABULARY, Turn, render, text_of
from tests.doubles.script import Script, script_for
from tests.doubles.speech import arm


def read_body(
    double: Double, exchange: Exchange, *, chat: bool, foreign: frozenset[str], required: bool = True
) -> dict[str, Any]:
    """The JSON object of a request, or the engine's refusal; what a gateway should not send is noted."""
    try:
        body = json.loads(exchange.body)
    except ValueError as error:
        double.violate("malformed-json", str(error))
        raise Refused(400, f"JSON decode error: {error}", kind="json") from None
    if not isinstance(body, dict):
        double.violate("not-an-object", type(body).__name__)
        raise Refused(400, "Input should be a valid dictionary", kind="json")
    for said in check_body(
        body, exchange.body, chat=chat, foreign=foreign, expected=double.expected, streamed=double.streamed
    ):
        double.violate(*said)
    if required and chat and not body.get("messages"):
        raise Refused(400, "'messages' is required", kind="messages", param="messages")
    return body


def chat_turn(messages: Sequence[dict[str, Any]], *, thinking: bool, opens: bool) -> Turn:
    """A turn that starts afresh after these messages."""
    turn = Turn(user=last_user(messages), thinking=thinking, opened=thinking and opens)
    turn.prompt_tokens = len(VOCABULARY.encode(render(messages, thinking=thinking, opens=opens)))
    return turn


def last_user(messages: Sequence[dict[str, Any]]) -> str:
    return next((text_of(message) for message in reversed(messages) if message.get("role") == "user"), "")


def choose_script(double: Double, turn: Turn) -> Script:
    try:
        script = script_for(turn.user, double.default)
    except ValueError as error:
        double.violate("bad-control", str(error))
        raise Refused(400, str(error)) from None
    script = arm(double, script) if double.speaks else script.without_faults()
    return replace(script, asked=script.key, **turn.recast) if turn.recast else script


def thinking_wanted(body: dict[str, Any], *, default: bool = True) -> bool:
    """The template's switch, as `chat_template_kwargs` (or an effort of none) sets it. Only JSON booleans count."""
    kwargs = body.get("chat_template_kwargs")
    kwargs = kwargs if isinstance(kwargs, dict) else {}
    for name in ("enable_thinking", "thinking"):
        if isinstance(kwargs.get(name), bool):
            return kwargs[name]
    return False if body.get("reasoning_effort") == "none" else default


def limit_of(body: dict[str, Any]) -> int | None:
    given = [body[name] for name in ("max_completion_tokens", "max_tokens") if isinstance(body.get(name), int)]
    return min(given) if given else None


def stream_wish(body: dict[str, Any]) -> tuple[bool, bool, bool]:
    """Streamed, with a usage chunk, with usage in every chunk."""
    options = body.get("stream_options")
    options = options if isinstance(options, dict) else {}
    return bool(body.get("stream")), bool(options.get("include_usage")), bool(options.get("continuous_usage_stats"))
