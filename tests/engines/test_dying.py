"""A vLLM that is killed in mid-thought, for good: its twin goes on from the last token, in the client's open stream.

Starts two engines of its own, so it runs by itself, before the others start theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.engines.conftest import URL
from tests.engines.install_vllm import Installation
from tests.engines.real_vllm import MODEL, RealVllm
from tests.engines.told import STORY, ask, tell
from tests.engines.under_test import TURN_ENDS, Vllm
from tests.harness import LOOK_AGAIN, Gateway, config
from tests.service.talk import Stream, stream

CAP = 400
KILLED_AFTER = 120
"""Tokens that the worker has generated of the thought when it is killed."""
LONG = 600.0


@pytest.fixture(scope="module")
def twins() -> Iterator[list[RealVllm]]:
    if URL or not Installation().is_complete:
        pytest.skip("THINKGATE_VLLM_URL names one" if URL else "vLLM is not installed: run `make test-engines`")
    with RealVllm() as first, RealVllm() as second:
        yield [first, second]


@pytest.fixture(scope="module")
def paired(gateway: Callable[..., Gateway], twins: list[RealVllm]) -> Gateway:
    pool = {
        "model": "twins",
        "upstream_model": MODEL,
        "engine": "vllm",
        "format": "think",
        "workers": [twin.url for twin in twins],
        "timeouts": {"first_token": 120, "idle": 120, "total": LONG},
        "loops": {"action": "off"},
        "thinking": {"native_cap": False, "answer_reserve": 32},
    }
    return gateway(config({"twins": pool})).wait_workers(2, LONG / 4)


async def carrier(twins: list[RealVllm]) -> RealVllm:
    """Who has generated so much of the one request that is running."""
    while True:
        for twin in twins:
            metrics = await Vllm(twin.url, parser=True).metrics()
            running = metrics.value("vllm:num_requests_running")
            if running and metrics.value("vllm:generation_tokens_total") >= KILLED_AFTER:
                return twin
        await asyncio.sleep(LOOK_AGAIN)


async def test_the_stream_goes_on(paired: Gateway, twins: list[RealVllm]) -> None:
    never = await Vllm(twins[0].url, parser=True).never("</think>", *TURN_ENDS)
    body = ask("twins", STORY, streamed=True, cap=CAP, **never)
    flight = asyncio.create_task(stream(paired.url, body))
    async with asyncio.timeout(LONG / 2):
        dead = await carrier(twins)
    dead.kill()
    told: Stream = await flight

    assert told.errors == []
    assert (told.reasons, told.done, told.after_done) == (["length"], True, 0)
    assert len({event["id"] for event in told.events}) == 1
    thinking = told.extension["thinking"]
    assert (told.extension["legs"], thinking["ended_by"], thinking["tokens"]) == (3, "cap", CAP)
    [usage] = told.usages
    assert usage["completion_tokens"] == body["max_tokens"]

    # The same again where nothing is killed: the twin alone says what both said together. Only the beginning is held to
    # the letter: a prefill may round the last block's numbers otherwise than a decode.
    alone = await tell(paired, ask("twins", STORY, streamed=False, cap=CAP, **never))
    kept = len(alone.thought[: KILLED_AFTER * 2])
    assert told.thought[:kept] == alone.thought[:kept]
    assert alone.thinking["tokens"] == thinking["tokens"]

    [living] = [twin for twin in twins if twin is not dead]
    async with httpx.AsyncClient() as client:
        rows = (await client.get(f"{paired.url}/admin/workers")).json()["data"]
    workers = {row["url"]: row for row in rows}
    assert workers[living.url]["ready"]
    await paired.wait_metric("thinkgate_worker_ready", {"pool": "twins"}, lambda ready: ready == 1)
    metrics = await paired.metrics()
    assert metrics.value("thinkgate_legs_total", kind="migrated") == 1
