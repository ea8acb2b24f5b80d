"""Several choices of one request: each thought is held to the cap by itself, and the client sees one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.doubles.engine import Double
from tests.doubles.exchange import End
from tests.doubles.script import expected_answer, thought
from tests.harness import Gateway, config, pool
from tests.service.talk import Stream, assert_error, chat, post, socket_to, stream

CAP = 30
PHRASE = "Time is up; I answer now."
CUT: dict[str, Any] = {"closing_phrase": f"\n\n{PHRASE}\n", "native_cap": False}
LONG: dict[str, Any] = {"think": 300, "delay_ms": 1}


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], doubles: dict[str, Double]) -> Gateway:
    return gateway(config({name: pool(double, thinking=CUT) for name, double in doubles.items()})).wait_workers(3)


def of_choice(told: Stream, index: int, field: str) -> str:
    choices = [choice for event in told.events for choice in event.get("choices", ()) if choice["index"] == index]
    return "".join(choice["delta"].get(field) or "" for choice in choices)


async def test_each_choice_is_cut_and_answered(served: Gateway, model: str, double: Double) -> None:
    key = f"choices-{model}"
    told = await stream(served.url, chat(model, key, body={"thinking_budget": CAP, "n": 3}, **LONG))
    legs = [await double.wait_end(leg) for leg in double.of(key)]
    assert len(legs) == 6
    assert all("n" not in leg.json for leg in legs)
    assert {leg.end for leg in legs} == {End.ABORTED, End.FINISHED}
    proven = {expected_answer(key, leg.thought_given) for leg in legs if leg.end is End.FINISHED}
    for index in range(3):
        seen, phrase, _ = of_choice(told, index, "reasoning_content").partition(PHRASE)
        assert phrase
        assert thought(key, 300).startswith(seen.strip())
        assert len(seen.split()) <= CAP
        assert of_choice(told, index, "content").strip() in proven
    ends = [c for e in told.events for c in e.get("choices", ()) if c["finish_reason"]]
    assert sorted((end["index"], end["finish_reason"]) for end in ends) == [(0, "stop"), (1, "stop"), (2, "stop")]
    assert len({event["id"] for event in told.events}) == 1
    [usage] = told.usages
    assert usage["completion_tokens_details"]["reasoning_tokens"] >= 3 * CAP
    assert usage["prompt_tokens"] < 60, "the prompt counts once"
    assert told.done


async def test_unary_it_is_the_same(served: Gateway, model: str) -> None:
    body = chat(model, f"whole-{model}", stream=False, body={"thinking_budget": CAP, "n": 2}, **LONG)
    answer = (await post(served.url, body)).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    for choice in answer["choices"]:
        assert PHRASE in choice["message"]["reasoning_content"]
        assert choice["message"]["content"].strip().startswith("Answer(")
    assert [one["ended_by"] for one in answer["thinkgate"]["choices"]] == ["cap", "cap"]
    assert answer["thinkgate"]["legs"] == 4


async def test_the_dice_differ(served: Gateway, doubles: dict[str, Double]) -> None:
    await stream(served.url, chat("v-model", "dice", body={"n": 3, "seed": 7}))
    assert sorted(leg.json["seed"] for leg in doubles["v-model"].of("dice")) == [7, 8, 9]


async def test_one_that_fails_fails_all_and_stops_the_others(served: Gateway, doubles: dict[str, Double]) -> None:
    double = doubles["v-model"]
    fields = {"n": 2, "thinking_budget": 5_000, "seed": 7}  # a seeded request cannot go on elsewhere
    body = chat("v-model", "one-fails", body=fields, die_after=20, times=1, **LONG)
    told = await stream(served.url, body)
    assert len(told.errors) == 1
    assert not told.done
    ends = {(await double.wait_end(leg)).end for leg in double.of("one-fails")}
    assert End.FINISHED not in ends
    await served.wait_grounded()


async def test_a_client_that_leaves_stops_all_of_them(served: Gateway, doubles: dict[str, Double]) -> None:
    double = doubles["s-model"]
    async with socket_to(served.port) as socket:
        await socket.send_chat(chat("s-model", "leaves", body={"n": 3}, think=5_000, delay_ms=2))
        await socket.read_until(b"reasoning_content", 30)
        socket.leave()
    ends = await asyncio.gather(*(double.wait_end(leg) for leg in double.of("leaves")))
    assert {one.end for one in ends} == {End.ABORTED}
    await served.wait_grounded()


async def test_it_is_one_request_in_the_books(served: Gateway) -> None:
    before = (await served.metrics()).value("thinkgate_requests_total", pool="v-model")
    await stream(served.url, chat("v-model", "books", body={"n": 3}))
    assert (await served.metrics()).value("thinkgate_requests_total", pool="v-model") == before + 1


async def test_an_impossible_number_of_choices_is_refused(served: Gateway) -> None:
    for wrong in (0, -1, 129, 1.5, True, "2"):
        assert_error(await post(served.url, chat("v-model", "wrong", body={"n": wrong})), 400, "invalid_request_error")
