"""Every way on from a cut: what a request carries (tools, log probabilities, pictures) decides which one is taken, and
the answer keeps every promise of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.doubles.engine import Double
from tests.doubles.llamaserver import LlamaDouble
from tests.doubles.script import ask, expected_answer, expected_call, thought
from tests.doubles.server import Host
from tests.doubles.sglang import SglangDouble
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import Stream, assert_error, chat, post, stream

CAP = 40
PHRASE = "Time is up; I answer now."
CUT: dict[str, Any] = {"closing_phrase": f"\n\n{PHRASE}\n", "native_cap": False}
LONG: dict[str, Any] = {"think": 300, "delay_ms": 1}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
MAKE: dict[str, Callable[[], Double]] = {
    "vllm": lambda: VllmDouble("vllm"),
    "vllm-opens": lambda: VllmDouble("vllm-opens", opens=True),
    "vllm-misfiles": lambda: VllmDouble("vllm-misfiles", misfiles=True),
    "sglang": lambda: SglangDouble("sglang"),
    "sglang-opens": lambda: SglangDouble("sglang-opens", opens=True),
    "llama": lambda: LlamaDouble("llama"),
    "drops": lambda: VllmDouble("drops", drops=True),
}
ABLE = [name for name in MAKE if name != "drops"]
PATHS = {"vllm": "/v1/chat/completions", "sglang": "/v1/chat/completions", "llama": "/v1/chat/completions"}


@pytest.fixture(scope="module")
def doubles(host: Host) -> Iterator[dict[str, Double]]:
    found = {name: host.add(make()) for name, make in MAKE.items()}
    yield found
    for double in found.values():
        host.remove(double)


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], doubles: dict[str, Double]) -> Gateway:
    pools = {name: pool(double, thinking=CUT) for name, double in doubles.items()}
    return gateway(config(pools)).wait_workers(len(pools))


def called(told: Stream) -> str:
    """The arguments of the call that was streamed."""
    fragments = [call for delta in told.deltas for call in delta.get("tool_calls") or ()]
    return "".join(call["function"].get("arguments") or "" for call in fragments)


@pytest.mark.parametrize("name", ABLE)
class TestTools:
    async def test_the_answer_leg_still_gives_parsed_calls(
        self, served: Gateway, doubles: dict[str, Double], name: str
    ) -> None:
        """A call's arguments prove that its engine knew the thought, and that its parser was at work."""
        key = f"tools-{name}"
        told = await stream(served.url, chat(name, key, calls=1, body={"thinking_budget": CAP, "tools": TOOLS}, **LONG))
        first, second = doubles[name].of(key)
        assert second.path == "/v1/chat/completions"
        assert second.json["tools"] == TOOLS == first.json["tools"]
        assert second.added == PHRASE
        assert 0.8 * CAP <= second.ours_given <= CAP
        assert told.answer.strip() == expected_answer(key, second.thought_given)
        assert called(told) == expected_call(key, second.thought_given)
        assert told.reasons == ["tool_calls"]
        assert "tool_call>" not in told.answer + told.thought
        assert told.extension["thinking"]["ended_by"] == "cap"

    async def test_unary_too(self, served: Gateway, name: str) -> None:
        body = chat(name, f"unary-{name}", calls=1, stream=False, body={"thinking_budget": CAP, "tools": TOOLS}, **LONG)
        [choice] = (await post(served.url, body)).json()["choices"]
        [call] = choice["message"]["tool_calls"]
        assert json.loads(call["function"]["arguments"])["of"] == f"unary-{name}"
        assert choice["finish_reason"] == "tool_calls"

    async def test_a_grammar_and_tools_bind_the_answer_alone(
        self, served: Gateway, doubles: dict[str, Double], name: str
    ) -> None:
        key = f"grammar-{name}"
        wanted = {"type": "json_object"}
        body = {"thinking_budget": CAP, "tools": TOOLS, "response_format": wanted}
        await stream(served.url, chat(name, key, body=body, **LONG))
        assert doubles[name].of(key)[1].json["response_format"] == wanted


@pytest.mark.parametrize("name", ABLE)
async def test_log_probabilities_keep_the_chats_shape(served: Gateway, doubles: dict[str, Double], name: str) -> None:
    key = f"logprobs-{name}"
    told = await stream(served.url, chat(name, key, body={"thinking_budget": CAP, "logprobs": True}, **LONG))
    _, second = doubles[name].of(key)
    assert (second.path, second.json["logprobs"]) == ("/v1/chat/completions", True)
    assert told.answer.strip() == expected_answer(key, second.thought_given)


@pytest.mark.parametrize("name", ABLE)
async def test_a_picture_stays_in_the_prompt(served: Gateway, doubles: dict[str, Double], name: str) -> None:
    key = f"picture-{name}"
    messages = [{"role": "user", "content": [{"type": "text", "text": ask(key, **LONG)}, PICTURE]}]
    told = await stream(served.url, {"model": name, "stream": True, "messages": messages, "thinking_budget": CAP})
    _, second = doubles[name].of(key)
    assert second.json["messages"][0] == messages[0]
    assert "input_ids" not in second.json, "ids hold only placeholders of a picture"
    assert told.answer.strip() == expected_answer(key, second.thought_given)


class TestWhereATemplateDropsTheThought:
    async def test_plain_text_goes_on_by_ids(self, served: Gateway, doubles: dict[str, Double]) -> None:
        told = await stream(served.url, chat("drops", "plain", body={"thinking_budget": CAP}, **LONG))
        _, second = doubles["drops"].of("plain")
        assert second.path == "/v1/completions"
        assert told.answer.strip() == expected_answer("plain", second.thought_given)

    async def test_a_number_with_tools_is_refused_and_not_dropped(self, served: Gateway) -> None:
        body = chat("drops", "tools", body={"thinking_budget": CAP, "tools": TOOLS})
        error = assert_error(await post(served.url, body), 400, "invalid_request_error", "unsupported_value")
        assert error["param"] == "thinking_budget"

    async def test_a_level_with_tools_is_let_through_and_says_so(self, served: Gateway) -> None:
        told = await stream(served.url, chat("drops", "level", body={"reasoning_effort": "low", "tools": TOOLS}))
        assert told.thought.strip() == thought("level", 24)
        assert "how=none" in told.headers["x-thinkgate-thinking-cap"]


async def test_a_continuation_of_the_clients_own_is_left_alone(served: Gateway, doubles: dict[str, Double]) -> None:
    """Its prefix would have to hold the thought: a number is refused."""
    messages = [{"role": "user", "content": ask("own")}, {"role": "assistant", "content": "So far"}]
    body = {"model": "vllm", "messages": messages, "continue_final_message": True, "add_generation_prompt": False}
    response = await post(served.url, {**body, "thinking_budget": CAP})
    assert_error(response, 400, "invalid_request_error", "unsupported_value")
