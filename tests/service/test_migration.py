"""A worker that is lost in mid-stream costs nothing that was said: another one goes on from the last word."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.doubles.engine import Double
from tests.doubles.llamaserver import LlamaDouble
from tests.doubles.script import expected_call
from tests.doubles.server import Host
from tests.doubles.sglang import SglangDouble
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import assert_complete, chat, post, stream

MAKE: dict[str, Callable[[], Double]] = {
    "vllm": lambda: VllmDouble("vllm"),
    "vllm-opens": lambda: VllmDouble("vllm-opens", opens=True),
    "vllm-bare": lambda: VllmDouble("vllm-bare", parser=False),
    "sglang": lambda: SglangDouble("sglang"),
    "llama": lambda: LlamaDouble("llama"),
}
TROUBLES = ("die_after", "eof_after", "drop_after", "error_after", "garbage_after")
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
IN_THOUGHT, IN_ANSWER = 10, 30


@pytest.fixture(scope="module")
def pairs(host: Host) -> Iterator[dict[str, list[Double]]]:
    """Two workers of each engine."""
    found = {name: [host.add(make()) for _ in range(2)] for name, make in MAKE.items()}
    yield found
    for double in (double for pair in found.values() for double in pair):
        host.remove(double)


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], pairs: dict[str, list[Double]]) -> Gateway:
    pools = {name: pool(*pair, thinking={"native_cap": False}, timeouts={"idle": 1}) for name, pair in pairs.items()}
    return gateway(config(pools)).wait_workers(2 * len(pools))


def legs_of(pairs: dict[str, list[Double]], name: str, key: str) -> list[Any]:
    return sorted((leg for double in pairs[name] for leg in double.of(key)), key=lambda leg: leg.started)


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("after", [1, IN_THOUGHT, 24, IN_ANSWER])
@pytest.mark.parametrize("name", MAKE)
async def test_the_text_is_what_it_would_have_been(
    served: Gateway, pairs: dict[str, list[Double]], name: str, after: int, trouble: str
) -> None:
    key = f"{name}-{after}-{trouble.replace('_', '-')}"
    controls: dict[str, Any] = {trouble: after, "times": 1, "delay_ms": 1}
    told = await stream(served.url, chat(name, key, **controls))
    assert told.errors == []
    assert_complete(told, key)
    assert (told.reasons, told.done, len(told.usages)) == (["stop"], True, 1)
    assert sum(len(double.of(key)) for double in pairs[name]) >= 2, "a reset may overtake the first words"
    assert len({event["id"] for event in told.events}) == 1
    [usage] = told.usages
    assert 36 <= usage["completion_tokens"] <= 36 + 12
    assert usage["prompt_tokens"] < 60


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("after", [IN_THOUGHT, IN_ANSWER])
class TestEveryEngine:
    async def test_one_that_falls_silent_is_given_up(self, served: Gateway, name: str, after: int) -> None:
        key = f"silent-{name}-{after}"
        told = await stream(served.url, chat(name, key, stall_after=after, times=1, delay_ms=1))
        assert_complete(told, key)

    async def test_unary_too(self, served: Gateway, name: str, after: int) -> None:
        key = f"unary-{name}-{after}"
        body = chat(name, key, stream=False, die_after=after, times=1, delay_ms=1)
        answer = (await post(served.url, body)).json()
        whole = await stream(served.url, chat(name, key))
        assert answer["choices"][0]["message"]["content"].strip() == whole.answer.strip()
        assert answer["choices"][0]["message"]["reasoning_content"].strip() == whole.thought.strip()
        assert answer["thinkgate"]["legs"] == 2

    async def test_stop_strings_still_stop(self, served: Gateway, name: str, after: int) -> None:
        key = f"stops-{name}-{after}"
        whole = (await stream(served.url, chat(name, key))).answer
        stop = whole.split()[-2]
        told = await stream(served.url, chat(name, key, die_after=after, times=1, delay_ms=1, body={"stop": [stop]}))
        assert told.answer.lstrip() == whole.partition(stop)[0].lstrip()

    async def test_two_may_be_lost(self, served: Gateway, name: str, after: int) -> None:
        key = f"two-{name}-{after}"
        told = await stream(served.url, chat(name, key, think=60, die_after=after, times=2, delay_ms=1))
        assert_complete(told, key, think=60)

    async def test_a_third_is_one_error(self, served: Gateway, name: str, after: int) -> None:
        key = f"three-{name}-{after}"
        told = await stream(served.url, chat(name, key, think=200, die_after=after, times=9, delay_ms=1))
        assert len(told.errors) == 1
        assert not told.done

    async def test_several_choices_each_go_on(self, served: Gateway, name: str, after: int) -> None:
        key = f"choices-{name}-{after}"
        told = await stream(served.url, chat(name, key, die_after=after, times=2, delay_ms=1, body={"n": 2}))
        assert told.errors == []
        assert told.reasons == ["stop", "stop"]


@pytest.mark.parametrize("name", MAKE)
async def test_without_thinking_the_answer_stands_alone(served: Gateway, name: str) -> None:
    key = f"off-{name}"
    body = {"thinking_budget": 0}
    told = await stream(served.url, chat(name, key, die_after=5, times=1, delay_ms=1, body=body))
    whole = await stream(served.url, chat(name, key, body=body))
    assert (told.answer, told.thought) == (whole.answer, "")
    assert told.extension["legs"] == 2


@pytest.mark.parametrize("name", MAKE)
async def test_after_a_cut_too(served: Gateway, pairs: dict[str, list[Double]], name: str) -> None:
    """The answer leg is lost: the next one gets the thought as it was cut, and the answer as far as it came."""
    key = f"cut-{name}"
    body = {"thinking_budget": 20}
    controls: dict[str, Any] = {"think": 100, "die_after": 30, "delay_ms": 1}
    told = await stream(served.url, chat(name, key, ans=40, times=2, body=body, **controls))
    assert told.errors == []
    assert told.answer.count("Answer(") == 1
    assert told.reasons == ["stop"]
    assert len(told.answer.split()) == 40


async def test_what_cannot_go_on_says_why(served: Gateway) -> None:
    for body, why in (({"seed": 7}, "seed"), ({"tools": TOOLS}, "tool call")):
        controls: dict[str, Any] = {"calls": 1, "die_after": 37} if "tools" in body else {"die_after": 10}
        told = await stream(served.url, chat("vllm", f"why-{why[0]}", times=1, delay_ms=1, body=body, **controls))
        [error] = told.errors
        assert why in error["message"]
        assert not told.done


async def test_a_seed_that_draws_nothing_is_no_hindrance(served: Gateway) -> None:
    """At temperature 0 no token is drawn, so there is nothing that a seed could promise."""
    body = {"seed": 7, "temperature": 0}
    told = await stream(served.url, chat("vllm", "greedy", die_after=10, times=1, delay_ms=1, body=body))
    assert_complete(told, "greedy")


@pytest.mark.parametrize("name", ["vllm", "sglang", "llama"])
async def test_with_tools_it_goes_on_over_chat(served: Gateway, pairs: dict[str, list[Double]], name: str) -> None:
    key = f"tools-{name}"
    controls: dict[str, Any] = {"calls": 1, "die_after": IN_ANSWER, "times": 1, "delay_ms": 1}
    told = await stream(served.url, chat(name, key, body={"tools": TOOLS}, **controls))
    calls = [call for delta in told.deltas for call in delta.get("tool_calls") or ()]
    given = next(leg for double in pairs[name] for leg in double.of(key) if leg.thought_given).thought_given
    assert "".join(call["function"].get("arguments") or "" for call in calls) == expected_call(key, given)
    assert told.reasons == ["tool_calls"]


async def test_it_is_counted(served: Gateway) -> None:
    metrics = await served.metrics()
    assert metrics.value("thinkgate_requests_total", outcome="migrated") > 50
    assert metrics.value("thinkgate_legs_total", kind="migrated") > 50
