"""curl: the bytes as they are, over HTTP/1.1 and 1.0, with and without a connection kept."""

from __future__ import annotations

import asyncio
import json
import shutil

import pytest

from tests.clients.conftest import KEY
from tests.doubles.script import ask, expected_answer, thought
from tests.harness import Gateway

CURL = shutil.which("curl")
pytestmark = pytest.mark.skipif(CURL is None, reason="curl is not installed")


async def curl(served: Gateway, path: str, body: object, *options: str) -> tuple[str, str]:
    """(head, body) of the answer."""
    process = await asyncio.create_subprocess_exec(
        CURL or "curl",
        "--silent",
        "--show-error",
        "--no-buffer",
        "--include",
        "--header",
        f"Authorization: Bearer {KEY}",
        "--header",
        "Content-Type: application/json",
        "--data",
        json.dumps(body),
        *options,
        f"{served.url}{path}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, err.decode()
    head, _, rest = out.decode().partition("\r\n\r\n")
    return head, rest


def asked(key: str, **fields: object) -> dict[str, object]:
    return {"model": "v-model", "messages": [{"role": "user", "content": ask(key)}], **fields}


@pytest.mark.parametrize("version", ["--http1.1", "--http1.0"])
async def test_a_stream(served: Gateway, version: str) -> None:
    key = f"curl{version.replace('.', '')}"
    head, body = await curl(served, "/v1/chat/completions", asked(key, stream=True), version)
    assert " 200 " in head
    assert "text/event-stream" in head.lower()
    lines = body.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    assert all(line.startswith("data: {") for line in lines[:-2])
    choices = [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines[:-2]]
    said = "".join(choice["delta"].get("content") or "" for choice in choices)
    assert said.strip() == expected_answer(key, thought(key, 24))


async def test_a_whole_answer(served: Gateway) -> None:
    head, body = await curl(served, "/v1/chat/completions", asked("curl-whole"))
    assert "application/json" in head.lower()
    content = json.loads(body)["choices"][0]["message"]["content"]
    assert content.strip() == expected_answer("curl-whole", thought("curl-whole", 24))


async def test_expect_continue_is_answered(served: Gateway) -> None:
    _, body = await curl(
        served, "/v1/chat/completions", asked("curl-expect", padding="x" * 100_000), "--header", "Expect: 100-continue"
    )
    assert "Answer(" in body


async def test_an_error_is_json(served: Gateway) -> None:
    head, body = await curl(served, "/v1/chat/completions", {"model": "nobody", "messages": asked("x")["messages"]})
    assert " 404 " in head
    assert json.loads(body)["error"]["code"] == "model_not_found"
