"""Several prompts and several answers as requests for one each, and their answers as one: in whatever order they come,
and whichever of them fails."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import sse
from gateway.api.fleet import Fleet
from gateway.api.prompts import MOST, Joiner, singles, whole_of
from gateway.closing import Limit
from gateway.edge.errors import ApiError, engine_broke_off, internal_error
from gateway.leg import LegFailed

IDS = [[1, 2], [3], [4, 4]]
PROMPTS = st.sampled_from(["a", ["a"], ["a", "b", "c"], [1, 2, 3], [[1, 2, 3]], IDS, [], None])


@given(PROMPTS, st.none() | st.integers(-1, 5), st.none() | st.integers(0, 9), st.booleans())
def test_epd9_epd21_one_body_for_each_answer_in_their_order(
    prompt: Any, n: int | None, seed: int | None, stream: bool
) -> None:
    body = {"model": "m", "prompt": prompt, "stream": stream, "x": 1}
    body |= {name: value for name, value in (("n", n), ("seed", seed)) if value is not None}
    parts = singles(body)
    many = prompt if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else [prompt]
    each = max(1, n or 1)
    assert len(parts) == len(many) * each
    if len(parts) == 1:
        assert parts == [body]
        return
    assert [part["prompt"] for part in parts] == [one for one in many for _ in range(each)]
    assert all(part["x"] == 1 and part["stream"] is stream and "n" not in part for part in parts)
    assert [part.get("seed") for part in parts] == [
        None if seed is None else seed + i for _ in many for i in range(each)
    ]


def test_there_is_an_end_to_how_many() -> None:
    assert len(singles({"prompt": ["a"] * (MOST // 2), "n": 2})) == MOST
    for body in ({"prompt": ["a"] * (MOST + 1)}, {"prompt": "a", "n": MOST + 1}, {"prompt": ["a", "b"], "n": 10**9}):
        with pytest.raises(ApiError) as caught:
            singles(body)
        assert (caught.value.status, caught.value.param) == (400, "prompt")


SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 3))


def usage(prompt: int, completion: int) -> dict[str, Any]:
    details = {"cached_tokens": prompt // 2}
    return {
        "prompt_tokens": prompt,
        "prompt_tokens_details": details,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def expected_usage(prompts: int, each: int) -> dict[str, Any]:
    """A prompt is read once, however many answers it gets."""
    answers = range(prompts * each)
    prompt, completion = sum(10 + i // each for i in answers[::each]), sum(answers)
    cached = sum((10 + i // each) // 2 for i in answers[::each])
    return {**usage(prompt, completion), "prompt_tokens_details": {"cached_tokens": cached}}


@given(SHAPES)
def test_epd9_whole_answers_are_one_with_a_prompt_counted_once(shape: tuple[int, int]) -> None:
    prompts, each = shape
    answers = [
        {"id": f"c-{i}", "choices": [{"index": 0, "text": f"t{i}"}], "usage": usage(10 + i // each, i)}
        for i in range(prompts * each)
    ]
    told = json.loads(whole_of([json.dumps(answer).encode() for answer in answers], each))
    assert told["id"] == "c-0"
    assert [(choice["index"], choice["text"]) for choice in told["choices"]] == [
        (i, f"t{i}") for i in range(prompts * each)
    ]
    assert told["usage"] == expected_usage(prompts, each)
    answers[-1].pop("usage")
    assert json.loads(whole_of([json.dumps(answer).encode() for answer in answers], each))["usage"] is None


def events_of(i: int, each: int, words: int, *, counts: bool) -> list[bytes]:
    """A stream of one answer: its words, its finish reason, its usage."""
    head = {"id": f"c-{i}", "object": "text_completion", "created": i, "model": "m"}
    said = [
        {**head, "choices": [{"index": 0, "text": f"<{i}.{word}>", "finish_reason": None}]} for word in range(words)
    ]
    said.append({**head, "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})
    if counts:
        said.append({**head, "choices": [], "usage": usage(10 + i // each, i)})
    return [json.dumps(one).encode() for one in said]


@given(SHAPES, st.integers(0, 4), st.booleans(), st.randoms(use_true_random=False))
def test_epd49_streams_are_merged_in_any_order(shape: tuple[int, int], words: int, counts: bool, chance: Any) -> None:
    prompts, each = shape
    waiting = {i: events_of(i, each, words, counts=counts) for i in range(prompts * each)}
    joiner, told = Joiner(len(waiting), each), list[dict[str, Any]]()
    while waiting:
        i = chance.choice(sorted(waiting))
        joined = joiner.event(i, waiting[i].pop(0))
        if joined is not None:
            told.append(json.loads(joined))
        if not waiting[i]:
            del waiting[i]
    last = joiner.end()
    assert len({(event["id"], event["created"]) for event in told}) == 1
    said: dict[int, str] = {}
    for event in told:
        assert "usage" not in event
        [choice] = event["choices"]
        said[choice["index"]] = said.get(choice["index"], "") + choice["text"]
    assert said == {i: "".join(f"<{i}.{word}>" for word in range(words)) for i in range(prompts * each)}
    if counts:
        assert last is not None
        assert json.loads(last)["usage"] == expected_usage(prompts, each)
        assert json.loads(last)["choices"] == []
    else:
        assert last is None


class Passage:
    """Tells its reads, then is done, or has failed."""

    def __init__(self, reads: list[bytes], failure: ApiError | None, pauses: int) -> None:
        self.whole: bytes | None = None
        self.failure = failure
        self.ended = False
        self._reads, self._pauses = reads, pauses

    async def read(self) -> bytes | None:
        for _ in range(self._pauses):
            await asyncio.sleep(0)
        return self._reads.pop(0) if self._reads else None

    def end(self) -> None:
        self.ended = True


class Road:
    """As `crossing.Way` is to a fleet: where each part goes, and what reaches the client."""

    def __init__(self, passages: list[Passage | LegFailed]) -> None:
        self.shown = {"x-request-id": "r"}
        self.sent: list[dict[str, Any]] = []
        self._passages = passages

    def limit(self) -> Limit:
        return Limit(None, internal_error())

    async def launch(self, body: dict[str, Any], name: str) -> Passage:
        await asyncio.sleep(0)
        found = self._passages[body["part"]]
        assert name == f"r-c{body['part']}"
        if isinstance(found, LegFailed):
            raise found
        return found

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        await asyncio.sleep(0)


FATES = st.sampled_from(["well", "well", "well", "refused", "broken"])


@given(st.lists(FATES, min_size=2, max_size=5), st.integers(0, 3), st.lists(st.integers(0, 3), min_size=5, max_size=5))
def test_epd24_exactly_one_end_reaches_the_client(fates: list[str], words: int, pauses: list[int]) -> None:
    """The first that fails fails all: with its status while nothing was told, else with one error event, no [DONE]."""
    error = engine_broke_off("it broke off")
    passages: list[Passage | LegFailed] = []
    for i, fate in enumerate(fates):
        reads = [sse.event(event) for event in events_of(i, 1, words, counts=True)]
        told = Passage([*reads, sse.DONE_EVENT] if fate == "well" else reads[:words], None, pauses[i])
        told.failure = error if fate == "broken" else None
        passages.append(LegFailed(error, retryable=False) if fate == "refused" else told)
    road = Road(passages)

    async def run() -> None:
        await Fleet(road, [{"part": i} for i in range(len(fates))], 1).run()  # type: ignore[arg-type]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    starts = [one for one in road.sent if one["type"] == "http.response.start"]
    bodies = [one for one in road.sent if one["type"] == "http.response.body"]
    assert len(starts) == 1
    assert [bool(one.get("more_body")) for one in bodies] == [True] * (len(bodies) - 1) + [False]
    text = b"".join(one["body"] for one in bodies)
    is_well = set(fates) == {"well"}
    assert (sse.DONE_EVENT in text, b'"error"' in text) == (is_well, not is_well)
    assert text.count(b'"error"') <= 1
    assert starts[0]["status"] == 200 if is_well else starts[0]["status"] in {200, error.status}
    launched = [one for one in passages if isinstance(one, Passage)]
    if is_well:
        assert all(one.ended for one in launched)
