"""langchain-openai as it comes, against a thought that is cut: its ChatOpenAI sees one answer and one usage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.clients.conftest import KEY
from tests.doubles.engine import Double
from tests.doubles.llamaserver import LlamaDouble
from tests.doubles.script import ANSWER_TOKENS, ask, thought
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool

CAP = 40
MODELS = ["v-model", "l-model"]

Chat = Callable[..., ChatOpenAI]


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], vllm: VllmDouble, llama: LlamaDouble) -> Gateway:
    """Both engines are cut by the gateway, though one could hold a cap by itself."""
    keys = [{"alias": "clients", "hash": f"sha256:{sha256(KEY.encode()).hexdigest()}"}]
    pools = {"vllm": pool(vllm, thinking={"native_cap": False}), "llama": pool(llama)}
    return gateway(config(pools, keys=keys)).wait_workers(2)


@pytest.fixture
async def chat(served: Gateway) -> AsyncIterator[Chat]:
    """`extra_body` is the client's own way to send what OpenAI's API has no word for. The connections are ours, since
    it leaves its own open."""
    with openai.DefaultHttpxClient() as sync:
        async with openai.DefaultAsyncHttpxClient() as asynchronous:

            def make(model: str, **more: Any) -> ChatOpenAI:
                settings: dict[str, Any] = {"extra_body": {"thinking_budget": CAP}, **more}
                return ChatOpenAI(
                    model=model,
                    base_url=served.base_url,
                    api_key=SecretStr(KEY),
                    max_retries=0,
                    stream_usage=True,
                    http_client=sync,
                    http_async_client=asynchronous,
                    **settings,
                )

            yield make


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def double(model: str, vllm: VllmDouble, llama: LlamaDouble) -> Double:
    return vllm if model == "v-model" else llama


def long_thought(key: str) -> str:
    return ask(key, think=400, delay_ms=1)


def assert_cut(message: AIMessage, double: Double, key: str) -> None:
    assert len(double.of(key)) == 2, "it was cut, and went on"
    assert str(message.content).strip().startswith("Answer(")
    assert "think>" not in str(message.content)
    assert message.response_metadata["finish_reason"] == "stop"
    usage = message.usage_metadata
    assert usage is not None
    reasoning = usage.get("output_token_details", {}).get("reasoning", 0)
    assert CAP <= reasoning <= CAP + 30, "the thought and the closing phrase"
    assert reasoning + ANSWER_TOKENS <= usage["output_tokens"] <= reasoning + ANSWER_TOKENS + 5
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert 0 < usage["input_tokens"] < 60, "of the client's prompt alone"


async def test_invoke(chat: Chat, model: str, double: Double) -> None:
    key = f"lc-invoke-{model}"
    assert_cut(chat(model).invoke(long_thought(key)), double, key)


async def test_stream(chat: Chat, model: str, double: Double) -> None:
    key = f"lc-stream-{model}"
    chunks = list(chat(model).stream(long_thought(key)))
    whole = merged(chunks)
    assert_cut(whole, double, key)
    assert sum(chunk.usage_metadata is not None for chunk in chunks) == 1
    assert sum(bool(chunk.content) for chunk in chunks) >= ANSWER_TOKENS


async def test_astream(chat: Chat, model: str, double: Double) -> None:
    key = f"lc-astream-{model}"
    assert_cut(merged([chunk async for chunk in chat(model).astream(long_thought(key))]), double, key)


async def test_ainvoke(chat: Chat, model: str, double: Double) -> None:
    key = f"lc-ainvoke-{model}"
    assert_cut(await chat(model).ainvoke(long_thought(key)), double, key)


async def test_an_effort_is_a_budget_too(chat: Chat) -> None:
    """Its own word for thinking, `reasoning_effort`, needs no extra body."""
    message = chat("v-model", extra_body=None, reasoning_effort="low").invoke(ask("lc-effort"))
    assert str(message.content).strip().startswith("Answer(")
    assert message.response_metadata["finish_reason"] == "stop"


async def test_it_drops_the_thought(chat: Chat) -> None:
    """It keeps to OpenAI's own fields, which is why the example in deploy/examples/clients takes another client."""
    asked = ask("lc-drops")
    streamed = merged(list(chat("v-model", extra_body=None).stream(asked)))
    for message in (chat("v-model", extra_body=None).invoke(asked), streamed):
        assert {block["type"] for block in message.content_blocks} == {"text"}
        assert thought("lc-drops", 8) not in repr(message)
        usage = message.usage_metadata
        assert usage
        assert usage.get("output_token_details", {}).get("reasoning", 0) >= 24, "it thought, and was paid for it"


def merged(chunks: list[AIMessageChunk]) -> AIMessageChunk:
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    return whole
