"""What an answer after a cut must still be: bound to a schema, or a parsed tool call; and answers without a thought."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import validate

from tests.engines.conftest import BARE, EMBEDDED, PHRASE, VLLM, on
from tests.engines.told import STORY, Told, ask, tell
from tests.engines.under_test import IDLE, Engine
from tests.harness import Gateway

CAP = 16
WITH_TOOLS = [(VLLM, "cut"), (VLLM, "native"), (EMBEDDED, "cut")]
PLACES = [*WITH_TOOLS, (BARE, "cut")]
"""Engines and pools. Without a reasoning parser vLLM binds to a tool or a schema from the first token on: no thought is
possible then, only the answer can be looked at."""

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "size": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["city", "size"],
    "additionalProperties": False,
}
WHERE: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "get_weather", "description": "The weather in a city", "parameters": WHERE, "strict": True},
}
ONCE: list[dict[str, Any]] = [
    {"role": "user", "content": "What is the weather in Paris?"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
        ],
    },
    {"role": "user", "content": "What is the weather in Rome?"},
]
"""A model this small calls a tool where it has just seen how: one call, and the like of it asked again."""
EAGER, TOO_EAGER = 2, 5
"""Added to the odds of the first token of a call, where a choice of tool does not bind the answer: enough for a call in
the answer, and so much that it is begun in the thought and never ended."""


def assert_held(told: Told) -> None:
    """The thought ended at its cap, whoever ended it."""
    assert told.thinking["cap"] == CAP
    assert told.thinking["tokens"] <= CAP + 1
    injected = told.thinking["injected_tokens"] if PHRASE in told.thought else 0
    assert told.reasoning == told.thinking["tokens"] + injected


async def eagerness(engine: Engine, odds: int) -> dict[str, Any]:
    first = (await engine.tokenize("<tool_call>"))[0]
    return {"logit_bias": {str(first): odds}}


@on("where,pool", PLACES)
async def test_a_schema_binds_the_answer(served: Gateway, engine: Engine, pool: str, streamed: bool) -> None:
    bound = {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": CITY}}
    told = await tell(served, ask(pool, "Which city is it?", streamed=streamed, cap=CAP, response_format=bound))
    assert_held(told)
    assert told.thought.strip() or engine.is_bare
    assert told.finish == "stop"
    validate(json.loads(told.answer), CITY)
    await engine.until(0, IDLE)


@on("where,pool", WITH_TOOLS)
@pytest.mark.parametrize("choice", ["auto", "required"])
async def test_a_tool_may_be_called(served: Gateway, engine: Engine, pool: str, choice: str, streamed: bool) -> None:
    """Left to itself the model may call or tell; told to call it must, and its call is a call, not a text."""
    tools: dict[str, Any] = {"tools": [TOOL], "tool_choice": choice, "messages": ONCE}
    if engine.kind == "embedded":  # there `required` forbids an end without a call, and does not begin one
        tools |= await eagerness(engine, EAGER)
    told = await tell(served, ask(pool, "", streamed=streamed, cap=CAP, **{"max_tokens": 160, **tools}))
    assert_held(told)
    assert "tool_call>" not in told.answer
    assert told.calls or told.answer.strip()
    for name, arguments in told.calls:
        assert name == "get_weather"
        validate(json.loads(arguments), WHERE)
    if choice == "required":
        assert len(told.calls) == 1
    if told.calls:
        assert told.finish == "tool_calls"
        assert told.completion > told.reasoning, "a call is no thought"
    await engine.until(0, IDLE)


@on("where", [EMBEDDED])
async def test_a_call_begun_in_the_thought_does_not_eat_the_answer(served: Gateway, engine: Engine) -> None:
    """It may be let finish; but one that never ends is cut while there is something left to answer with."""
    body = ask("cut", "", streamed=True, cap=CAP, max_tokens=160, tools=[TOOL], messages=ONCE)
    told = await tell(served, {**body, **await eagerness(engine, TOO_EAGER)})
    assert "<tool_call>" in told.thought
    assert told.thinking["ended_by"] == "cap"
    assert told.calls or told.answer.strip()


@on("where", [VLLM])
async def test_a_call_does_not_spoil_the_pool(served: Gateway, engine: Engine) -> None:
    """After tool calls, which are no thoughts, an engine that holds its cap is still known as one that does."""
    for _ in range(2):
        body = ask("native", "", streamed=True, cap=CAP, max_tokens=160)
        told = await tell(served, {**body, "tools": [TOOL], "tool_choice": "required", "messages": ONCE})
        assert told.thinking["how"] == "native"


@on("where,pool", PLACES)
async def test_without_a_thought(served: Gateway, engine: Engine, pool: str, streamed: bool) -> None:
    fields = await engine.never("</think>")
    told = await tell(served, ask(pool, STORY, streamed=streamed, enable_thinking=False, **fields))
    assert (told.thought, told.reasoning, told.legs) == ("", 0, 1)
    assert told.answer.strip()
    assert "think>" not in told.answer
    await engine.until(0, IDLE)


async def test_with_a_thought(served: Gateway, engine: Engine, streamed: bool) -> None:
    told = await tell(served, ask("native", STORY, streamed=streamed, enable_thinking=True))
    assert told.thought.strip()
    assert told.answer.strip()
    assert 0 < told.reasoning < told.completion
    await engine.until(0, IDLE)
