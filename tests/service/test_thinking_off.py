"""Thinking off: by the template's switch where there is one, by an empty closed thought where there is none."""

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

MAKE: dict[str, Callable[[], Double]] = {
    "vllm": lambda: VllmDouble("vllm", opens=True),
    "sglang": lambda: SglangDouble("sglang", opens=True),
    "llama": lambda: LlamaDouble("llama"),
}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
OFF: dict[str, dict[str, Any]] = {
    "budget": {"thinking_budget": 0},
    "effort": {"reasoning_effort": "none"},
    "switch": {"enable_thinking": False},
    "with-tools": {"think": False, "tools": TOOLS},
    "short": {"thinking": {"type": "disabled"}, "max_tokens": 5},
}


@pytest.fixture(scope="module")
def doubles(host: Host) -> Iterator[dict[str, Double]]:
    found = {name: host.add(make()) for name, make in MAKE.items()}
    yield found
    for double in found.values():
        host.remove(double)


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], doubles: dict[str, Double]) -> Gateway:
    """Each double as a model with a switch, as one without, and as one that its operator says cannot stop."""
    pools: dict[str, dict[str, Any]] = {}
    for name, double in doubles.items():
        pools[name] = pool(double, format="qwen3")
        other: dict[str, Any] = {"upstream_model": name, "format": "deepseek_r1", "hygiene": "none"}
        pools[f"none-{name}"] = pool(double, model=f"none-{name}", **other)
        always = {"can_disable": False, "caps": {"trivial": 4}, "native_cap": False}
        pools[f"always-{name}"] = pool(double, model=f"always-{name}", thinking=always, **other)
    return gateway(config(pools)).wait_workers(len(pools))


@pytest.mark.parametrize("words", OFF)
@pytest.mark.parametrize("switch", ["", "none-"])
@pytest.mark.parametrize("name", MAKE)
async def test_there_is_no_thought(
    served: Gateway, doubles: dict[str, Double], name: str, switch: str, words: str
) -> None:
    key = f"off-{switch}{name}-{words}"
    told = await stream(served.url, chat(f"{switch}{name}", key, body=OFF[words]))
    assert told.thought == ""
    assert told.answer.strip()
    assert expected_answer(key, "").startswith(told.answer.strip())
    assert told.reasons == ["length" if words == "short" else "stop"]
    [usage] = told.usages
    assert usage["completion_tokens"] <= 16
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 0
    assert (told.extension["thinking"]["how"], len(doubles[name].of(key))) == ("off", 1)
    body = chat(f"{switch}{name}", key, stream=False, body=OFF[words])
    assert (await post(served.url, body)).json()["choices"][0]["message"]["content"] == told.answer


@pytest.mark.parametrize("name", MAKE)
async def test_a_model_that_cannot_stop_gets_the_shortest_thought(
    served: Gateway, doubles: dict[str, Double], name: str
) -> None:
    key = f"always-{name}"
    told = await stream(served.url, chat(f"always-{name}", key, think=100, delay_ms=1, body={"thinking_budget": 0}))
    assert told.thought.startswith(thought(key, 2))
    assert len(doubles[name].of(key)) == 2
    assert (told.extension["thinking"]["how"], told.extension["thinking"]["cap"]) == ("cut", 4)
