"""A gateway in front of a real vLLM: thinking on and off, cut by the gateway, capped by the engine, and abandoned.

What is generated is the model's; what is checked is the engine's counters, the shape and the sums.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.harness import LOOK_AGAIN, PATIENCE, Gateway, Metrics, config
from tests.service.talk import Stream, post, socket_to, stream

URL = os.environ.get("THINKGATE_VLLM_URL", "").rstrip("/")
FORMAT = os.environ.get("THINKGATE_VLLM_FORMAT", "deepseek_v3")
CAP = 40
PHRASE = "\n\nTime is up; I answer now.\n"
IDLE = 2.0
"""Seconds after which an engine without requests must say so."""

pytestmark = pytest.mark.skipif(not URL, reason="THINKGATE_VLLM_URL names no running vLLM")


@dataclass(frozen=True)
class Engine:
    """The vLLM under test."""

    model: str
    close: list[int]
    """The ids of the close marker."""

    async def metrics(self) -> Metrics:
        async with httpx.AsyncClient() as client:
            return Metrics((await client.get(f"{URL}/metrics")).text)

    async def until(self, running: int, patience: float) -> None:
        """Until it runs so many requests."""
        deadline = monotonic() + patience
        while (found := (await self.metrics()).value("vllm:num_requests_running")) != running:
            assert monotonic() < deadline, f"it runs {found} requests after {patience} s, not {running}"
            await asyncio.sleep(LOOK_AGAIN)

    async def block(self) -> int:
        """Tokens in a block of its KV cache."""
        samples = (await self.metrics()).samples
        return next(int(labels["block_size"]) for name, labels, _ in samples if name == "vllm:cache_config_info")


@pytest.fixture(scope="module")
def engine() -> Engine:
    model = httpx.get(f"{URL}/v1/models").json()["data"][0]["id"]
    asked = {"model": model, "prompt": "</think>", "add_special_tokens": False}
    return Engine(model, httpx.post(f"{URL}/tokenize", json=asked).json()["tokens"])


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], engine: Engine) -> Gateway:
    def pool(name: str, **thinking: Any) -> dict[str, Any]:
        base = {"model": name, "upstream_model": engine.model, "engine": "vllm", "format": FORMAT, "workers": [URL]}
        return {**base, "thinking": {"closing_phrase": PHRASE, **thinking}}

    return gateway(config({"cut": pool("cut", native_cap=False), "native": pool("native")})).wait_workers(2)


def ask(model: str, *, streamed: bool, **fields: Any) -> dict[str, Any]:
    """A prompt that no cache has seen, of some 200 tokens."""
    text = f"{uuid4().hex}. " + "Tell of the river, the bridge, the mill and the town behind it. " * 12
    body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 160, "temperature": 0}
    return {**body, **({"stream": True, "stream_options": {"include_usage": True}} if streamed else {}), **fields}


@dataclass(frozen=True)
class Told:
    """What a client reads of one answer, streamed or not."""

    thought: str
    answer: str
    usage: dict[str, Any]
    legs: int
    ended_by: str | None

    @property
    def reasoning(self) -> int:
        return self.usage["completion_tokens_details"]["reasoning_tokens"]


async def tell(served: Gateway, body: dict[str, Any]) -> Told:
    if body.get("stream"):
        streamed: Stream = await stream(served.url, body)
        assert streamed.errors == []
        assert streamed.done
        assert len(streamed.usages) == len(streamed.reasons) == 1
        report = streamed.extension
        told = streamed.thought, streamed.answer, streamed.usages[0]
    else:
        response = await post(served.url, body)
        assert response.status_code == 200, response.text
        whole = response.json()
        report, message = whole["thinkgate"], whole["choices"][0]["message"]
        told = message["reasoning_content"] or "", message["content"], whole["usage"]
    usage = told[2]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["completion_tokens"] <= body["max_tokens"]
    return Told(*told, report["legs"], report["thinking"]["ended_by"])


@pytest.fixture(params=[True, False], ids=["streamed", "unary"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
def endless(engine: Engine) -> dict[str, Any]:
    """Keeps a model from closing its thought before it is cut."""
    return {"logit_bias": {str(engine.close[0]): -100}} if len(engine.close) == 1 else {}


async def test_thinking_off(served: Gateway, streamed: bool) -> None:
    told = await tell(served, ask("cut", streamed=streamed, enable_thinking=False))
    assert (told.thought, told.reasoning, told.legs) == ("", 0, 1)
    assert told.answer.strip()


async def test_thinking_on(served: Gateway, streamed: bool) -> None:
    told = await tell(served, ask("cut", streamed=streamed, enable_thinking=True))
    assert told.thought.strip()
    assert 0 < told.reasoning <= told.usage["completion_tokens"]


async def test_streamed_and_unary_say_the_same(served: Gateway) -> None:
    body = ask("cut", streamed=True, thinking_budget=CAP)
    whole = {name: value for name, value in body.items() if name not in {"stream", "stream_options"}}
    one, other = await tell(served, body), await tell(served, whole)
    assert (one.thought, one.answer) == (other.thought, other.answer)
    assert one.usage == other.usage


async def test_cut_by_the_gateway(served: Gateway, engine: Engine, streamed: bool, endless: dict[str, Any]) -> None:
    before = await engine.metrics()
    told = await tell(served, ask("cut", streamed=streamed, thinking_budget=CAP, **endless))
    await engine.until(0, IDLE)
    after = await engine.metrics()

    def grown(name: str, **labels: str) -> float:
        return after.value(name, **labels) - before.value(name, **labels)

    assert (told.legs, told.ended_by) == (2, "cap")
    assert told.thought.endswith(PHRASE)
    assert told.answer.strip()
    assert "think>" not in told.thought + told.answer

    answered = told.usage["completion_tokens"] - told.reasoning
    assert told.reasoning > CAP, "the closing phrase counts as thought"
    assert grown("vllm:generation_tokens_total") <= CAP + answered + 3, "the first leg was not stopped at the cap"

    # The answer leg went on from the ids of the thought: each block that the first leg filled was found again.
    block = await engine.block()
    kept = (told.usage["prompt_tokens"] + round(0.8 * CAP)) // block * block
    assert grown("vllm:prompt_tokens_by_source_total", source="local_cache_hit") >= kept


async def test_capped_by_the_engine(served: Gateway, engine: Engine, streamed: bool) -> None:
    before = await engine.metrics()
    told = await tell(served, ask("native", streamed=streamed, thinking_budget=CAP))
    generated = (await engine.metrics()).value("vllm:generation_tokens_total") - before.value(
        "vllm:generation_tokens_total"
    )
    assert told.legs == 1
    assert 0 < told.reasoning <= CAP
    assert told.answer.strip()
    assert generated == told.usage["completion_tokens"]


async def test_a_client_that_leaves_stops_the_engine(
    served: Gateway, engine: Engine, streamed: bool, endless: dict[str, Any]
) -> None:
    body = ask("cut", streamed=streamed, max_tokens=600, thinking_budget=500, ignore_eos=True, **endless)
    async with socket_to(served.port) as client:
        await client.send_chat(body)
        if streamed:
            await client.read_until(b"data: ", 10)
        await engine.until(1, PATIENCE)
        client.leave()
    await engine.until(0, IDLE)
    await served.wait_grounded()
