"""What a worker can do is asked of it, once, when it first answers; and what was seen since is remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.doubles.engine import Double
from tests.doubles.llamaserver import LlamaDouble
from tests.doubles.script import expected_answer, thought
from tests.doubles.server import Host
from tests.doubles.sglang import SglangDouble
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import chat, post, stream

DOUBLES: dict[str, tuple[Callable[[], Double], dict[str, Any]]] = {
    "vllm-parser": (
        lambda: VllmDouble("vllm-parser"),
        {"native_cap": True, "paths": ["chat", "ids"], "context": 32_768},
    ),
    "vllm-bare": (lambda: VllmDouble("vllm-bare", parser=False), {"native_cap": False, "paths": ["chat", "ids"]}),
    "vllm-drops": (lambda: VllmDouble("vllm-drops", drops=True), {"native_cap": True, "paths": ["ids"]}),
    "vllm-misfiles": (lambda: VllmDouble("vllm-misfiles", misfiles=True), {"misfiles": True, "paths": ["chat", "ids"]}),
    "sglang-strict": (
        lambda: SglangDouble("sglang-strict", strict=True),
        {"native_cap": True, "paths": ["chat", "chat-ids", "ids"]},
    ),
    "sglang-plain": (lambda: SglangDouble("sglang-plain"), {"native_cap": False}),
    "llama": (lambda: LlamaDouble("llama"), {"native_cap": False, "paths": ["chat"], "context": 32_768}),
    "liar": (lambda: VllmDouble("liar", overruns=True), {"native_cap": True}),
    "second-liar": (lambda: VllmDouble("second-liar", overruns=True, drops=True), {"native_cap": True}),
}


@pytest.fixture(scope="module")
def doubles(host: Host) -> Iterator[dict[str, Double]]:
    found = {name: host.add(make()) for name, (make, _) in DOUBLES.items()}
    yield found
    for double in found.values():
        host.remove(double)


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], doubles: dict[str, Double]) -> Gateway:
    pools = {name: pool(double, format="qwen3") for name, double in doubles.items()}
    return gateway(config(pools)).wait_workers(len(pools))


async def workers(served: Gateway) -> dict[str, dict[str, Any]]:
    async with httpx.AsyncClient() as client:
        rows = (await client.get(f"{served.url}/admin/workers")).json()["data"]
    return {row["pool"]: row["capabilities"] for row in rows}


@pytest.mark.parametrize("name", [name for name in DOUBLES if "liar" not in name])
async def test_a_worker_is_asked_once_and_shown_with_what_it_can(
    served: Gateway, doubles: dict[str, Double], name: str
) -> None:
    shown = (await workers(served))[name]
    _, expected = DOUBLES[name]
    assert {key: shown[key] for key in expected} == expected
    assert shown["version"]
    asked = [one for one in doubles[name].requests if one.path == "/v1/chat/completions" and not one.key]
    assert len(asked) <= 2, "two tokens at most are generated for it"
    assert all(one.json["max_tokens"] == 1 for one in asked)


@pytest.mark.parametrize(
    ("name", "field"), [("vllm-parser", "thinking_token_budget"), ("sglang-strict", "custom_params")]
)
async def test_an_engine_that_can_is_told_the_cap(
    served: Gateway, doubles: dict[str, Double], name: str, field: str
) -> None:
    told = await stream(served.url, chat(name, f"told-{name}", think=300, delay_ms=1, body={"thinking_budget": 40}))
    [leg] = doubles[name].of(f"told-{name}")
    assert leg.json[field] in (40, {"thinking_budget": 40})
    assert told.answer.strip() == expected_answer(f"told-{name}", thought(f"told-{name}", 40))
    assert "how=native" in told.headers["x-thinkgate-thinking-cap"]


@pytest.mark.parametrize("name", ["vllm-bare", "sglang-plain", "llama"])
async def test_an_engine_that_cannot_is_cut(served: Gateway, doubles: dict[str, Double], name: str) -> None:
    told = await stream(served.url, chat(name, f"cut-{name}", think=300, delay_ms=1, body={"thinking_budget": 40}))
    legs = doubles[name].of(f"cut-{name}")
    assert len(legs) == 2
    assert not {"thinking_token_budget", "custom_params"} & set(legs[0].json)
    assert "how=cut" in told.headers["x-thinkgate-thinking-cap"]
    assert told.answer.strip().startswith("Answer(")


async def test_a_picture_takes_no_room_from_the_thought(served: Gateway) -> None:
    """Its data is megabytes of base64, and hardly a token of the context."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400_000}}
    body: dict[str, Any] = {
        "model": "vllm-parser",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}],
        "thinking_budget": 500,
    }
    plan = (await post(served.url, body, "/v1/route")).json()["plan"]
    assert (plan["thinking_cap"], plan["source"]) == (500, "thinking_budget")


TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]


async def test_a_thought_with_tools_is_left_to_the_engine_that_holds_it(
    served: Gateway, doubles: dict[str, Double]
) -> None:
    """An answer leg over token ids has no tool parser, so there is none: the tools would be lost in silence."""
    body = {"thinking_budget": 40, "tools": TOOLS}
    told = await stream(served.url, chat("vllm-parser", "with-tools", think=300, delay_ms=1, body=body))
    [leg] = doubles["vllm-parser"].of("with-tools")
    assert (leg.json["thinking_token_budget"], leg.json["tools"]) == (40, TOOLS)
    assert told.answer.strip() == expected_answer("with-tools", thought("with-tools", 40))


async def test_one_that_overruns_with_tools_is_marked_though_it_cannot_be_cut(
    served: Gateway, doubles: dict[str, Double]
) -> None:
    body = {"thinking_budget": 40, "tools": TOOLS}
    told = await stream(served.url, chat("second-liar", "liar-tools", think=300, body=body))
    assert len(doubles["second-liar"].of("liar-tools")) == 1
    assert told.answer.strip() == expected_answer("liar-tools", thought("liar-tools", 300))
    assert (await workers(served))["second-liar"]["native_cap"] is False
    assert (await served.metrics()).value("thinkgate_native_cap_overruns_total", pool="second-liar") == 1


async def test_one_that_lies_is_cut_marked_and_counted(served: Gateway, doubles: dict[str, Double]) -> None:
    first = await stream(served.url, chat("liar", "lie-1", think=300, delay_ms=1, body={"thinking_budget": 40}))
    assert first.extension["thinking"]["ended_by"] == "cap"
    assert (await workers(served))["liar"]["native_cap"] is False
    assert (await served.metrics()).value("thinkgate_native_cap_overruns_total", pool="liar") == 1
    second = await stream(served.url, chat("liar", "lie-2", think=300, delay_ms=1, body={"thinking_budget": 40}))
    assert "how=cut" in second.headers["x-thinkgate-thinking-cap"]
    assert second.extension["thinking"]["tokens"] == 40
