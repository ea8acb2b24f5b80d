"""Pairs from the first sign of life to traffic, on a clock that a test turns."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from gateway.pools import State
from gateway.pools.handoff.beside import CONFIRMED_WITHIN
from gateway.pools.health import HealthWatch
from tests.scripted import HANG, refusal
from tests.scriptedpair import Bench, decoded, prefilled

POLL = 2.0
LISTS: dict[str, Any] = {"data": [{"id": "m", "owned_by": "vllm"}]}


class Cluster:
    """A new pair, and what its two workers answer to their health checks."""

    def __init__(self, handoff: str = "nixl", **timeouts: float) -> None:
        self.bench = Bench(handoff, ready=False, pool={"timeouts": timeouts})
        self.health = {"p0": 200, "d0": 200}
        self.lists = LISTS
        self.watches = [HealthWatch(part) for part in self.bench.pool.parts]
        for watch in self.watches:
            watch._client = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        for worker in self.bench.clients:
            worker.life.since = self.bench.now

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path in {"/health", "/ready"}:
            return httpx.Response(self.health[request.url.host])
        return httpx.Response(200, json=self.lists) if request.url.path == "/v1/models" else httpx.Response(404)

    async def live(self, seconds: float) -> None:
        """So many seconds of polls."""
        until = self.bench.now + seconds
        while self.bench.now < until:
            for part, watch in zip(self.bench.pool.parts, self.watches, strict=True):
                for worker in part.workers:
                    await watch.look(worker)
            self.bench.now += POLL


async def test_epd47_a_quarter_of_an_hour_of_compiling_ejects_nobody_and_lets_nobody_in() -> None:
    cluster = Cluster()
    [prefill], [decode] = cluster.bench.prefills, cluster.bench.decodes
    cluster.health["p0"] = 503
    cluster.bench.clients[prefill].answer = lambda asked: refusal(503)
    await cluster.live(720)
    assert (prefill.state, prefill.reason) == (State.WARMING, "/health answers 503")
    assert decode.state is State.WARMING, "nobody has prefilled for it yet"
    assert not cluster.bench.pool.is_ready
    cluster.health["p0"] = 200
    await cluster.live(180)
    assert (prefill.state, decode.state) == (State.WARMING, State.WARMING)
    assert not any(worker.breaker.is_open for worker in (prefill, decode))
    cluster.bench.clients[prefill].answer = lambda asked: prefilled()
    await cluster.live(2 * POLL)
    assert prefill.is_ready
    assert decode.is_ready
    assert cluster.bench.pool.is_ready
    assert cluster.bench.load == {}


async def test_a_canary_believes_no_answer_before_the_prefill_worker_has_ended_well() -> None:
    """A decode worker that answers by itself would pass otherwise: that a client's delta is not held back for longer
    than a moment is for clients."""
    cluster = Cluster("nixl-push", first_token=2 * CONFIRMED_WITHIN)
    [prefill], [decode] = cluster.bench.prefills, cluster.bench.decodes
    cluster.bench.clients[prefill].answer = lambda asked: HANG
    await cluster.live(2 * POLL)
    assert [worker.state for worker in (prefill, decode)] == [State.WARMING] * 2
    assert "ReadTimeout" in decode.reason
    await cluster.bench.quiet()
    assert cluster.bench.load == {}


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        ("vllm", "ready"),
        ("acme", "ready"),
        (None, "ready"),
        (["vllm"], "ready"),
        ("sglang", "it says that it is sglang, and the pool's engine is vllm"),
    ],
)
async def test_epd44_a_worker_that_says_it_is_another_engine_is_not_taken_in(owner: object, reason: str) -> None:
    cluster = Cluster()
    cluster.lists = {"data": [{"id": "m", "owned_by": owner}]}
    for worker, well in ((cluster.bench.prefills[0], prefilled), (cluster.bench.decodes[0], decoded)):
        cluster.bench.clients[worker].answer = lambda asked, well=well: well()
    await cluster.live(2 * POLL)
    assert {worker.reason for worker in cluster.bench.clients} == {reason}
