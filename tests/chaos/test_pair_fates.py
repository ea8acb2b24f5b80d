"""Five hundred flights over a disaggregated cluster whose workers fail in every way they know, one time in twenty each.

`make chaos` sets THINKGATE_CHAOS: then every hand-off gets all of them; else the two that most people run, and a fifth.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.doubles.pair.cluster import HANDOFFS, Cluster, cluster
from tests.doubles.pair.faults import DECODE, PREFILL, SGLANG_DECODE, SGLANG_PREFILL, Faults
from tests.doubles.server import Host
from tests.harness import Gateway, config
from tests.service.pairing import pool_of, says, text
from tests.service.talk import Stream, chat

pytestmark = pytest.mark.alone

IS_LONG = "THINKGATE_CHAOS" in os.environ
FLIGHTS = {name: 500 if IS_LONG or name in {"nixl", "sglang"} else 100 for name in HANDOFFS}
"""In a storm; on a bad day in the common test run a quarter."""
AT_ONCE = 60
WORKERS = 3
LEFT_OUT = frozenset({"garbage", "lost_after", "expired"})
"""A decode worker that talks nonsense under 200, while its prefill worker says that all is well: nobody can tell. And a
cache that is gone before it is fetched: the decode worker rightly prefills, in the voice of one that stands alone."""
THINK = 24
STORM = 0.05
"""Part of the legs that each fault strikes."""


@pytest.fixture(scope="module", params=HANDOFFS)
def made(request: pytest.FixtureRequest, host: Host) -> Iterator[Cluster]:
    handoff: str = request.param
    sides = (SGLANG_PREFILL, SGLANG_DECODE) if handoff == "sglang" else (PREFILL, DECODE)
    first, second = (Faults(known) for known in sides)
    settings = {"prefill": {"faults": first}, "decode": {"faults": second}}
    with cluster(host, handoff, prefills=WORKERS, decodes=WORKERS, **settings) as made:
        yield made


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], made: Cluster) -> Gateway:
    patience = {"queue": 10, "first_token": 4, "idle": 4}
    settings = pool_of(
        made,
        timeouts=patience,
        health={"interval": 0.3, "slow_start": 0},
        disaggregation={"if_missing": "refuse"},  # a text begun locally would go on in another voice elsewhere
    )
    return gateway(config({"apart": settings})).wait_workers(2 * WORKERS)


@pytest.mark.timeout(170)
@pytest.mark.parametrize(("rate", "whole"), [(STORM, 0.1), (0.01, 0.75)], ids=["storm", "bad-day"])
async def test_every_flight_ends_once_with_its_own_text_or_a_clean_error(
    served: Gateway, made: Cluster, rate: float, whole: float
) -> None:
    """`rate`: of each fault, by leg, so that in a storm nine attempts of ten fail. `whole`: part of the flights that
    come through all the same."""
    flights = FLIGHTS[made.handoff] // (4 if rate < STORM and not IS_LONG else 1)
    name = f"{rate:g}".replace(".", "-")
    begin_faults(made, rate)
    ends: Counter[str] = Counter()
    numbers = iter(range(flights))
    async with httpx.AsyncClient(timeout=90, limits=httpx.Limits(max_connections=AT_ONCE), verify=False) as client:

        async def one_after_another() -> None:
            for number in numbers:
                ends[await fly(client, served, made, f"{name}-{number}", number)] += 1

        await asyncio.gather(*(one_after_another() for _ in range(AT_ONCE)))
    struck = end_faults(made)
    assert ends.total() == flights
    assert ends["whole"] >= flights * whole, ends
    if flights >= 500 and rate >= 0.05:
        assert all(struck.values()), struck
    await assert_nothing_is_left(served, made)


def begin_faults(made: Cluster, rate: float) -> None:
    for worker in (made.prefill, made.decode):  # those of a role share theirs
        faults: Faults = worker.faults
        faults.rates = dict.fromkeys(sorted(faults.known - LEFT_OUT), rate)


def end_faults(made: Cluster) -> Counter[str]:
    struck: Counter[str] = Counter()
    for worker in made.workers:
        for leg in worker.active:
            leg.release()  # a probe that a fault holds up would be waited for its whole minute
    for worker in (made.prefill, made.decode):
        faults: Faults = worker.faults
        faults.rates = {}
        struck.update({name: faults.struck[name] for name in faults.known - LEFT_OUT})
    return struck


async def fly(client: httpx.AsyncClient, served: Gateway, made: Cluster, name: str, number: int) -> str:
    """What the client saw: `whole`, `cut short` (an error event after a part), `refused`, or `left`."""
    key = f"apart-{name}"
    body = chat(made.model, key, think=THINK, delay_ms=1, stream=number % 4 != 3)
    expected = says(made.key(body), THINK)
    url = f"{served.url}/v1/chat/completions"
    if not body.get("stream"):
        response = await client.post(url, json=body)
        return _seen_whole(response, expected)
    async with client.stream("POST", url, json=body) as response:
        told = Stream(response.status_code, response.headers)
        if "text/event-stream" not in response.headers.get("content-type", ""):
            return _seen_refusal(response.status_code, await response.aread())
        async for line in response.aiter_lines():
            told.feed(line)
            if number % 25 == 8 and len(told.events) > 6:
                return "left"
    return _seen_stream(told, expected)


def _seen_whole(response: httpx.Response, expected: tuple[str, str]) -> str:
    if response.status_code != 200:
        return _seen_refusal(response.status_code, response.content)
    message = response.json()["choices"][0]["message"]
    assert (message["reasoning_content"].strip(), message["content"].strip()) == expected
    return "whole"


def _seen_refusal(status: int, body: bytes) -> str:
    assert status in {400, 429, 500, 502, 503, 504}, (status, body)
    assert b'"error"' in body, body
    return "refused"


def _seen_stream(told: Stream, expected: tuple[str, str]) -> str:
    assert told.done + len(told.errors) == 1, (told.done, told.errors)
    thought, answer = text(told)
    if told.done:
        assert (thought, answer) == expected
        return "whole"
    assert expected[0].startswith(thought), (thought, expected[0])
    assert expected[1].startswith(answer), (answer, expected[1])
    return "cut short"


async def assert_nothing_is_left(served: Gateway, made: Cluster) -> None:
    await served.wait_grounded()
    await made.settled()
    made.assert_clean()
    metrics = await served.metrics()
    assert metrics.value("thinkgate_worker_tokens_in_flight") == 0
    assert metrics.value("thinkgate_handoffs_total", result="handed") > 0
