"""Streaming or not, a client gets the same message: what it puts together from the events is what the body says."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import sse
from gateway.account import Account
from gateway.api.emit import Emitter
from gateway.api.whole import Assembler
from gateway.config import ReasoningOutput
from gateway.deltas import Begin, Delta, Extras, Finish, Text, ToolCalls
from gateway.landing import Landing
from gateway.output import Output
from gateway.reading import Identity
from parsers import Field

ENGINE, OTHER = Identity("e-1", 7, "m"), Identity("e-2", 8, "m")
TEXTS = ["a", " b", "\n\n", "<think>", "</think>", '"reasoning":', '"', "\\", "思", "😀", "\u2028", "data: [DONE]"]
KEYS = {Field.REASONING: ["reasoning", "reasoning_content"], Field.CONTENT: ["content"]}


@st.composite
def extras(draw: st.DrawFn) -> Extras | None:
    if draw(st.integers(0, 3)):
        return None
    token = draw(st.sampled_from(TEXTS))
    logprobs = msgspec.Raw(msgspec.json.encode({"content": [{"token": token}]}))
    return Extras(logprobs, msgspec.Raw(msgspec.json.encode(draw(st.lists(st.integers(0, 9), max_size=2)))))


@st.composite
def texts(draw: st.DrawFn) -> Text:
    field, index, text = draw(st.sampled_from(list(Field))), draw(st.integers(0, 1)), draw(st.sampled_from(TEXTS))
    more = draw(extras())
    key = draw(st.sampled_from(KEYS[field]))
    raw = None
    if draw(st.booleans()):  # the engine's own event, with all that hangs on the choice
        names = () if more is None else ("logprobs", "token_ids")
        hung = {name: json.loads(bytes(getattr(more, name))) for name in names}
        event = {"id": "e-1", "object": "chat.completion.chunk", "created": 7, "model": "m"}
        event["choices"] = [{"index": index, "delta": {key: text}, "finish_reason": None, **hung}]  # type: ignore[assignment]
        raw = json.dumps(event, ensure_ascii=draw(st.booleans())).encode()
    return Text(index, field, text, None, more, raw, key if raw is not None else "")


@st.composite
def tools(draw: st.DrawFn) -> ToolCalls:
    call = {"index": draw(st.integers(0, 1)), "function": {"arguments": draw(st.sampled_from(TEXTS))}}
    if draw(st.booleans()):
        call |= {"id": "c", "type": "function"}
        call["function"]["name"] = "f"
    return ToolCalls(draw(st.integers(0, 1)), msgspec.Raw(msgspec.json.encode([call])))


reads = st.lists(st.lists(st.one_of(texts(), texts(), texts(), tools()), max_size=5), max_size=5)
outputs = st.sampled_from(list(ReasoningOutput))


def as_a_client_reads(data: bytes) -> dict[int, dict[str, Any]]:
    """The messages, as OpenAI's SDKs put them together; and the shape every event must have."""
    events = sse.Splitter().feed(data)
    assert events[-1] == sse.DONE
    assert events.count(sse.DONE) == 1
    choices: dict[int, dict[str, Any]] = {}
    for event in map(json.loads, events[:-1]):
        assert event["object"] == "chat.completion.chunk"
        assert (event["id"], event["created"], event["model"]) == ("e-1", 7, "m")
        for choice in event["choices"]:
            found = choices.setdefault(choice["index"], {"roles": 0, "logprobs": [], "token_ids": [], "calls": {}})
            assert "finish" not in found, "nothing follows a finish reason"
            delta = choice["delta"]
            found["roles"] += "role" in delta
            for name in ("content", "reasoning", "reasoning_content"):
                if name in delta:
                    found[name] = found.get(name, "") + delta[name]
            for part in delta.get("tool_calls", ()):
                call = found["calls"].setdefault(part["index"], {"id": None, "name": None, "arguments": ""})
                call["id"] = part.get("id", call["id"])
                call["name"] = part["function"].get("name", call["name"])
                call["arguments"] += part["function"]["arguments"]
            found["logprobs"] += (choice.get("logprobs") or {}).get("content", [])
            found["token_ids"] += choice.get("token_ids") or []
            if choice["finish_reason"] is not None:
                found["finish"] = choice["finish_reason"]
    return choices


@settings(max_examples=200, deadline=None)
@given(reads, outputs, st.integers(0, 5))
def test_a_stream_and_a_body_say_the_same(batches: list[list[Delta]], output: ReasoningOutput, second_leg: int) -> None:
    """From the read `second_leg` on, the deltas come from another generation under another id."""
    emitter, assembler = Emitter("m", Output(output)), Assembler("m", output)
    start: list[Delta] = [Begin(0), Begin(1)]
    streamed = b""
    for number, batch in enumerate([start, *batches]):
        identity = OTHER if number and number > second_leg else ENGINE
        streamed += emitter.encode(batch, identity)
        assembler.add(batch, identity)
    landing = Landing([Finish(0, "stop"), Finish(1, "length")], Account(1, 2, 1), {})
    streamed += emitter.land(landing, include_usage=True)
    told = as_a_client_reads(streamed)
    body = json.loads(assembler.body(landing))
    assert len(body["choices"]) == len(told) == 2
    for choice in body["choices"]:
        found, message = told[choice["index"]], choice["message"]
        assert found["roles"] == 1
        assert found["finish"] == choice["finish_reason"]
        for name in ("content", "reasoning", "reasoning_content"):
            assert (found.get(name) or None) == (message.get(name) or None), name
        calls = [
            {"id": call["id"], "name": call["function"].get("name"), "arguments": call["function"]["arguments"]}
            for call in message.get("tool_calls", ())
        ]
        assert calls == [found["calls"][place] for place in sorted(found["calls"])]
        assert found["logprobs"] == (choice["logprobs"] or {"content": []})["content"]
        assert found["token_ids"] == choice.get("token_ids", [])
    if output is ReasoningOutput.HIDDEN:
        assert b"reasoning_content" not in streamed
