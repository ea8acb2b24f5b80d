"""Deltas → one `chat.completion` body."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from gateway.account import Account
from gateway.api.emit import INLINE_CLOSE, INLINE_OPEN
from gateway.api.whole import Assembler
from gateway.config import ReasoningOutput
from gateway.deltas import Begin, Delta, Extras, Finish, Text, ToolCalls
from gateway.landing import Landing
from gateway.reading import Identity
from parsers import Field

ENGINE = Identity("e-1", 7, "engine-name")
THOUGHT, ANSWER = Text(0, Field.REASONING, "hm"), Text(0, Field.CONTENT, "yes")


def body(
    deltas: list[Delta], *finishes: Finish, output: ReasoningOutput = ReasoningOutput.REASONING_CONTENT
) -> dict[str, Any]:
    assembler = Assembler("shown", output)
    assembler.add(deltas, ENGINE)
    return json.loads(assembler.body(Landing(list(finishes), Account(3, 5, 2), {"route": "standard"})))


def test_the_whole_answer() -> None:
    assert body([Begin(0), THOUGHT, ANSWER], Finish(0, "stop")) == {
        "id": "e-1",
        "object": "chat.completion",
        "created": 7,
        "model": "shown",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "yes", "reasoning_content": "hm"},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 5,
            "total_tokens": 8,
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
        "thinkgate": {"route": "standard"},
    }


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (ReasoningOutput.REASONING, {"content": "yes", "reasoning": "hm"}),
        (ReasoningOutput.BOTH, {"content": "yes", "reasoning": "hm", "reasoning_content": "hm"}),
        (ReasoningOutput.INLINE, {"content": f"{INLINE_OPEN}hm{INLINE_CLOSE}yes"}),
        (ReasoningOutput.HIDDEN, {"content": "yes"}),
    ],
)
def test_a_thought_has_the_name_the_client_wants(output: ReasoningOutput, message: dict[str, str]) -> None:
    found = body([Begin(0), THOUGHT, ANSWER], Finish(0, "stop"), output=output)
    assert found["choices"][0]["message"] == {"role": "assistant", **message}


def test_the_name_of_the_thought_is_there_also_without_one() -> None:
    assert body([Begin(0), ANSWER], Finish(0, "stop"))["choices"][0]["message"]["reasoning_content"] is None


def test_choices_are_kept_apart() -> None:
    found = body([Begin(1), Begin(0), ANSWER, Text(1, Field.CONTENT, "no")], Finish(0, "stop"), Finish(1, "length"))
    assert [(c["index"], c["message"]["content"], c["finish_reason"]) for c in found["choices"]] == [
        (0, "yes", "stop"),
        (1, "no", "length"),
    ]


def fragment(text: str) -> ToolCalls:
    return ToolCalls(0, msgspec.Raw(text.encode()))


def test_tool_calls_are_merged_from_their_fragments() -> None:
    deltas: list[Delta] = [
        Begin(0),
        fragment('[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":""}}]'),
        fragment('[{"index":0,"id":"a","type":"function","function":{"name":"f"}}]'),
        fragment('[{"index":0,"function":{"arguments":"{\\"x\\":"}},{"index":1,"function":{"arguments":"{}"}}]'),
        fragment('[{"index":0,"function":{"arguments":" 1}"}}]'),
    ]
    message = body(deltas, Finish(0, "tool_calls"))["choices"][0]["message"]
    assert message["content"] is None
    assert message["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]


@pytest.mark.parametrize(
    "garbage", ["{}", "[1]", '[{"function": 3}]', '[{"function": {"arguments": {"a": 1}}}]', '[{"index": "x"}]']
)
def test_garbled_tool_calls_do_not_lose_the_answer(garbage: str) -> None:
    assert body([Begin(0), ANSWER, fragment(garbage)], Finish(0, "stop"))["choices"][0]["message"]["content"] == "yes"


def test_extras_are_put_together() -> None:
    first = Extras(msgspec.Raw(b'{"content":[{"token":"a"}]}'), msgspec.Raw(b"[1]"))
    second = Extras(msgspec.Raw(b'{"content":[{"token":"b"}]}'), msgspec.Raw(b"[2,3]"))
    last = Extras(stop_reason=msgspec.Raw(b'"END"'))
    deltas: list[Delta] = [Text(0, Field.CONTENT, "a", extras=first), Text(0, Field.CONTENT, "b", extras=second)]
    choice = body([Begin(0), *deltas], Finish(0, "stop", last))["choices"][0]
    assert choice["logprobs"] == {"content": [{"token": "a"}, {"token": "b"}]}
    assert choice["token_ids"] == [1, 2, 3]
    assert choice["stop_reason"] == "END"


def test_garbled_extras_do_not_lose_the_answer() -> None:
    extras = Extras(msgspec.Raw(b"[]"), msgspec.Raw(b'"x"'))
    choice = body([Begin(0), Text(0, Field.CONTENT, "a", extras=extras)], Finish(0, "stop"))["choices"][0]
    assert (choice["message"]["content"], choice["logprobs"]) == ("a", None)


def test_a_hidden_thought_leaves_no_tokens_behind_either() -> None:
    extras = Extras(msgspec.Raw(b'{"content":[{"token":"secret"}]}'), msgspec.Raw(b"[1]"))
    deltas: list[Delta] = [Begin(0), Text(0, Field.REASONING, "secret", extras=extras), ANSWER]
    choice = body(deltas, Finish(0, "stop"), output=ReasoningOutput.HIDDEN)["choices"][0]
    assert "secret" not in json.dumps(choice)
    assert "token_ids" not in choice


def test_the_first_leg_names_the_answer() -> None:
    assembler = Assembler("shown", ReasoningOutput.REASONING)
    assembler.add([Begin(0)], ENGINE)
    assembler.add([ANSWER], Identity("e-2", 9, "engine-name"))
    found = json.loads(assembler.body(Landing([Finish(0, "stop")], Account(), {})))
    assert (found["id"], found["created"]) == ("e-1", 7)
