"""The real engine with the real weights: real text, real deaths."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.config import Embedded
from gateway.embedded import EmbeddedEngine, EmbeddedUnavailable
from gateway.embedded.weights import installed_weights

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.skipif(find_spec("xllamacpp") is None, reason="xllamacpp is not installed"),
]

FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
APPLES = [
    {
        "role": "user",
        "content": "Tom has 3 apples. He buys 4 more and gives 2 to Anna. How many apples does Tom have?",
    }
]
OFF = {"enable_thinking": False}
ONE_REQUEST = httpx.Limits(max_keepalive_connections=0)
"""A connection: llama-server closes an idle one after seconds, maybe just when the next request is on its way."""
CLOSING = "\n\nI have thought enough and will answer now.\n"


def silent(message: str) -> None:
    pass


@pytest.fixture
async def engine() -> AsyncIterator[EmbeddedEngine]:
    engine = EmbeddedEngine(Embedded(context=512), progress=silent)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.aclose()


@pytest.fixture
async def client(engine: EmbeddedEngine) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        base_url=await engine.ready(), timeout=60, trust_env=False, limits=ONE_REQUEST
    ) as client:
        yield client


async def deltas(client: httpx.AsyncClient, **body: Any) -> tuple[list[str], list[str], dict[str, Any]]:
    """Reasoning pieces, content pieces and usage of one streamed request at temperature 0."""
    reasoning: list[str] = []
    content: list[str] = []
    usage: dict[str, Any] = {}
    body = {"stream": True, "temperature": 0, "stream_options": {"include_usage": True}, **body}
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        assert response.status_code == 200
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                event = json.loads(line.removeprefix("data: "))
                usage = event.get("usage") or usage
                for choice in event["choices"]:
                    reasoning.append(choice["delta"].get("reasoning_content") or "")
                    content.append(choice["delta"].get("content") or "")
    return list(filter(None, reasoning)), list(filter(None, content)), usage


async def rendered(client: httpx.AsyncClient, **body: Any) -> str:
    prompt: str = (await client.post("/apply-template", json=body)).json()["prompt"]
    return prompt


def child_of(pid: int) -> int:
    """The engine's process; the kernel knows the children of each thread."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            if b"child.py" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    raise AssertionError("no engine is running")


async def test_answers_without_thinking(client: httpx.AsyncClient):
    reasoning, content, usage = await deltas(client, messages=FRANCE, chat_template_kwargs=OFF, max_tokens=40)
    assert reasoning == []
    assert "".join(content) == "The capital of France is Paris."
    assert usage["completion_tokens"] == len(content) + 1  # the end marker is counted, but has no text


async def test_thinks_past_a_cap_and_answers_after_the_cut(client: httpx.AsyncClient):
    thought, content, usage = await deltas(client, messages=APPLES, max_tokens=128)
    assert content == []
    assert usage["completion_tokens"] == 128
    assert len(thought) > 100
    cut = {"role": "assistant", "reasoning_content": "".join(thought) + CLOSING, "content": "The answer is"}
    continuation = {"continue_final_message": "content", "add_generation_prompt": False}
    reasoning, content, usage = await deltas(client, messages=[*APPLES, cut], max_tokens=40, **continuation)
    answer = "".join(content)
    assert reasoning == []
    assert answer.startswith(" ")
    assert "The answer is" not in answer
    assert "I have thought enough" not in answer
    assert usage["prompt_tokens_details"]["cached_tokens"] > 128


async def test_template(client: httpx.AsyncClient):
    thinking = await rendered(client, messages=FRANCE)
    assert thinking.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM. You reason out loud")
    assert thinking.endswith("France?<|im_end|>\n<|im_start|>assistant\n<think>\n")

    plain = await rendered(client, messages=FRANCE, chat_template_kwargs=OFF)
    assert "You give short, correct answers.<|im_end|>\n" in plain
    assert plain.endswith("France?<|im_end|>\n<|im_start|>assistant\n")

    own = await rendered(client, messages=[{"role": "system", "content": "Be brief."}, *FRANCE])
    assert own.startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n")

    final = {"role": "assistant", "reasoning_content": "A thought.", "content": "It is"}
    cut = await rendered(
        client, messages=[*FRANCE, final], continue_final_message="content", add_generation_prompt=False
    )
    assert cut.endswith("<|im_start|>assistant\n<think>\nA thought.\n</think>\n\nIt is")

    past = {"role": "assistant", "reasoning_content": "An old thought.", "content": "Paris."}
    history = await rendered(client, messages=[*FRANCE, past, {"role": "user", "content": "And of Spain?"}])
    assert "An old thought." not in history
    assert "<|im_start|>assistant\nParis.<|im_end|>\n" in history


async def test_template_tells_of_tools(client: httpx.AsyncClient):
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
    call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    messages = [
        *FRANCE,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "sunny"},
    ]
    prompt = await rendered(client, messages=messages, tools=[tool], chat_template_kwargs=OFF)
    assert '<tools>\n{"type": "function", "function": {"name": "weather"' in prompt
    assert '<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>' in prompt
    assert "<tool_response>\nsunny\n</tool_response>" in prompt


async def test_settings_reach_the_engine(client: httpx.AsyncClient):
    slots = (await client.get("/slots")).json()
    assert [slot["n_ctx"] for slot in slots] == [512, 512]
    assert (await client.get("/metrics")).status_code == 200
    health = await client.get("/health", headers={"Origin": "https://elsewhere.example"})
    assert health.headers["access-control-allow-origin"] == "http://127.0.0.1"


async def test_restarts_on_the_same_port_after_a_kill():
    crashed = asyncio.Event()
    engine = EmbeddedEngine(
        Embedded(context=512), progress=lambda message: crashed.set() if "restarting" in message else None
    )
    await engine.start()
    try:
        url, pid = await engine.ready(), child_of(os.getpid())
        os.kill(pid, signal.SIGKILL)
        await crashed.wait()
        assert engine.url is None
        assert await engine.ready() == url
        assert engine.restarts == 1
        assert child_of(os.getpid()) != pid
        async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False, limits=ONE_REQUEST) as client:
            _, content, _ = await deltas(client, messages=FRANCE, chat_template_kwargs=OFF, max_tokens=40)
    finally:
        await engine.aclose()
    assert "Paris" in "".join(content)


PARENT = """
import asyncio
from gateway.config import Embedded
from gateway.embedded import EmbeddedEngine

async def main():
    engine = EmbeddedEngine(Embedded(context=512), progress=lambda message: None)
    await engine.start()
    print(await engine.ready(), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_dies_with_a_parent_that_is_killed():
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    assert (await parent.stdout.readline()).startswith(b"http://127.0.0.1:")
    handle = os.pidfd_open(child_of(parent.pid))
    try:
        parent.kill()
        await parent.wait()
        ended, _, _ = await asyncio.to_thread(select.select, [handle], [], [], 10)
        assert ended, "the engine outlived its parent"
    finally:
        os.close(handle)


async def test_own_gguf_with_its_own_template():
    messages: list[str] = []
    engine = EmbeddedEngine(Embedded(gguf=str(installed_weights()), context=512), progress=messages.append)
    await engine.start()
    try:
        async with httpx.AsyncClient(
            base_url=await engine.ready(), timeout=60, trust_env=False, limits=ONE_REQUEST
        ) as client:
            prompt = await rendered(client, messages=FRANCE)
    finally:
        await engine.aclose()
    assert "trained by Hugging Face" in prompt
    assert prompt.endswith("<|im_start|>assistant\n")
    assert messages[0] == "checking weights"
    assert messages[1] == "loading SmolLM2-135M-Instruct.Q4_1 (98 MB)…"
    assert messages[-1].startswith("ready on http://127.0.0.1:")


async def test_a_broken_file_is_refused_at_once(tmp_path: Path):
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(64))
    engine = EmbeddedEngine(Embedded(gguf=str(path)), progress=silent)
    await engine.start()
    try:
        with pytest.raises(EmbeddedUnavailable, match="refused to start"):
            await engine.ready()
    finally:
        await engine.aclose()
    assert engine.restarts == 0
