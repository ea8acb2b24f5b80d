"""The official Node SDK: `npm install` in tests/clients/node provides it; without it these tests are skipped."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import KEY
from tests.doubles.exchange import End
from tests.doubles.script import ask, expected_answer, thought
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway

FOLDER = Path(__file__).parent / "node"
NODE = shutil.which("node")
pytestmark = [
    pytest.mark.skipif(NODE is None, reason="node is not installed"),
    pytest.mark.skipif(
        not (FOLDER / "node_modules" / "openai").is_dir(), reason="run `npm install` in tests/clients/node first"
    ),
]


async def node(served: Gateway, mode: str, model: str, message: str, **extra: Any) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        NODE or "node",
        "chat.mjs",
        served.base_url,
        KEY,
        mode,
        model,
        message,
        json.dumps(extra),
        cwd=FOLDER,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, err.decode()
    return json.loads(out)


@pytest.mark.parametrize("mode", ["unary", "stream"])
async def test_the_whole_answer(served: Gateway, mode: str) -> None:
    key = f"node-{mode}"
    told = await node(served, mode, "v-model", ask(key))
    assert told["error"] is None
    assert told["reasoning"].strip() == thought(key, 24)
    assert told["content"].strip() == expected_answer(key, thought(key, 24))
    assert told["finish"] == "stop"
    assert told["usage"]["completion_tokens_details"]["reasoning_tokens"] >= 24


async def test_a_cut_thought(served: Gateway) -> None:
    told = await node(served, "stream", "l-model", ask("node-cut", think=400), thinking_budget=40)
    assert told["error"] is None
    assert told["content"].strip().startswith("Answer(")


async def test_an_unknown_model(served: Gateway) -> None:
    told = await node(served, "unary", "nobody", "hi")
    assert (told["error"]["status"], told["error"]["code"]) == (404, "model_not_found")


async def test_a_broken_stream_throws(served: Gateway) -> None:
    told = await node(served, "stream", "v-model", ask("node-broken", die_after=10, delay_ms=1))
    assert told["error"]
    assert told["finish"] is None


async def test_leaving_the_loop_stops_the_engine(served: Gateway, vllm: VllmDouble) -> None:
    await node(served, "leave", "v-model", ask("node-leave", think=100_000, delay_ms=1))
    assert (await vllm.wait_end(vllm.of("node-leave")[0])).end is End.ABORTED
