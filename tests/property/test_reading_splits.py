"""Recorded and made-up engine streams: any split of the bytes gives the same text, finish reasons and usage."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.deltas import Begin, Finish, Text, ToolCalls, Usage
from gateway.engines import Call
from gateway.reading import AnswerReader
from parsers import Start, lookup
from tests.scripted import DONE, ROLE, chunk

SHARED = Path(__file__).parents[2].parent / "shared"
SAMPLES = {
    "vllm-0.32/B_chat_think_answer_n2_stream.txt": ("qwen3", True),
    "vllm-0.32/C_noparser_regex_think_stream.txt": ("qwen3", False),
    "vllm-0.32/B_tools_auto_think_toolcall_stream.txt": ("qwen3", True),
    "vllm-0.32/p_return_token_ids_stream.txt": ("qwen3", True),
    "llama-server/think_stream.txt": ("think", True),
    "llama-server/chat_stream.txt": ("think", True),
}


def story(stream: bytes, cuts: list[int], format_id: str, splits: bool) -> dict[str, Any]:
    """All that must not depend on the cuts, with neighbouring texts of a field put together."""
    call = Call("/v1/chat/completions", {"tools": [{}]}, Start.CLOSED, splits)
    reader = AnswerReader(call, lookup(format_id))
    bounds = sorted({0, *(at % (len(stream) + 1) for at in cuts), len(stream)})
    deltas = [delta for low, high in pairwise(bounds) for delta in reader.feed(stream[low:high])]
    deltas += reader.feed(b"")
    told: list[tuple[Any, ...]] = []
    for delta in deltas:
        if isinstance(delta, Text):
            if told and told[-1][:3] == ("text", delta.index, delta.field):
                told[-1] = (*told[-1][:3], told[-1][3] + delta.text, told[-1][4] + (delta.tokens or 0))
            else:
                told.append(("text", delta.index, delta.field, delta.text, delta.tokens or 0))
        elif isinstance(delta, ToolCalls):
            told.append(("tools", delta.index, bytes(delta.calls)))
        elif isinstance(delta, Finish):
            told.append(("finish", delta.index, delta.reason))
        elif isinstance(delta, Usage):
            told.append(("usage", delta.prompt, delta.completion, delta.cached))
        elif isinstance(delta, Begin):
            told.append(("begin", delta.index))
    failure = reader.failure and (reader.failure.status, reader.failure.message)
    return {"told": told, "failure": failure, "identity": reader.identity, "over": reader.is_over}


@cache
def recorded(name: str) -> bytes:
    return (SHARED / "wire" / name).read_bytes().replace(b"\r\n", b"\n").partition(b"\n\n")[2]


@pytest.mark.shared
@pytest.mark.parametrize("name", SAMPLES)
def test_a_recorded_stream_says_the_same_under_any_split(name: str) -> None:
    if not SHARED.is_dir():
        pytest.skip("the recorded bytes of real engines are not beside this checkout")
    stream = recorded(name)
    whole = story(stream, [], *SAMPLES[name])
    assert whole["over"]
    assert whole["failure"] is None
    assert any(item[0] == "text" and item[3] for item in whole["told"])
    assert story(stream, list(range(len(stream))), *SAMPLES[name]) == whole

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.integers(0, 20_000), max_size=30))
    def check(cuts: list[int]) -> None:
        assert story(stream, cuts, *SAMPLES[name]) == whole

    check()


TEXTS = ["<think>", "</think>", "<th", "ink>", "\n\n", "a", " é", "😀", '"reasoning":', "<tool_call>", "\u2028", "\\"]
texts = st.sampled_from(TEXTS)
events = st.one_of(
    texts.map(lambda text: chunk({"content": text})),
    texts.map(lambda text: chunk({"reasoning": text})),
    st.tuples(texts, texts).map(lambda pair: chunk({"reasoning_content": pair[0], "content": pair[1]})),
    texts.map(lambda text: chunk({"content": text}, index=1)),
    st.just(chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]})),
    st.just(chunk({})),
    st.just(b": comment\n\n"),
    st.sampled_from(["stop", "length"]).map(lambda reason: chunk({}, finish=reason)),
    st.just(chunk(None, usage={"prompt_tokens": 1, "completion_tokens": 2})),
    st.just(DONE),
    st.just(b'data: {"error": {"message": "boom"}}\n\n'),
    st.just(b"data: {oops\n\n"),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(events, max_size=10).map(lambda parts: ROLE + b"".join(parts)),
    st.lists(st.integers(0, 2_000), max_size=12),
    st.booleans(),
)
def test_a_made_up_stream_says_the_same_under_any_split(stream: bytes, cuts: list[int], splits: bool) -> None:
    whole = story(stream, [], "qwen3", splits)
    assert whole["over"]
    assert story(stream, cuts, "qwen3", splits) == whole
    assert story(stream.replace(b"\n", b"\r\n"), cuts, "qwen3", splits) == whole
