"""On an engine that tells token ids: counted exactly however it batches, continued from those ids, shown to nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.doubles.exchange import Exchange
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import assert_complete, chat, post, stream

CAP = 40
PHRASE = "Time is up; I answer now."
THINKING = {"native_cap": False, "closing_phrase": f"\n\n{PHRASE}\n"}


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], vllm: VllmDouble) -> Gateway:
    return gateway(config({"vllm": pool(vllm, thinking=THINKING)})).wait_workers(1)


def asked_to_tokenize(vllm: VllmDouble, first: Exchange) -> list[dict[str, Any]]:
    after = vllm.requests[vllm.requests.index(first) :]
    return [one.json for one in after if one.path == "/tokenize"]


@pytest.mark.parametrize("way", ["split", "raw"])
async def test_the_second_leg_goes_on_from_the_first_one_s_ids(served: Gateway, vllm: VllmDouble, way: str) -> None:
    key = f"ids-{way}"
    told = await stream(
        served.url, chat("v-model", key, think=300, delay_ms=1, format=way, body={"thinking_budget": CAP})
    )
    first, second = vllm.of(key)
    assert first.json["return_token_ids"] is True
    [question] = asked_to_tokenize(vllm, first)
    assert question["prompt"].startswith(f"\n\n{PHRASE}"), "neither prompt nor thought is tokenized again"
    assert second.added == PHRASE
    assert 0.8 * CAP <= second.ours_given <= CAP
    assert told.answer.strip().startswith("Answer(")
    assert told.extension["thinking"]["tokens"] == CAP


@pytest.mark.parametrize("per_event", [2, 3, 7])
async def test_tokens_are_counted_however_many_an_event_holds(
    served: Gateway, vllm: VllmDouble, per_event: int
) -> None:
    key = f"batch-{per_event}"
    told = await stream(
        served.url, chat("v-model", key, think=300, delay_ms=1, per_event=per_event, body={"thinking_budget": CAP})
    )
    tokens = told.extension["thinking"]["tokens"]
    assert CAP <= tokens < CAP + per_event
    # A double's word is a token; the open marker and its newline are two more.
    assert len(told.thought.partition(PHRASE)[0].split()) == tokens - 2


async def test_the_client_is_not_shown_what_it_did_not_ask_for(served: Gateway) -> None:
    told = await stream(served.url, chat("v-model", "unseen", body={"thinking_budget": 1000}))
    assert_complete(told, "unseen")
    assert "token_ids" not in str(told.events)
    whole = (await post(served.url, chat("v-model", "unseen", stream=False, body={"thinking_budget": 1000}))).json()
    assert "token_ids" not in str(whole)


async def test_the_client_that_asks_is_shown_them(served: Gateway) -> None:
    told = await stream(served.url, chat("v-model", "seen", body={"return_token_ids": True}))
    assert_complete(told, "seen")
    ids = [one for event in told.events for choice in event.get("choices", ()) for one in choice.get("token_ids") or ()]
    assert len(ids) >= 36
    assert "prompt_token_ids" not in str(told.events), "the prompt's are the gateway's"
