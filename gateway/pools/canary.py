"""A canary: a few tokens through the route that clients take, before a worker gets any of their requests.

A server that answers its health checks may still be compiling, may hold another model, or may generate nonsense. Only a
generation shows. What is asked and what is made of the answer; who asks, and when, is `health`'s.
"""

from __future__ import annotations

from typing import Any

import msgspec

from budgets import How, Plan
from gateway import sse
from gateway.engines import Dialect, Profile
from gateway.engines.capabilities import Ask

TOKENS = 8
QUESTION: dict[str, Any] = {"messages": [{"role": "user", "content": "Say hello."}]}
PLAN = Plan(How.NONE, None, 1, TOKENS, "canary")

MEANINGFUL = 8
"""Characters of an answer from which one that has but one character is a flood."""


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] | None = None
    error: object = None


async def canary(ask: Ask, dialect: Dialect, profile: Profile) -> str | None:
    """Why the worker does not generate as it should; None if it does. Raises httpx.HTTPError."""
    call = dialect.chat(QUESTION, profile, PLAN)
    status, answer = await ask("POST", call.path, call.body)
    if status != 200:
        return f"a generation is answered with {status}"
    try:
        events = [event for event in sse.Splitter().feed(answer) if event != sse.DONE]
        told = [msgspec.json.decode(event, type=_Event) for event in events]
    except (msgspec.DecodeError, sse.EventTooLong):
        return "a generation is answered with something else than events"
    if any(event.error for event in told):
        return "a generation ends in an error"
    choices = [choice for event in told for choice in event.choices or ()]
    if all(choice.finish_reason is None for choice in choices):
        return "a generation does not come to an end"
    said = (choice.delta for choice in choices if choice.delta is not None)
    text = "".join((one.content or "") + (one.reasoning_content or one.reasoning or "") for one in said)
    if len(text) >= MEANINGFUL and len(set(text)) == 1:
        return "it generates nothing but one character"
    return None
