"""Thoughts that end too early go on; thoughts that would leave no time for an answer end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.doubles.engine import Double
from tests.doubles.llamaserver import LlamaDouble
from tests.doubles.script import expected_answer, thought
from tests.doubles.server import Host
from tests.doubles.sglang import SglangDouble
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import chat, post, stream

PHRASE, WAIT = "Time is up; I answer now.", "Wait, again."
LEAST = 30
BRIEF = 8
"""Seconds that a whole request may take."""
SETTINGS: dict[str, Any] = {
    "closing_phrase": f"\n\n{PHRASE}\n",
    "think_on_phrase": f"\n\n{WAIT}\n",
    "native_cap": False,
    "min_tokens": LEAST,
}
MAKE: dict[str, Callable[[], Double]] = {
    "vllm": lambda: VllmDouble("vllm"),
    "sglang": lambda: SglangDouble("sglang"),
    "llama": lambda: LlamaDouble("llama"),
}


@pytest.fixture(scope="module")
def doubles(host: Host) -> Iterator[dict[str, Double]]:
    found = {name: host.add(make()) for name, make in MAKE.items()}
    yield found
    for double in found.values():
        host.remove(double)


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], doubles: dict[str, Double]) -> Gateway:
    pools = {name: pool(double, thinking=SETTINGS) for name, double in doubles.items()}
    hasty = {
        f"hasty-{name}": pool(
            double,
            model=f"hasty-{name}",
            upstream_model=name,
            thinking={**SETTINGS, "min_tokens": 0},
            timeouts={"thought": 0.5},
        )
        for name, double in doubles.items()
    }
    brief = pool(doubles["vllm"], model="brief", upstream_model="vllm", timeouts={"total": BRIEF})
    brief["thinking"] = {**SETTINGS, "min_tokens": 0}
    return gateway(config({**pools, **hasty, "brief": brief})).wait_workers(2 * len(pools) + 1)


@pytest.mark.parametrize("name", MAKE)
class TestTooShort:
    async def test_the_model_is_told_to_think_on(self, served: Gateway, doubles: dict[str, Double], name: str) -> None:
        """Nothing of the answer that it had begun is shown; the next leg starts inside the thought."""
        key = f"short-{name}"
        told = await stream(served.url, chat(name, key, think=12, delay_ms=1, body={"thinking_budget": 500}))
        legs = doubles[name].of(key)
        assert len(legs) > 1
        assert legs[1].added == WAIT
        assert legs[1].ours_given == 12
        assert told.thought.strip().startswith(f"{thought(key, 12)}\n\n{WAIT}")
        assert told.answer.count("Answer(") == 1
        assert told.answer.strip() == expected_answer(key, legs[-1].thought_given)
        assert told.extension["thinking"]["ended_by"] == "model"
        assert told.extension["thinking"]["injected_tokens"] > 0
        assert told.reasons == ["stop"]

    async def test_unary_too(self, served: Gateway, name: str) -> None:
        body = chat(name, f"unary-{name}", think=12, delay_ms=1, stream=False, body={"thinking_budget": 500})
        message = (await post(served.url, body)).json()["choices"][0]["message"]
        assert WAIT in message["reasoning_content"]
        assert message["content"].count("Answer(") == 1

    async def test_one_that_stops_in_its_thought_goes_on_in_it(
        self, served: Gateway, doubles: dict[str, Double], name: str
    ) -> None:
        key = f"quits-{name}"
        told = await stream(served.url, chat(name, key, think=12, quits=1, delay_ms=1, body={"thinking_budget": 500}))
        assert doubles[name].of(key)[1].added == WAIT
        assert told.answer.strip().startswith("Answer("), "and in the end it answers"

    async def test_a_long_thought_is_left_alone(self, served: Gateway, doubles: dict[str, Double], name: str) -> None:
        key = f"long-{name}"
        told = await stream(served.url, chat(name, key, think=50, body={"thinking_budget": 500}))
        assert len(doubles[name].of(key)) == 1
        assert WAIT not in told.thought

    async def test_a_small_cap_comes_first(self, served: Gateway, doubles: dict[str, Double], name: str) -> None:
        key = f"capped-{name}"
        told = await stream(served.url, chat(name, key, think=300, delay_ms=1, body={"thinking_budget": 20}))
        assert WAIT not in told.thought
        assert told.extension["thinking"]["ended_by"] == "cap"
        assert len(doubles[name].of(key)) == 2

    async def test_thinking_off_stays_off(self, served: Gateway, doubles: dict[str, Double], name: str) -> None:
        key = f"off-{name}"
        told = await stream(served.url, chat(name, key, body={"thinking_budget": 0}))
        assert (told.thought, len(doubles[name].of(key))) == ("", 1)


@pytest.mark.parametrize("name", MAKE)
async def test_a_thought_ends_in_time_for_an_answer(served: Gateway, doubles: dict[str, Double], name: str) -> None:
    """Whatever its cap: a request that is cut off by its deadline has cost all and gives nothing."""
    key = f"late-{name}"
    told = await stream(
        served.url, chat(f"hasty-{name}", key, think=9_000, delay_ms=5, body={"thinking_budget": 9_000})
    )
    _, second = doubles[name].of(key)
    assert told.extension["thinking"]["ended_by"] == "deadline"
    assert told.answer.strip() == expected_answer(key, second.thought_given)
    assert (await served.metrics()).value("thinkgate_thinking_ended_total", by="deadline", pool=f"hasty-{name}") == 1


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "unary"])
async def test_near_the_end_of_its_whole_time_a_thought_is_closed_and_answered(
    served: Gateway, doubles: dict[str, Double], streamed: bool
) -> None:
    """Nobody has set a time for the thought: it ends at nine tenths of all, and an answer comes, not an error."""
    key = f"brief-{streamed}"
    body = chat("brief", key, stream=streamed, think=20_000, delay_ms=5, body={"thinking_budget": 20_000})
    answer = await post(served.url, body)
    assert answer.status_code == 200
    _, second = doubles["vllm"].of(key)
    if streamed:
        assert answer.text.endswith("data: [DONE]\n\n")
        assert '"error"' not in answer.text
    else:
        told = answer.json()
        assert told["choices"][0]["message"]["content"].strip() == expected_answer(key, second.thought_given)
        assert told["thinkgate"]["thinking"]["ended_by"] == "deadline"
