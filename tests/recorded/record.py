"""Records what engines stream, byte for byte: `python -m tests.recorded.record`, from the checkout's root.

The embedded engine is real; vLLM and SGLang are this project's doubles. Run it when an engine's version changes, and
read the difference: `tests/unit/test_recorded.py` holds what the gateway makes of each file.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx

from gateway.config import embedded_default
from gateway.embedded import EmbeddedEngine
from tests.doubles.script import ask
from tests.doubles.server import Host
from tests.doubles.sglang import SglangDouble
from tests.doubles.vllm import VllmDouble

FOLDER = Path(__file__).parent
APPLES = "Tom has 3 apples. He buys 4 more and gives 2 to Anna. How many apples does Tom have?"


async def record(url: str, name: str, body: dict[str, Any], path: str = "/v1/chat/completions") -> None:
    sent = {"stream": True, "stream_options": {"include_usage": True}, **body}
    async with httpx.AsyncClient(timeout=120) as client:
        answer = await client.post(f"{url}{path}", json=sent, headers={"x-request-id": name})
    assert answer.status_code == 200, answer.text
    (FOLDER / f"{name}.sse").write_bytes(answer.content)


def asked(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, "seed": 1, **more}


async def record_llama() -> None:
    engine = EmbeddedEngine(embedded_default().embedded, progress=print)
    await engine.start()
    try:
        url = await engine.ready()
        off = {"chat_template_kwargs": {"enable_thinking": False}}
        await record(url, "llama-thinking-off", asked("What is the capital of France?", max_tokens=30, **off))
        await record(url, "llama-thinking-on", asked(APPLES, max_tokens=60))
        await record(url, "llama-logprobs", asked(APPLES, max_tokens=12, logprobs=True, return_progress=True))
        await record(url, "llama-two-choices", asked("Name a colour.", max_tokens=8, n=2, **off))
        closed = {"role": "assistant", "reasoning_content": "3 + 4 - 2 = 5.\n", "content": "The answer is"}
        onward = asked(APPLES, max_tokens=20, continue_final_message="content", add_generation_prompt=False)
        onward["messages"].append(closed)
        await record(url, "llama-continued", onward)
    finally:
        await engine.aclose()


async def record_doubles() -> None:
    host = Host()
    try:
        for name, double in (
            ("vllm-parser", VllmDouble("vllm")),
            ("vllm-bare", VllmDouble("vllm", parser=False)),
            ("sglang-parser", SglangDouble("sglang")),
            ("sglang-bare", SglangDouble("sglang", parser=False)),
        ):
            host.add(double)
            body = {**asked(ask(name, think=8, ans=6)), "model": double.model}
            await record(double.url, name, body)
            await record(double.url, f"{name}-mixed", {**body, **asked(ask(f"{name}-m", think=8, ans=6, mixed=1))})
            host.remove(double)
    finally:
        host.close()


async def main() -> None:
    await record_doubles()
    await record_llama()


if __name__ == "__main__":
    asyncio.run(main())
