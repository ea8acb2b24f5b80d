"""One event's bytes → fields: what is read, what is left alone, and what counts as garbage."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from gateway.sse import Splitter
from gateway.wire import MalformedEvent, decode, extras_of, ids_of, read_error

SHARED = Path(__file__).parents[2].parent / "shared"


def test_both_names_of_a_thought_are_read() -> None:
    for name in ("reasoning", "reasoning_content"):
        chunk = decode(json.dumps({"choices": [{"delta": {name: "hm"}}]}).encode())
        assert chunk.choices is not None
        delta = chunk.choices[0].delta
        assert delta is not None
        assert getattr(delta, name) == "hm"


def test_null_is_as_good_as_absent() -> None:
    nulls = dict.fromkeys(("content", "reasoning", "reasoning_content", "role", "tool_calls"))
    choice = {"index": 0, "delta": nulls, **dict.fromkeys(("finish_reason", "logprobs", "token_ids", "stop_reason"))}
    chunk = decode(json.dumps({"choices": [choice], "usage": None, "error": None}).encode())
    assert chunk.usage is None
    assert chunk.choices is not None
    assert extras_of(chunk.choices[0]) is None


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"text",
        b'{"choices":{}}',
        b'{"choices":[1]}',
        b'{"choices":[{"delta":{"content":1}}]}',
        b'{"choices":[{"delta":{"content":"\xff"}}]}',
        b'{"choices":[{"delta":{"content":"\\ud83d"}}]}',
        b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=lambda garbage: repr(garbage[:40]),
)
def test_garbage_is_one_kind_of_error(garbage: bytes) -> None:
    with pytest.raises(MalformedEvent):
        decode(garbage)


def test_extras_are_kept_as_the_engine_wrote_them_and_outlive_the_event() -> None:
    event = (
        b'{"choices":[{"delta":{"content":"x"},"logprobs":{"content": [ ]},"token_ids":[1, 2],"stop_reason":"</s>"}]}'
    )
    chunk = decode(event)
    assert chunk.choices is not None
    extras = extras_of(chunk.choices[0])
    assert extras is not None
    assert extras.logprobs is not None
    assert bytes(extras.logprobs) == b'{"content": [ ]}'
    assert extras.stop_reason is not None
    assert bytes(extras.stop_reason) == b'"</s>"'
    assert extras.matched_stop is None
    assert ids_of(extras) == [1, 2]


@pytest.mark.parametrize("ids", [b'"no"', b'["a"]', b"{}", b"[1.5]"])
def test_ids_that_are_none_count_as_unknown(ids: bytes) -> None:
    chunk = decode(b'{"choices":[{"delta":{},"token_ids":' + ids + b"}]}")
    assert chunk.choices is not None
    assert ids_of(extras_of(chunk.choices[0])) is None
    assert ids_of(None) is None


@pytest.mark.parametrize(
    ("body", "message", "kind", "code"),
    [
        ({"error": {"message": "m", "type": "T", "param": "p", "code": 400}}, "m", "T", 400),
        ({"object": "error", "message": "m", "type": "T", "param": "p", "code": 400}, "m", "T", 400),
        ({"error": "m"}, "m", None, None),
        ({"error": {"message": {"a": 1}, "type": 3, "code": "400"}}, "{'a': 1}", None, None),
        ({"error": {"code": True}}, "", None, None),
        ({"error": None}, "", None, None),
        ({"detail": "m"}, "", None, None),
        ("m", "m", None, None),
        ([1], "", None, None),
    ],
)
def test_an_error_is_read_in_every_shape(body: object, message: str, kind: str | None, code: int | None) -> None:
    found = read_error(json.dumps(body).encode())
    assert (found.message, found.type, found.code) == (message, kind, code)


def test_an_error_that_is_not_json_is_its_own_message_cut_short() -> None:
    assert read_error(b"Bad Gateway \xff").message == "Bad Gateway \ufffd"
    assert len(read_error(b"x" * 10_000).message) == 2_000
    assert len(read_error(json.dumps({"error": {"message": "x" * 10_000}}).encode()).message) == 2_000
    assert read_error(b"[" * 100_000).message.startswith("[[")


def test_an_error_can_be_read_from_a_part_of_an_event() -> None:
    assert read_error(msgspec.Raw(b'{"error":{"message":"m"}}')).message == "m"


@pytest.mark.shared
def test_every_recorded_chat_event_can_be_read() -> None:
    if not SHARED.is_dir():
        pytest.skip("the recorded bytes of real engines are not beside this checkout")
    count = 0
    for path in sorted((SHARED / "wire").glob("*/*stream*.txt")):
        raw = path.read_bytes()
        if b"chat.completion.chunk" not in raw or b"event-stream" not in raw:
            continue
        body = raw.replace(b"\r\n", b"\n").partition(b"\n\n")[2]
        for event in Splitter().feed(body):
            if event != b"[DONE]":
                assert decode(event).object in {"chat.completion.chunk", None}, path.name
                count += 1
    assert count > 500
