"""What /metrics says, read by Prometheus' own linter, and its labels, which must stay bounded."""

from __future__ import annotations

import asyncio
import shutil
from asyncio.subprocess import PIPE, STDOUT

import httpx
import pytest

from tests.harness import Gateway
from tests.service.talk import chat, post, stream


@pytest.fixture
async def scraped(served: Gateway) -> str:
    """After one request of each kind, so that every family has a sample."""
    await stream(served.url, chat("l-model", "metrics-a"))
    await post(served.url, chat("v-model", "metrics-b"))
    await post(served.url, {"model": "nobody", "messages": []})
    async with httpx.AsyncClient() as client:
        return (await client.get(f"{served.url}/metrics")).text


async def test_promtool_finds_nothing_to_say(scraped: str) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    promtool = await asyncio.create_subprocess_exec(
        "promtool", "check", "metrics", stdin=PIPE, stdout=PIPE, stderr=STDOUT
    )
    told, _ = await promtool.communicate(scraped.encode())
    assert (promtool.returncode, told.decode()) == (0, "")


async def test_nothing_of_a_request_becomes_a_label(scraped: str) -> None:
    for word in ("metrics-a", "metrics-b", "nobody", "tg-"):
        assert word not in scraped
