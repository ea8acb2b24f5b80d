"""From the first sign of life to traffic, on a clock that a test turns: loading, compiling, canary, slow start."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import httpx
import pytest

from gateway.config import EngineKind, Health
from gateway.config import Pool as PoolConfig
from gateway.pools import Pool, State
from gateway.pools.health import HealthWatch
from gateway.pools.roster import FIRST_SHARE, Cause
from gateway.pools.verdict import SUCCESS, Kind, Verdict
from tests.scripted import make_ready
from tests.unit.test_health import GENERATED, Moves

MODELS = {"data": [{"id": "m"}]}
POLL = 2.0


def generated(*texts: str, finish: str | None = "length") -> bytes:
    deltas = [{"choices": [{"delta": {"reasoning": text}, "finish_reason": None}]} for text in texts]
    deltas.append({"choices": [{"delta": {}, "finish_reason": finish}]})
    return b"".join(b"data: " + json.dumps(delta).encode() + b"\n\n" for delta in deltas) + b"data: [DONE]\n\n"


class Fleet:
    """Workers whose answers and whose time a test sets."""

    def __init__(self, workers: int = 1, engine: EngineKind = EngineKind.VLLM, **health: Any) -> None:
        urls = tuple(f"http://w{number}:1" for number in range(workers))
        config = PoolConfig(model="m", engine=engine, format="think", workers=urls, health=Health(**health))
        self.now = 1_000.0
        self.pool = Pool("p", config)
        self.pool.clock = lambda: self.now
        for worker in self.pool.workers:
            worker.life.since = self.now
        self.moves = Moves()
        self.pool.listener = self.moves
        self.answers: dict[str, Any] = {"/health": b"", "/v1/models": MODELS, "/v1/chat/completions": GENERATED}
        self.seen: Counter[str] = Counter()
        self.watch = HealthWatch(self.pool)
        self.watch._client = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        self.worker = self.pool.workers[0]

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.seen[request.url.path] += 1
        found = self.answers.get(request.url.path, 404)
        if isinstance(found, Exception):
            raise found
        if isinstance(found, int):
            return httpx.Response(found)
        return httpx.Response(200, content=found) if isinstance(found, bytes) else httpx.Response(200, json=found)

    async def live(self, seconds: float) -> None:
        """So many seconds of polls."""
        until = self.now + seconds
        while self.now < until:
            for worker in self.pool.workers:
                await self.watch.look(worker)
            self.now += POLL


async def test_a_quarter_of_an_hour_of_compiling_trips_nothing() -> None:
    """DeepGEMM's kernels: first nobody listens, then /health says 503, then the model is there and cannot generate."""
    fleet = Fleet()
    fleet.answers["/health"] = httpx.ConnectError("refused")
    await fleet.live(120)
    assert (fleet.worker.state, fleet.worker.reason) == (State.PENDING, "it refuses connections")
    fleet.answers["/health"] = 503
    await fleet.live(300)
    assert (fleet.worker.state, fleet.worker.reason) == (State.WARMING, "/health answers 503")
    fleet.answers |= {"/health": b"", "/v1/chat/completions": 503}
    await fleet.live(480)
    assert (fleet.worker.state, fleet.worker.reason) == (State.WARMING, "a generation is answered with 503")
    assert fleet.moves.causes == []
    assert not fleet.worker.breaker.is_open
    fleet.answers["/v1/chat/completions"] = GENERATED
    await fleet.live(POLL)
    assert fleet.worker.is_ready
    assert fleet.moves.states == [State.WARMING, State.READY]


async def test_a_quarter_of_an_hour_beside_a_worker_that_serves_and_then_a_minute_of_growing_traffic() -> None:
    fleet = Fleet(workers=2)
    old, new = fleet.pool.workers
    make_ready(fleet.pool, old)
    seats = [old.seat() for _ in range(3)]
    fleet.answers["/v1/chat/completions"] = httpx.ReadTimeout("it compiles")
    for _ in range(900 // 30):
        await fleet.live(30)
        assert {fleet.pool.pick(key=f"k{number}") for number in range(20)} == {old}
        assert fleet.pool.has_other([old]) is False, "nor is anything repeated there"
    assert (new.state, new.reason) == (State.WARMING, "a generation is not answered (ReadTimeout)")
    assert (old.is_ready, fleet.moves.causes, new.breaker.is_open) == (True, [], False)
    for seat in seats:
        old.let_go(seat, SUCCESS, aborted=False)
    fleet.answers["/v1/chat/completions"] = GENERATED
    await fleet.live(POLL)
    assert new.is_ready
    fleet.pool.random.seed(3)
    parts: list[float] = []
    for _ in range(4):
        picked = Counter(fleet.pool.pick(key=f"k{number}") for number in range(1_000))
        parts.append(picked[new] / 1_000)
        await fleet.live(20)
    assert parts == sorted(parts)
    assert parts[0] < 0.12
    assert parts[-1] > 0.4
    assert fleet.moves.causes == []


async def test_after_half_an_hour_it_is_called_ejected_and_may_still_come() -> None:
    fleet = Fleet()
    fleet.answers["/v1/chat/completions"] = 503
    await fleet.live(1_798)
    assert fleet.worker.state is State.WARMING
    await fleet.live(6)
    assert fleet.moves.causes == [Cause.WARM_UP]
    assert "not ready within 1800 s" in fleet.worker.reason or fleet.worker.state is State.WARMING
    fleet.answers["/v1/chat/completions"] = GENERATED
    await fleet.live(2 * POLL)
    assert fleet.worker.is_ready


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (500, "answered with 500"),
        (307, "answered with 307"),
        (b"<html>It works!</html>", "does not come to an end"),
        (b"data: <html>\n\n", "something else than events"),
        (b'data: {"choices": 7}\n\n', "something else than events"),
        (b'data: {"error":{"message":"no","code":500}}\n\ndata: [DONE]\n\n', "ends in an error"),
        (generated("a", "b", finish=None), "does not come to an end"),
        (generated(*["!!!!"] * 8), "nothing but one character"),
        (b"x" * 5_000_000, "not answered (TooLong)"),
        (httpx.ReadTimeout("slow"), "not answered (ReadTimeout)"),
    ],
)
async def test_a_canary_tells_what_is_no_generation(answer: Any, reason: str) -> None:
    fleet = Fleet()
    fleet.answers["/v1/chat/completions"] = answer
    await fleet.live(3 * POLL)
    assert fleet.worker.state is State.WARMING
    assert reason in fleet.worker.reason
    fleet.answers["/v1/chat/completions"] = generated("Hel", "lo")
    await fleet.live(POLL)
    assert fleet.worker.is_ready


async def test_a_paid_api_gets_no_canary_unless_told_so() -> None:
    fleet = Fleet(engine=EngineKind.OPENAI)
    await fleet.live(POLL)
    assert fleet.worker.is_ready
    assert fleet.seen["/v1/chat/completions"] == 0
    told = Fleet(engine=EngineKind.OPENAI, canary=True)
    await told.live(POLL)
    assert told.seen["/v1/chat/completions"] == 1


async def test_a_newcomer_gets_its_share_by_and_by() -> None:
    fleet = Fleet(workers=2)
    old, new = fleet.pool.workers
    make_ready(fleet.pool, old)
    fleet.now += 3_600
    make_ready(fleet.pool, new)
    shares = []
    for _ in range(5):
        shares.append(round(fleet.pool.share(new, fleet.now), 3))
        fleet.now += 15
    assert shares == [FIRST_SHARE, 0.325, 0.55, 0.775, 1.0]
    fleet.now -= 75
    fleet.pool.random.seed(7)
    picked = Counter(fleet.pool.pick(key=f"k{number}").name for number in range(2_000))
    assert 0.02 < picked[new.name] / 2_000 < 0.09, "a tenth of its half"
    fleet.now += 60
    picked = Counter(fleet.pool.pick(key=f"k{number}").name for number in range(2_000))
    assert 0.4 < picked[new.name] / 2_000 < 0.6


async def test_a_worker_that_fails_comes_back_by_one_canary_after_its_time() -> None:
    fleet = Fleet(workers=2)
    await fleet.live(POLL)
    for _ in range(5):
        fleet.pool.judge(fleet.worker, Verdict(Kind.FAILURE), fleet.worker.breaker.take())
    assert (fleet.worker.state, fleet.moves.causes) == (State.EJECTED, [Cause.FAILURES])
    before = fleet.seen["/v1/chat/completions"]
    await fleet.live(4)
    assert (fleet.worker.state, fleet.seen["/v1/chat/completions"]) == (State.EJECTED, before), "its time is not over"
    fleet.answers["/v1/chat/completions"] = 500
    await fleet.live(10)
    assert fleet.seen["/v1/chat/completions"] == before + 1, "one probe, and then twice the time"
    assert not fleet.worker.is_ready
    fleet.answers["/v1/chat/completions"] = GENERATED
    await fleet.live(40)
    assert fleet.worker.is_ready
    assert not fleet.worker.breaker.is_open


async def test_without_a_canary_the_first_request_is_the_probe() -> None:
    fleet = Fleet(workers=2, engine=EngineKind.OPENAI)
    await fleet.live(POLL)
    worker, other = fleet.pool.workers
    fleet.pool.judge(worker, Verdict(Kind.FAILURE, is_unreachable=True), worker.breaker.take())
    assert (worker.state, fleet.moves.causes) == (State.EJECTED, [Cause.UNREACHABLE])
    await fleet.live(6)
    assert worker.is_ready
    seat = worker.seat()
    assert {fleet.pool.pick(key=str(number)) for number in range(50)} == {other}, "one at a time"
    worker.let_go(seat, SUCCESS, aborted=False)
    fleet.now += 60
    assert {fleet.pool.pick(key=str(number)) for number in range(50)} == {worker, other}


async def test_the_last_worker_is_not_ejected_for_failures_but_for_its_health() -> None:
    fleet = Fleet()
    await fleet.live(POLL)
    for _ in range(20):
        fleet.pool.judge(fleet.worker, Verdict(Kind.FAILURE), fleet.worker.breaker.take())
    assert fleet.pool.pick() is fleet.worker
    fleet.answers["/health"] = 500
    await fleet.live(3 * POLL)
    assert (fleet.worker.state, fleet.moves.causes) == (State.EJECTED, [Cause.HEALTH])


async def test_a_worker_that_drains_is_not_taken_back() -> None:
    fleet = Fleet()
    await fleet.live(POLL)
    seat = fleet.worker.seat()
    fleet.pool.drain(fleet.worker)
    await fleet.live(20)
    assert fleet.worker.state is State.DRAINING
    fleet.worker.let_go(seat, SUCCESS, aborted=False)
    await fleet.live(20)
    assert fleet.worker.state is State.GONE
    again = fleet.pool.add("http://w0:1")
    await fleet.live(POLL)
    assert again.is_ready
    assert fleet.pool.workers == [again]


async def test_sglang_is_asked_whether_it_is_ready_and_not_to_generate() -> None:
    """Its /health takes a second at least, and twenty under load."""
    fleet = Fleet(engine=EngineKind.SGLANG)
    fleet.answers["/ready"] = 503
    await fleet.live(POLL)
    assert (fleet.worker.reason, fleet.seen["/health"]) == ("/ready answers 503", 0)
    del fleet.answers["/ready"]
    await fleet.live(POLL)
    assert fleet.worker.is_ready, "an older release has no /ready"
    assert fleet.seen["/health"] == 1


async def test_what_nobody_has_thought_of_does_not_end_the_watch() -> None:
    fleet = Fleet()
    fleet.answers["/health"] = ArithmeticError("a bug")
    await fleet.live(POLL)
    assert (fleet.worker.state, fleet.worker.reason) == (State.WARMING, "it cannot be checked (ArithmeticError)")
    fleet.answers["/health"] = b""
    await fleet.live(POLL)
    assert fleet.worker.is_ready


async def test_a_worker_that_was_replaced_speaks_no_more_for_its_name() -> None:
    fleet = Fleet(workers=2)
    await fleet.live(POLL)
    old = fleet.worker
    fleet.pool.adopt("embedded", "http://w9:1")
    for _ in range(5):
        fleet.pool.judge(old, Verdict(Kind.FAILURE), old.breaker.take())
    assert (old.state, fleet.moves.causes) == (State.GONE, [])
