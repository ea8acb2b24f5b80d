"""Deltas → event bytes: names of the thought, raw pass-through, inline marks, usage and the end of a stream."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from gateway import sse
from gateway.account import Account
from gateway.api.emit import INLINE_CLOSE, INLINE_OPEN, Emitter, usage_of
from gateway.config import ReasoningOutput
from gateway.deltas import Begin, Delta, Extras, Finish, Opaque, Text, ToolCalls
from gateway.engines import Call
from gateway.landing import Landing
from gateway.output import Output
from gateway.reading import AnswerReader, Identity
from parsers import Field, Start, lookup
from tests.scripted import chunk

ENGINE = Identity("e-1", 7, "m")
OTHER = Identity("e-2", 8, "m")


def parse(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(event) for event in sse.Splitter().feed(data) if event != sse.DONE]


def landing(*finishes: Finish, account: Account | None = None) -> Landing:
    return Landing(list(finishes), account or Account(3, 5, 2), {"route": "standard"})


def delta_of(data: bytes) -> dict[str, Any]:
    [event] = parse(data)
    return event["choices"][0]["delta"]


def thought(text: str, key: str = "reasoning", **rest: Any) -> Text:
    raw = json.dumps({"choices": [{"index": 0, "delta": {key: text}, **rest}]}, ensure_ascii=False).encode()
    return Text(0, Field.REASONING, text, raw=raw, raw_key=key)


@pytest.mark.parametrize(
    ("output", "delta"),
    [
        (ReasoningOutput.REASONING_CONTENT, {"reasoning_content": "hm"}),
        (ReasoningOutput.REASONING, {"reasoning": "hm"}),
        (ReasoningOutput.BOTH, {"reasoning_content": "hm", "reasoning": "hm"}),
        (ReasoningOutput.INLINE, {"content": INLINE_OPEN + "hm"}),
    ],
)
@pytest.mark.parametrize("key", ["", "reasoning", "reasoning_content"])
def test_a_thought_has_the_name_the_client_wants(output: ReasoningOutput, delta: dict[str, str], key: str) -> None:
    said = thought("hm", key) if key else Text(0, Field.REASONING, "hm")
    assert delta_of(Emitter("m", Output(output)).encode([said], ENGINE)) == delta


def test_a_hidden_thought_leaves_nothing_behind() -> None:
    emitter = Emitter("m", Output(ReasoningOutput.HIDDEN))
    assert emitter.encode([thought("secret"), Text(0, Field.REASONING, "secret")], ENGINE) == b""


NASTY = [
    '"reasoning":"x"',
    '\\"reasoning\\":',
    "\\",
    '"',
    "reasoning",
    "思考😀\u2028",
    "line\nbreak\r\n",
    "data: [DONE]\n\n",
    "\x00\x7f",
    "</think>",
]


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_renaming_in_raw_bytes_changes_the_key_and_nothing_else(text: str, ascii_only: bool) -> None:
    before = {
        "id": '"reasoning":',
        "model": "m",
        "choices": [{"index": 0, "delta": {"reasoning": text}, "x": '"reasoning":'}],
    }
    raw = json.dumps(before, ensure_ascii=ascii_only).encode()
    said = Text(0, Field.REASONING, text, raw=raw, raw_key="reasoning")
    [after] = parse(Emitter("m", Output(ReasoningOutput.REASONING_CONTENT)).encode([said], ENGINE))
    assert after["choices"][0].pop("delta") == {"reasoning_content": text}
    before["choices"][0].pop("delta")  # type: ignore[attr-defined]
    assert after == before


@pytest.mark.parametrize("output", [ReasoningOutput.REASONING, ReasoningOutput.REASONING_CONTENT])
@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hm", "reasoning": None},
        {"reasoning": "hm", "reasoning_content": None},
        {"reasoning": "hm", "reasoning_content": ""},
        {"reasoning": "hm", "reasoning_content": "hm"},
    ],
)
def test_an_engine_that_sends_both_names_loses_no_thought(
    output: ReasoningOutput, delta: dict[str, str | None]
) -> None:
    """Two keys of one name in one object: JSON readers take the last, which may be null."""
    reader = AnswerReader(Call("", {}, Start.OPEN, True), lookup("think"))
    data = Emitter("m", Output(output)).encode(reader.feed(chunk(delta)), ENGINE)
    assert parse(data)[-1]["choices"][0]["delta"][output] == "hm"


def test_an_event_in_several_data_lines_reaches_the_client_whole() -> None:
    reader = AnswerReader(Call("", {}, Start.OPEN, True), lookup("think"))
    deltas = reader.feed(b'data: {"model":"m","choices":\ndata: [{"index":0,"delta":{"content":"b"}}]}\n\n')
    assert reader.identity is not None
    events = parse(Emitter("m", Output(ReasoningOutput.REASONING)).encode(deltas, reader.identity))
    assert "".join(event["choices"][0]["delta"]["content"] for event in events) == "b"


def test_an_engines_own_bytes_travel_where_they_already_say_it() -> None:
    raw = b'{"id": "e-1",   "choices":[{"index":0,"delta":{"content":"a"}}],"unknown":1}'
    said = Text(0, Field.CONTENT, "a", raw=raw, raw_key="content")
    assert Emitter("m", Output(ReasoningOutput.REASONING)).encode([said], ENGINE) == sse.event(raw)
    assert Emitter("m", Output(ReasoningOutput.REASONING)).encode([Opaque(b'{"x":1}')], ENGINE) == sse.event(b'{"x":1}')


@pytest.mark.parametrize(("model", "identities"), [("alias", [ENGINE]), ("m", [ENGINE, OTHER])])
def test_raw_bytes_never_show_another_model_or_a_second_id(model: str, identities: list[Identity]) -> None:
    emitter = Emitter(model, Output(ReasoningOutput.REASONING))
    emitter.encode([Begin(0)], ENGINE)
    raw = b'{"id":"e-2","model":"m","choices":[{"index":0,"delta":{"content":"a"}}]}'
    deltas: list[Delta] = [Text(0, Field.CONTENT, "a", raw=raw, raw_key="content"), Opaque(raw)]
    [event] = parse(emitter.encode(deltas, identities[-1]))
    assert (event["id"], event["created"], event["model"]) == ("e-1", 7, model)
    assert event["object"] == "chat.completion.chunk"
    assert event["choices"][0]["delta"] == {"content": "a"}


def test_inline_opens_and_closes_once_a_choice() -> None:
    emitter = Emitter("m", Output(ReasoningOutput.INLINE))
    deltas: list[Delta] = [Begin(0), Begin(1), thought("a"), Text(1, Field.REASONING, "x"), thought("b")]
    data = emitter.encode(deltas, ENGINE) + emitter.encode(
        [Text(0, Field.CONTENT, "c"), Text(0, Field.CONTENT, "d")], ENGINE
    )
    data += emitter.land(landing(Finish(0, "stop"), Finish(1, "length")), include_usage=False)
    told = {0: "", 1: ""}
    for event in parse(data):
        for choice in event["choices"]:
            told[choice["index"]] += choice["delta"].get("content", "")
    assert told == {0: f"{INLINE_OPEN}ab{INLINE_CLOSE}cd", 1: f"{INLINE_OPEN}x{INLINE_CLOSE}"}


def test_inline_closes_before_a_tool_call() -> None:
    emitter = Emitter("m", Output(ReasoningOutput.INLINE))
    events = parse(emitter.encode([thought("a"), ToolCalls(0, msgspec.Raw(b'[{"index":0}]'))], ENGINE))
    assert [event["choices"][0]["delta"] for event in events] == [
        {"content": INLINE_OPEN + "a"},
        {"content": INLINE_CLOSE},
        {"tool_calls": [{"index": 0}]},
    ]


def test_extras_stand_where_openai_and_vllm_put_them() -> None:
    extras = Extras(msgspec.Raw(b'{"content":[]}'), msgspec.Raw(b"[1]"), msgspec.Raw(b'"END"'), msgspec.Raw(b"2"))
    [event] = parse(
        Emitter("m", Output(ReasoningOutput.REASONING)).encode([Text(0, Field.CONTENT, "a", extras=extras)], ENGINE)
    )
    choice = event["choices"][0]
    assert (choice["logprobs"], choice["token_ids"], choice["stop_reason"], choice["matched_stop"]) == (
        {"content": []},
        [1],
        "END",
        2,
    )


def test_the_end_is_finishes_then_usage_without_choices_then_done() -> None:
    emitter = Emitter("m", Output(ReasoningOutput.REASONING))
    emitter.encode([Begin(0), Begin(1)], ENGINE)
    data = emitter.land(landing(Finish(0, "stop"), Finish(1, "length")), include_usage=True)
    assert data.endswith(sse.DONE_EVENT)
    assert data.count(sse.DONE_EVENT) == 1
    first, second, usage = parse(data)
    assert [event["choices"][0]["finish_reason"] for event in (first, second)] == ["stop", "length"]
    assert ("thinkgate" in first, second["thinkgate"]) == (False, {"route": "standard"})
    assert usage["choices"] == []
    assert usage["usage"] == usage_of(Account(3, 5, 2))
    assert all(event["id"] == "e-1" for event in (first, second, usage))


def test_usage_comes_only_to_those_who_asked() -> None:
    emitter = Emitter("m", Output(ReasoningOutput.REASONING))
    emitter.encode([Begin(0)], ENGINE)
    assert b'"usage"' not in emitter.land(landing(Finish(0, "stop")), include_usage=False)


def test_usage_is_openais_object() -> None:
    assert usage_of(Account(3, 5, 2)) == {
        "prompt_tokens": 3,
        "completion_tokens": 5,
        "total_tokens": 8,
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    assert usage_of(Account(3, 5, 2, 1))["prompt_tokens_details"] == {"cached_tokens": 1}
