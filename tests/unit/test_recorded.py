"""Recorded engine streams, replayed: what a client reads from the stream is what the unary body says, however the bytes
were split; and what it is stands here. `tests/recorded/record.py` made the files; the shared ones are of a real vLLM.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from gateway import sse
from gateway.account import Account
from gateway.api.emit import Emitter
from gateway.api.whole import Assembler
from gateway.config import ReasoningOutput
from gateway.engines import Call
from gateway.landing import Landing
from gateway.legwatch import LegWatch, Orders, Transcript
from gateway.output import Output
from gateway.reading import AnswerReader
from parsers import Start, lookup
from tests.doubles.script import expected_answer, thought

OWN = Path(__file__).parents[1] / "recorded"
SHARED = Path(__file__).parents[2].parent / "shared" / "wire"


def replay(stream: bytes, sizes: list[int], *, start: Start, splits: bool | None, name: str = "think") -> list[Any]:
    """(streamed, unary) messages by choice, through the same rooms a flight goes through; equal, or the test fails."""
    reader = AnswerReader(Call("/v1/chat/completions", {"tools": [{}]}, start, splits), lookup(name))
    told = Transcript()
    watch = LegWatch(told, Orders(), choices=2)
    emitter, assembler = Emitter("m", Output(ReasoningOutput.REASONING_CONTENT)), None
    streamed, at = b"", 0
    for size in (*sizes, len(stream)):
        read = stream[at : at + size]
        at += size
        deltas, _ = watch.take(reader.feed(read))
        if reader.identity is None:
            assert not deltas
            continue
        assembler = assembler or Assembler(reader.identity.model, ReasoningOutput.REASONING_CONTENT)
        streamed += emitter.encode(deltas, reader.identity)
        assembler.add(deltas, reader.identity)
        if at >= len(stream):
            break
    assert reader.failure is None
    assert assembler is not None
    landing = Landing([watch.finishes[index] for index in sorted(told.begun)], Account(), {})
    streamed += emitter.land(landing, include_usage=False)
    body = json.loads(assembler.body(landing))["choices"]
    messages = [told_of(choice) for choice in body]
    assert put_together(streamed) == messages
    return messages


def told_of(choice: dict[str, Any]) -> dict[str, Any]:
    message = choice["message"]
    return {
        "thought": message["reasoning_content"] or "",
        "answer": message["content"] or "",
        "calls": [call["function"] for call in message.get("tool_calls", ())],
        "logprobs": [entry["token"] for entry in (choice["logprobs"] or {"content": []})["content"]],
        "finish": choice["finish_reason"],
    }


def put_together(stream: bytes) -> list[dict[str, Any]]:
    """As OpenAI's SDKs do it."""
    choices: dict[int, dict[str, Any]] = {}
    for event in map(json.loads, sse.Splitter().feed(stream)[:-1]):
        for choice in event["choices"]:
            empty: dict[str, Any] = {"thought": "", "answer": "", "calls": [], "logprobs": [], "finish": None}
            found, delta = choices.setdefault(choice["index"], empty), choice["delta"]
            found["thought"] += delta.get("reasoning_content") or ""
            found["answer"] += delta.get("content") or ""
            for part in delta.get("tool_calls") or ():
                while len(found["calls"]) <= part["index"]:
                    found["calls"].append({"arguments": ""})
                if name := part["function"].get("name"):
                    found["calls"][part["index"]]["name"] = name
                found["calls"][part["index"]]["arguments"] += part["function"].get("arguments") or ""
            found["logprobs"] += [entry["token"] for entry in (choice.get("logprobs") or {}).get("content") or ()]
            found["finish"] = choice["finish_reason"] or found["finish"]
    return [choices[index] for index in sorted(choices)]


def cuts(stream: bytes, seed: int) -> list[int]:
    chosen = random.Random(seed)
    sizes: list[int] = []
    while sum(sizes) < len(stream):
        sizes.append(chosen.choice((1, 2, 3, 5, 7, 11, 97, 997)))
    return sizes


@pytest.fixture(params=[None, 0, 1, 2], ids=lambda seed: "whole" if seed is None else f"cuts{seed}")
def seed(request: pytest.FixtureRequest) -> int | None:
    return request.param


def split_by(stream: bytes, seed: int | None) -> list[int]:
    return [] if seed is None else cuts(stream, seed)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("kind", ["parser", "bare", "parser-mixed", "bare-mixed"])
def test_a_double_s_stream(engine: str, kind: str, seed: int | None) -> None:
    stream = (OWN / f"{engine}-{kind}.sse").read_bytes()
    is_bare = kind.startswith("bare")
    [message] = replay(stream, split_by(stream, seed), start=Start.CLOSED, splits=not is_bare)
    key = f"{engine}-{kind.removesuffix('-mixed')}" + ("-m" if "mixed" in kind else "")
    assert message["thought"].strip() == thought(key, 8)
    assert message["answer"].strip() == expected_answer(key, thought(key, 8), 6)
    assert message["finish"] == "stop"


@pytest.mark.parametrize(
    ("name", "start", "thinks", "answers"),
    [
        ("llama-thinking-off", Start.OFF, False, True),
        ("llama-thinking-on", Start.OPEN, True, False),
        ("llama-logprobs", Start.OPEN, True, False),
        ("llama-continued", Start.CLOSED, False, True),
        ("llama-two-choices", Start.OFF, False, True),
    ],
)
def test_the_embedded_engine_s_stream(name: str, start: Start, thinks: bool, answers: bool, seed: int | None) -> None:
    stream = (OWN / f"{name}.sse").read_bytes()
    messages = replay(stream, split_by(stream, seed), start=start, splits=True)
    assert len(messages) == (2 if "two" in name else 1)
    for message in messages:
        assert (bool(message["thought"]), bool(message["answer"])) == (thinks, answers)
    if "logprobs" in name:
        assert "".join(messages[0]["logprobs"]).strip().startswith(messages[0]["thought"].strip()[:20])
        assert len(messages[0]["logprobs"]) == 12


def stream_of(path: Path) -> bytes:
    """The events of a recorded chat stream that ended well, b"" for any other recording."""
    _, _, body = path.read_bytes().replace(b"\r\n", b"\n").partition(b"\n\n")
    events = sse.Splitter().feed(body)
    is_chat = b'"chat.completion.chunk"' in body and b'data: {"error"' not in body and sse.DONE in events
    return b"".join(sse.event(event) for event in events) if is_chat else b""


STREAMS = [path for path in sorted(SHARED.glob("*/*stream*.txt")) if stream_of(path)]


@pytest.mark.shared
@pytest.mark.parametrize("path", STREAMS or [None], ids=lambda path: path.stem if path else "absent")
def test_every_recorded_stream_says_the_same_streamed_and_whole(path: Path | None, seed: int | None) -> None:
    """Also where vLLM itself gives one answer streamed and another unary: what it streamed counts."""
    if path is None:
        pytest.skip("the recorded bytes of real engines are not beside this checkout")
    stream = stream_of(path)
    splits = b'"reasoning":"' in stream or b'"reasoning_content":"' in stream
    messages = replay(stream, split_by(stream, seed), start=Start.CLOSED, splits=splits, name="qwen3")
    for message in messages:
        assert message["finish"] is not None
        if not splits:
            assert not message["answer"].startswith("<think>")
