"""The health watch against a stub of an engine: what makes a worker ready, what takes it out, what brings it back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.config import EngineKind, Health
from gateway.config import Pool as PoolConfig
from gateway.engines.capabilities import Capabilities, Path
from gateway.pools import Pool, State, Worker
from gateway.pools.health import HealthWatch
from gateway.pools.roster import Cause
from gateway.pools.verdict import Verdict
from tests.rawengine import until


class Stub:
    """Answers by path with (status, body); a path that is missing closes the connection."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Any]] = {
            "/health": (200, {}),
            "/v1/models": (200, {"data": [{"id": "m"}]}),
            "/v1/chat/completions": (200, GENERATED),
        }
        self.seen: list[str] = []
        self.keys: set[str] = set()
        self.writers: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                path = head.split(" ")[1]
                lengths = [
                    line.split(":")[1] for line in head.lower().split("\r\n") if line.startswith("content-length")
                ]
                await reader.readexactly(int(lengths[0]) if lengths else 0)
                self.seen.append(path)
                self.keys |= {line for line in head.split("\r\n") if line.lower().startswith("authorization")}
                if path not in self.answers:
                    break
                status, body = self.answers[path]
                raw = body if isinstance(body, bytes) else json.dumps(body).encode()
                writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n" % (status, len(raw)) + raw)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()


GENERATED = b'data: {"choices":[{"delta":{"content":"Hello"},"finish_reason":"length"}]}\n\ndata: [DONE]\n\n'


class Moves:
    """A listener that keeps the states workers went to, and why they were ejected."""

    def __init__(self) -> None:
        self.states: list[State] = []
        self.causes: list[Cause] = []

    def moved(self, pool: str, worker: Worker) -> None:
        self.states.append(worker.state)

    def ejected(self, pool: str, worker: Worker, cause: Cause) -> None:
        self.causes.append(cause)

    def judged(self, pool: str, worker: Worker, verdict: Verdict) -> None: ...
    def flooded(self, pool: str, worker: Worker) -> None: ...
    def retry_refused(self, pool: str) -> None: ...
    def measured(self, pool: str, worker: Worker) -> None: ...
    def removed(self, pool: str, worker: Worker) -> None: ...


@asynccontextmanager
async def watched(
    engine: EngineKind = EngineKind.VLLM, *, failures: int = 3, **fields: Any
) -> AsyncGenerator[tuple[Stub, Worker, Moves]]:
    """A stub, the worker over it, and the states it went to, while a watch polls every few milliseconds."""
    stub = Stub()
    server = await asyncio.start_server(stub.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    health = Health(interval=0.005, timeout=2, failures=failures)
    pool = Pool("p", PoolConfig(model="m", engine=engine, workers=(url,), health=health, **fields))
    moves = Moves()
    pool.listener = moves
    watch = asyncio.create_task(HealthWatch(pool).run())
    try:
        yield stub, pool.workers[0], moves
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        server.close()
        for writer in stub.writers:
            writer.transport.abort()
        await asyncio.sleep(0)
    assert watch.cancelled()


async def test_a_worker_that_answers_and_lists_the_model_is_ready() -> None:
    async with watched(api_key=SecretStr("sk-1")) as (stub, worker, moves):
        assert (worker.state, worker.is_ready) == (State.PENDING, False)
        await until(lambda: worker.is_ready)
        assert stub.seen[:3] == ["/health", "/v1/models", "/v1/chat/completions"]
        assert {key.partition(": ")[2] for key in stub.keys} == {"Bearer sk-1"}
        await until(lambda: len(stub.seen) >= 6)
        assert moves.states == [State.WARMING, State.READY], "a state that stays is not told again"


@pytest.mark.parametrize(
    ("path", "answer", "reason"),
    [
        ("/health", (503, {}), "/health answers 503"),
        ("/v1/models", (500, {}), "/v1/models answers 500"),
        ("/v1/models", (200, {"data": [{"id": "other"}]}), "the model 'm' is not listed"),
        ("/v1/models", (200, b"no json \xff"), "the model 'm' is not listed"),
        ("/v1/models", (200, []), "the model 'm' is not listed"),
        ("/v1/models", (200, {"data": [1]}), "the model 'm' is not listed"),
        ("/v1/models", (200, {"data": [{"id": []}]}), "the model 'm' is not listed"),
        ("/v1/models", (200, None), "the model 'm' is not listed"),
    ],
)
async def test_a_worker_that_answers_but_is_not_ready_warms_up_and_says_why(
    path: str, answer: tuple[int, Any], reason: str
) -> None:
    async with watched() as (stub, worker, moves):
        stub.answers[path] = answer
        await until(lambda: worker.state is State.WARMING and worker.failures >= 3)
        assert (worker.reason, moves.states) == (reason, [State.WARMING])
        stub.answers = Stub().answers
        await until(lambda: worker.is_ready)
        assert moves.states == [State.WARMING, State.READY]


async def test_a_ready_worker_is_taken_out_only_after_several_failures_in_a_row() -> None:
    async with watched(failures=3) as (stub, worker, moves):
        await until(lambda: worker.is_ready)
        del stub.answers["/health"]
        await until(lambda: worker.failures >= 1)
        assert worker.is_ready
        await until(lambda: worker.state is State.EJECTED)
        assert (worker.failures, moves.causes) == (3, [Cause.HEALTH])
        assert worker.reason == "its answer is broken: Server disconnected without sending a response."
        stub.answers = Stub().answers
        await until(lambda: worker.is_ready)
        assert worker.failures == 0
        assert moves.states[-3:] == [State.EJECTED, State.WARMING, State.READY], (
            "one success and a canary bring it back"
        )


async def test_failures_that_are_not_in_a_row_do_not_count() -> None:
    async with watched(failures=50) as (stub, worker, moves):
        await until(lambda: worker.is_ready)
        for _ in range(2):
            stub.answers["/health"] = (500, {})
            await until(lambda: worker.failures >= 2)
            stub.answers["/health"] = (200, {})
            await until(lambda: worker.failures == 0)
        assert moves.states == [State.WARMING, State.READY]


async def test_llama_server_lists_a_file_and_a_hosted_api_has_no_health() -> None:
    async with watched(EngineKind.LLAMACPP) as (stub, worker, _):
        stub.answers["/v1/models"] = (200, {"data": [{"id": "weights.gguf"}]})
        await until(lambda: worker.is_ready)
    async with watched(EngineKind.OPENAI) as (stub, worker, _):
        await until(lambda: worker.is_ready)
        assert "/health" not in stub.seen


async def test_nobody_listens() -> None:
    async with watched() as (stub, worker, moves):
        stub.answers = {}
        await until(lambda: worker.failures >= 3)
        assert (worker.state, moves.states) == (State.PENDING, []), "it was never seen"


async def test_a_probe_without_an_answer_is_no_verdict_and_is_tried_again() -> None:
    """The stub closes the connection on paths it does not know: the worker may serve, what it can do stays unknown."""
    async with watched() as (stub, worker, _):
        await until(lambda: worker.is_ready and stub.seen.count("/version") >= 2)
        assert worker.capabilities is None
        stub.answers |= {"/version": (200, {"version": "9"}), "/tokenize": (200, {"tokens": [1]})}
        stub.answers["/detokenize"] = (404, {})
        stub.answers["/v1/chat/completions"] = (400, {"error": {"message": "thinking_token_budget"}})
        await until(lambda: worker.capabilities is not None)
        counted = dict.fromkeys(worker.capabilities.counted, 1)
        assert worker.capabilities == Capabilities(paths=frozenset({Path.IDS}), version="9", counted=counted)
        assert len(counted) == 2, "the closing phrase, and the one to think on"


async def test_a_worker_that_is_slow_to_answer_holds_up_no_other() -> None:
    never = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await never.wait()
        finally:
            writer.transport.abort()

    stub = Stub()
    slow, quick = [await asyncio.start_server(serve, "127.0.0.1", 0) for serve in (silent, stub.serve)]
    urls = tuple(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in (slow, quick))
    health = Health(interval=0.005, timeout=60)
    pool = Pool("p", PoolConfig(model="m", engine=EngineKind.VLLM, workers=urls, health=health))
    watch = asyncio.create_task(HealthWatch(pool).run())
    try:
        await until(lambda: pool.workers[1].is_ready and stub.seen.count("/health") >= 3)
        assert pool.workers[0].state is State.PENDING
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        never.set()
        for server in (slow, quick):
            server.close()
        for writer in stub.writers:
            writer.transport.abort()
        await asyncio.sleep(0)
