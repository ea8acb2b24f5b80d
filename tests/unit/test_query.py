"""A chat body → Query: what is checked here, what is left to the engine, and how a refusal reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from budgets import Mode
from gateway.config import ReasoningOutput
from gateway.edge.errors import ApiError
from gateway.output import Output
from gateway.query import Query, read_chat

MESSAGES = [{"role": "user", "content": "hi"}]


def read(body: dict[str, Any], header: str | None = None) -> Query:
    raw = json.dumps({"model": "m", "messages": MESSAGES, **body}).encode()
    return read_chat(raw, output=ReasoningOutput.BOTH, request_id="r", caller="k", budget_header=header)


def refused(raw: bytes) -> ApiError:
    with pytest.raises(ApiError) as caught:
        read_chat(raw, output=ReasoningOutput.BOTH, request_id="r", caller="k")
    assert caught.value.status == 400
    assert caught.value.type == "invalid_request_error"
    return caught.value


def test_a_plain_request() -> None:
    query = read({})
    assert (query.model, query.messages, query.stream, query.choices, query.limit) == ("m", MESSAGES, False, 1, None)
    assert (query.output, query.request_id, query.caller) == (Output(ReasoningOutput.BOTH), "r", "k")
    assert query.intent.mode is Mode.AUTO


def test_unknown_fields_travel_as_they_came() -> None:
    unknown = {"min_p": 0.1, "vllm_xargs": {"a": 1}, "seed": 10**30, "nested": {"deep": [None, True]}}
    body = read(unknown).body
    assert {name: body[name] for name in unknown} == unknown


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 9}, 5),
        ({"max_tokens": 9, "max_completion_tokens": 5}, 5),
        ({"max_tokens": None}, None),
    ],
)
def test_the_smaller_limit_counts(body: dict[str, Any], limit: int | None) -> None:
    assert read(body).limit == limit


def test_the_stream_and_its_usage() -> None:
    query = read({"stream": True, "stream_options": {"include_usage": True}})
    assert (query.stream, query.include_usage) == (True, True)
    assert not read({"stream": True}).include_usage
    assert not read({"stream": None, "stream_options": None}).stream


def test_who_wants_no_thoughts_gets_none_and_who_asks_by_header_is_heard() -> None:
    assert read({"include_reasoning": False}).output.reasoning is ReasoningOutput.HIDDEN
    assert read({}, "512").intent.cap == 512


@pytest.mark.parametrize("content", ["hi", None, [{"type": "text", "text": "hi"}], [1]])
def test_contents_of_every_shape_an_engine_may_know(content: object) -> None:
    assert read({"messages": [{"role": "user", "content": content}]}).messages[0]["content"] == content


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"model": None}, "model", "missing_required_parameter"),
        ({"model": ""}, "model", "invalid_type"),
        ({"model": 3}, "model", "invalid_type"),
        ({"messages": None}, "messages", "missing_required_parameter"),
        ({"messages": {}}, "messages", "invalid_type"),
        ({"messages": []}, "messages", "empty_array"),
        ({"messages": [*MESSAGES, "hi"]}, "messages[1]", "invalid_type"),
        ({"messages": [{"content": "hi"}]}, "messages[0].role", "invalid_type"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content", "invalid_type"),
        ({"stream": 1}, "stream", "invalid_type"),
        ({"stream": True, "stream_options": 1}, "stream_options", "invalid_type"),
        ({"stream_options": {}}, "stream_options", "invalid_value"),
        ({"n": 0}, "n", "invalid_value"),
        ({"n": 129}, "n", "invalid_value"),
        ({"n": 1.5}, "n", "invalid_type"),
        ({"n": True}, "n", "invalid_type"),
        ({"max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"max_tokens": "5"}, "max_tokens", "invalid_type"),
        ({"max_completion_tokens": -1}, "max_completion_tokens", "invalid_value"),
        ({"reasoning_effort": "much"}, "reasoning_effort", "invalid_value"),
        ({"thinking": {"type": []}}, "thinking.type", "invalid_value"),
        ({"enable_thinking": False, "thinking_budget": 5}, "enable_thinking", "conflicting_thinking_params"),
        ({"kv_transfer_params": {}}, "kv_transfer_params", "forbidden_field"),
    ],
)
def test_a_refusal_names_its_field(body: dict[str, Any], param: str, code: str) -> None:
    error = refused(json.dumps({"model": "m", "messages": MESSAGES, **body}).encode())
    assert (error.param, error.code) == (param, code)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"null",
        b"\xff",
        b'{"model":"\xff"}',
        b'{"model":"\\ud83d"}',
        b'{"a":NaN}',
        b'{"a":1e999}',
        b'{"a":' + b"1" * 100_000 + b"}",
        b'{"a":' + b"[" * 100_000,
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"model":"m"} {}',
    ],
    ids=lambda raw: repr(raw[:24]),
)
def test_what_is_not_a_json_object_is_refused(raw: bytes) -> None:
    assert refused(raw).code == "invalid_json"
