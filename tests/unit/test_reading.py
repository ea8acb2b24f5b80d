"""An engine's bytes → deltas: order, completeness, failure, and which events may travel as they came."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway import sse
from gateway.deltas import Begin, Delta, Finish, Text, ToolCalls, Usage
from gateway.engines import Call
from gateway.reading import AnswerReader, Identity, Prompt
from parsers import Field, Start, lookup
from tests.scripted import DONE, ROLE, chunk, end, thoughts, words


def reader(*, start: Start = Start.OPEN, splits: bool | None = True, **body: Any) -> AnswerReader:
    return AnswerReader(Call("/v1/chat/completions", body, start, splits), lookup("think"))


def text_of(deltas: list[Delta], field: Field, index: int = 0) -> str:
    return "".join(d.text for d in deltas if isinstance(d, Text) and d.field is field and d.index == index)


def kinds(deltas: list[Delta]) -> list[str]:
    return [type(delta).__name__ for delta in deltas]


def payload(event: bytes) -> bytes:
    return event.removeprefix(b"data: ").removesuffix(b"\n\n")


def test_an_ordinary_answer() -> None:
    answer = reader()
    deltas = answer.feed(ROLE + thoughts("hm", " so") + words("Yes", ".") + end(prompt=3, completion=5))
    assert kinds(deltas) == ["Begin", "Text", "Text", "Text", "Text", "Finish", "Usage"]
    assert text_of(deltas, Field.REASONING) == "hm so"
    assert text_of(deltas, Field.CONTENT) == "Yes."
    assert deltas[-2:] == [Finish(0, "stop"), Usage(3, 5)]
    assert answer.is_over
    assert answer.failure is None
    assert answer.identity == Identity("e-1", 7, "m")
    assert answer.feed(words("late")) == []


def test_a_plain_event_travels_raw_under_its_own_key() -> None:
    for key in ("reasoning", "reasoning_content", "content"):
        event = chunk({key: "x"})
        [_, delta] = reader().feed(event)
        assert isinstance(delta, Text)
        assert (delta.raw, delta.raw_key) == (payload(event), key)


@pytest.mark.parametrize(
    "event",
    [
        chunk({"reasoning": "a", "content": "b"}),
        chunk({"content": "b"}, finish="stop"),
        chunk({"content": "b", "tool_calls": [{"index": 0}]}),
        sse.event(json.dumps({"choices": [{"index": i, "delta": {"content": "b"}} for i in (0, 1)]}).encode()),
    ],
    ids=["two fields", "with finish", "with tools", "two choices"],
)
def test_an_event_that_says_more_than_its_text_does_not_travel_raw(event: bytes) -> None:
    texts = [delta for delta in reader().feed(event) if isinstance(delta, Text)]
    assert texts
    assert all(delta.raw is None for delta in texts)


def test_an_event_whose_text_the_parser_changed_does_not_travel_raw() -> None:
    answer = reader(splits=False)
    deltas = answer.feed(words("hm</think>", "\n\nYes", "<"))
    assert text_of(deltas, Field.REASONING) == "hm"
    assert text_of(deltas, Field.CONTENT).startswith("Yes")
    assert all(delta.raw is None for delta in deltas if isinstance(delta, Text) and delta.text != "<")


def test_marked_thoughts_are_split_and_what_is_withheld_comes_before_the_finish() -> None:
    answer = reader(start=Start.CLOSED, splits=False)
    deltas = answer.feed(ROLE + words("<think>\nhm\n</thi", "nk>\n\nYes <", "th") + end())
    assert text_of(deltas, Field.REASONING) == "hm"
    assert text_of(deltas, Field.CONTENT) == "Yes <th"
    assert kinds(deltas)[-1] == "Finish"


def test_reasoning_comes_before_content_of_the_same_delta() -> None:
    [_, first, second] = reader().feed(chunk({"content": "b", "reasoning": "a"}))
    assert isinstance(first, Text)
    assert isinstance(second, Text)
    assert (first.field, first.text, second.field, second.text) == (Field.REASONING, "a", Field.CONTENT, "b")


def test_empty_deltas_say_nothing() -> None:
    deltas = reader().feed(ROLE + chunk({}) + chunk({"content": None, "reasoning": ""}) + chunk({"content": ""}))
    assert deltas == [Begin(0)]


def test_nulls_are_no_error_no_tools_and_no_extras() -> None:
    delta = dict.fromkeys(("content", "reasoning", "reasoning_content", "tool_calls"))
    choice = {"index": 0, "delta": delta, **dict.fromkeys(("finish_reason", "logprobs", "token_ids", "stop_reason"))}
    answer = reader()
    assert answer.feed(sse.event(json.dumps({"choices": [choice], "usage": None, "error": None}).encode())) == [
        Begin(0)
    ]
    assert not answer.is_over


def test_choices_are_kept_apart_and_complete_only_together() -> None:
    answer = reader()
    events = [chunk({"content": text}, index=index) for text, index in (("a", 0), ("x", 1), ("b", 0), ("y", 1))]
    deltas = answer.feed(b"".join(events) + chunk({}, finish="stop", index=1))
    assert [text_of(deltas, Field.CONTENT, index) for index in (0, 1)] == ["ab", "xy"]
    answer.feed(DONE)
    assert answer.failure is not None, "choice 0 has no finish reason"
    whole = reader()
    whole.feed(b"".join(events) + chunk({}, finish="stop", index=1) + chunk({}, finish="length", index=0) + DONE)
    assert whole.is_over
    assert whole.failure is None


def test_tool_calls_are_kept_as_written_after_all_text() -> None:
    calls = [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": '}}]
    deltas = reader(tools=[{}]).feed(words("ok") + chunk({"content": None, "tool_calls": calls}))
    assert kinds(deltas) == ["Begin", "Text", "ToolCalls"]
    assert isinstance(deltas[-1], ToolCalls)
    assert json.loads(bytes(deltas[-1].calls)) == calls


def test_what_hangs_on_a_choice_is_carried_once() -> None:
    event = {"index": 0, "delta": {"reasoning": "a", "content": "b"}, "token_ids": [1, 2], "logprobs": {"content": []}}
    [_, first, second] = reader().feed(sse.event(json.dumps({"choices": [event]}).encode()))
    assert isinstance(first, Text)
    assert isinstance(second, Text)
    assert first.extras is not None
    assert (first.tokens, second.tokens, second.extras) == (2, 0, None)
    assert (first.ids, second.ids) == (None, None), "nobody says which id is whose"


def test_the_stop_that_ended_an_answer_stays_with_its_finish_also_beside_a_last_word() -> None:
    choice = {"index": 0, "delta": {"content": "b"}, "finish_reason": "stop", "stop_reason": "END", "token_ids": [5]}
    [_, text, finish] = reader().feed(sse.event(json.dumps({"choices": [choice]}).encode()))
    assert isinstance(text, Text)
    assert isinstance(finish, Finish)
    assert text.tokens == 1
    assert finish.extras is not None
    assert finish.extras.stop_reason is not None
    assert bytes(finish.extras.stop_reason) == b'"END"'


def test_extras_without_text_go_with_the_next_text() -> None:
    """vLLM sends the token of `</think>` with an empty delta; its log probability must not be lost, streamed or not."""
    silent = {"index": 0, "delta": {}, "token_ids": [7], "logprobs": {"content": [{"token": "</think>"}]}}
    spoken = {"index": 0, "delta": {"content": "b"}, "token_ids": [8], "logprobs": {"content": [{"token": "b"}]}}
    events = [sse.event(json.dumps({"choices": [choice]}).encode()) for choice in (silent, spoken)]
    [_, text] = reader().feed(b"".join(events))
    assert isinstance(text, Text)
    assert text.extras is not None
    assert text.tokens == 2
    assert text.raw is None, "the event alone does not say it all"
    assert json.loads(bytes(text.extras.token_ids or b"")) == [7, 8]
    assert json.loads(bytes(text.extras.logprobs or b"")) == {"content": [{"token": "</think>"}, {"token": "b"}]}


def test_extras_of_withheld_text_go_with_what_is_told_of_it() -> None:
    """The parser holds `<` back: it may become a marker."""
    pieces = [{"index": 0, "delta": {"content": text}, "token_ids": [i]} for i, text in enumerate(("a", "<", "b"))]
    answer = AnswerReader(Call("/v1/chat/completions", {}, Start.OPEN, engine_splits=False), lookup("think"))
    told = [delta for piece in pieces for delta in answer.feed(sse.event(json.dumps({"choices": [piece]}).encode()))]
    texts = [delta for delta in told if isinstance(delta, Text)]
    assert [(delta.text, delta.tokens) for delta in texts] == [("a", 1), ("<b", 2)]


def test_extras_that_nothing_follows_end_with_the_choice() -> None:
    silent = {"index": 0, "delta": {}, "token_ids": [7]}
    ending = {"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": 2}
    events = [sse.event(json.dumps({"choices": [choice]}).encode()) for choice in (silent, ending)]
    [_, finish] = reader().feed(b"".join(events))
    assert isinstance(finish, Finish)
    assert finish.extras is not None
    assert (bytes(finish.extras.token_ids or b""), bytes(finish.extras.stop_reason or b"")) == (b"[7]", b"2")


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (b'"a\xff"', "a\ufffd"),
        (b'"a\\ud83d"', "a\ufffd"),
        (b'"\\ude00b"', "\ufffdb"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'"\\\\ud83d"', "\\ud83d"),
    ],
)
def test_what_is_no_text_becomes_a_replacement_character_and_never_reaches_a_client(told: bytes, text: str) -> None:
    answer = reader()
    [_, delta] = answer.feed(sse.event(b'{"choices":[{"index":0,"delta":{"content":' + told + b"}}]}"))
    assert isinstance(delta, Text)
    assert delta.text == text
    assert delta.raw is not None
    assert json.loads(delta.raw)["choices"][0]["delta"]["content"] == text


def test_usage_may_come_with_the_finish_or_after_it() -> None:
    usage = {"prompt_tokens": 4, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}
    beside, after = (
        words("a") + chunk({}, finish="stop", usage=usage),
        chunk({}, finish="stop") + chunk(None, usage=usage),
    )
    for events in (beside, after):
        *_, finish, told = reader().feed(events)
        assert finish == Finish(0, "stop")
        assert isinstance(told, Usage)
        assert (told.prompt, told.completion, told.cached) == (4, 2, 3)
    assert not any(isinstance(delta, Usage) for delta in reader().feed(chunk({"content": "a"}, usage=None)))


def test_progress_of_the_prompt_is_noted_and_is_no_answer() -> None:
    progress = {"total": 40, "cache": 8, "processed": 20, "time_ms": 5}
    for event in (
        chunk({"role": "assistant", "content": None}, prompt_progress=progress),
        chunk(None, prompt_progress=progress),
    ):
        answer = reader()
        assert all(isinstance(delta, Begin) for delta in answer.feed(event))
        assert answer.prompt == Prompt(40, 8)


NESTED = b'data: {"error": {"message": "boom", "type": "InternalServerError", "param": null, "code": 500}}\n\n'
FLAT = b'data: {"object":"error","message":"boom","type":"InternalServerError","param":null,"code":500}\n\n'


@pytest.mark.parametrize("event", [NESTED, FLAT])
@pytest.mark.parametrize("before", [b"", ROLE, ROLE + thoughts("hm")])
def test_an_error_in_the_stream_ends_it_after_what_came_before(event: bytes, before: bytes) -> None:
    answer = reader()
    deltas = answer.feed(before + event + DONE)
    assert kinds(deltas) == ["Begin", "Text"][: before.count(b"data:")]
    assert answer.is_over
    assert answer.failure is not None
    assert (answer.failure.status, answer.failure.message) == (502, "boom")


def test_an_error_in_the_stream_keeps_a_status_of_the_client() -> None:
    answer = reader()
    answer.feed(b'data: {"error": {"message": "too long", "type": "BadRequestError", "code": 400}}\n\n')
    assert answer.failure is not None
    assert (answer.failure.status, answer.failure.type) == (400, "invalid_request_error")


@pytest.mark.parametrize(
    "tail", [b"", DONE, b"data: {\n\n", b"data: [1]\n\n", b'data: {"choices":[{"delta":{"content":3}}]}\n\n']
)
def test_a_stream_that_stops_making_sense_is_a_failure_not_an_answer(tail: bytes) -> None:
    answer = reader()
    answer.feed(ROLE + words("half an"))
    answer.feed(tail)
    assert answer.is_over
    assert answer.failure is not None
    assert (answer.failure.status, answer.failure.code) == (502, "engine_stream_broken")


def test_an_empty_stream_is_a_failure() -> None:
    answer = reader()
    assert answer.feed(b"") == []
    assert answer.failure is not None


@pytest.mark.parametrize("last", [b"", b"data: [DONE]", b"data: [DONE]\n"])
def test_a_finish_reason_makes_an_answer_complete_with_or_without_a_whole_done(last: bytes) -> None:
    answer = reader()
    answer.feed(words("a") + chunk({}, finish="stop") + last)
    assert not answer.is_over
    answer.feed(b"")
    assert answer.is_over
    assert answer.failure is None


def test_an_endless_event_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT", 100)
    answer = reader()
    assert answer.feed(b"data: " + b"x" * 200) == []
    assert answer.failure is not None
    assert "not readable" in answer.failure.message


def test_completions_text_is_content() -> None:
    event = sse.event(json.dumps({"choices": [{"index": 0, "text": "hi"}]}).encode())
    [_, delta] = reader(start=Start.CLOSED, splits=False).feed(event)
    assert isinstance(delta, Text)
    assert (delta.field, delta.text, delta.raw_key) == (Field.CONTENT, "hi", "text")


@pytest.mark.parametrize("blanks", ["", "\n", " \n "])
@pytest.mark.parametrize("size", [1, 2, 100])
def test_an_output_that_a_grammar_bound_from_its_first_token_is_an_answer(blanks: str, size: int) -> None:
    """vLLM without a reasoning parser does that; a thought was expected, and there is none."""
    text = blanks + '{"a": 1}'
    wanted = {"response_format": {"type": "json_schema"}}
    answer = AnswerReader(Call("/v1/chat/completions", wanted, Start.OPEN, engine_splits=None), lookup("think"))
    told = [delta for at in range(0, len(text), size) for delta in answer.feed(words(text[at : at + size]))]
    told += answer.feed(end())
    assert {delta.field for delta in told if isinstance(delta, Text)} == {Field.CONTENT}
    assert "".join(delta.text for delta in told if isinstance(delta, Text)).strip() == '{"a": 1}'


@pytest.mark.parametrize(
    ("wanted", "text"), [({}, '{"a": 1}'), ({"response_format": {"type": "json_object"}}, "Well, {")]
)
def test_brackets_do_not_make_an_answer_of_other_thoughts(wanted: dict[str, Any], text: str) -> None:
    answer = AnswerReader(Call("/v1/chat/completions", wanted, Start.OPEN, engine_splits=None), lookup("think"))
    told = answer.feed(words(text) + end())
    assert {delta.field for delta in told if isinstance(delta, Text)} == {Field.REASONING}


@pytest.mark.parametrize(
    ("delta", "told"),
    [
        ({"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}, [(Field.REASONING, "hm")]),
        ({"reasoning": "hm", "reasoning_details": [{"text": "hm"}]}, [(Field.REASONING, "hm")]),
        ({"thinking": "hm"}, [(Field.REASONING, "hm")]),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                    {"type": "text", "text": "a"},
                ]
            },
            [(Field.REASONING, "hm"), (Field.CONTENT, "a")],
        ),
        ({"content": []}, []),
    ],
)
def test_thoughts_in_the_words_of_hosted_apis(delta: dict[str, Any], told: list[tuple[Field, str]]) -> None:
    deltas = reader().feed(chunk(delta))
    assert [(text.field, text.text) for text in deltas if isinstance(text, Text)] == told


def test_ids_that_the_gateway_alone_asked_for_are_kept_from_the_client() -> None:
    call = Call("/v1/chat/completions", {}, Start.OPEN, engine_splits=True, hides_ids=True)
    answer = AnswerReader(call, lookup("think"))
    piece = {"index": 0, "delta": {"content": "a"}, "token_ids": [5, 6], "logprobs": {"content": []}}
    ending = {"index": 0, "delta": {}, "token_ids": [2], "finish_reason": "stop"}
    start = {"prompt_token_ids": [1, 2, 3], "choices": [{"index": 0, "delta": {"role": "assistant"}}]}
    events = [start, {"choices": [piece]}, {"choices": [ending]}]
    [_, text, finish] = answer.feed(b"".join(sse.event(json.dumps(event).encode()) for event in events))
    assert isinstance(text, Text)
    assert (text.ids, text.tokens, text.raw) == ([5, 6], 2, None)
    assert text.extras is not None
    assert text.extras.token_ids is None
    assert text.extras.logprobs is not None
    assert finish == Finish(0, "stop")
    assert answer.prompt == Prompt(3, ids=(1, 2, 3))
