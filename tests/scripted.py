"""Stand-ins for the streaming path: scripted engines behind `Client` and `Response`, and a sink that records.

All of them note what happens on one `Tape`, which can also cancel the running flight at its n-th await.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gateway.config import EngineKind, SelectionPolicy, Thinking, Timeouts
from gateway.config import Pool as PoolConfig
from gateway.deltas import Delta
from gateway.edge.errors import ApiError
from gateway.landing import Landing
from gateway.pools import Pool, State, Worker
from gateway.reading import Identity
from gateway.upstream import End, Response, Terms, UpstreamError

Hang = Literal["hang"]
HANG: Hang = "hang"
Script = list[bytes | UpstreamError | Hang]

SSE_HEADERS = {"content-type": "text/event-stream"}
DONE = b"data: [DONE]\n\n"


def chunk(delta: dict[str, Any] | None = None, *, finish: str | None = None, index: int = 0, **extra: Any) -> bytes:
    """One chat-completion event. `extra` goes to the top level; with `delta` None there are no choices."""
    choices = [] if delta is None else [{"index": index, "delta": delta, "finish_reason": finish}]
    body = {"id": "e-1", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": choices, **extra}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


ROLE = chunk({"role": "assistant", "content": ""})


def thoughts(*texts: str) -> bytes:
    return b"".join(chunk({"reasoning_content": text}) for text in texts)


def words(*texts: str) -> bytes:
    return b"".join(chunk({"content": text}) for text in texts)


def end(reason: str = "stop", *, prompt: int = 10, completion: int | None = None) -> bytes:
    """Finish reason, usage where a completion count is given, `[DONE]`."""
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    return chunk({}, finish=reason) + (b"" if completion is None else chunk(None, usage=usage)) + DONE


@dataclass
class Tape:
    """What happened, in order; `cancel_at` is the await (from 1) at which the current task is cancelled."""

    events: list[str] = field(default_factory=list[str])
    cancel_at: int = 0
    awaits: int = 0

    async def pause(self) -> None:
        self.awaits += 1
        if self.awaits == self.cancel_at:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        await asyncio.sleep(0)


class ScriptedResponse:
    """One answer: every item of the script is one read; after the last comes the end of the body."""

    def __init__(
        self, script: Script, *, status: int = 200, headers: Mapping[str, str] = SSE_HEADERS, tape: Tape | None = None
    ) -> None:
        self.status = status
        self.headers = headers
        self.ended: list[End] = []
        self.watched: list[float] = []
        self.tape = tape or Tape()
        self._script = list(script)

    @property
    def is_read(self) -> bool:
        """Has everything it had to say been read?"""
        return not self._script

    async def read(self) -> bytes:
        await self.tape.pause()
        if not self._script:
            return b""
        item = self._script.pop(0)
        if isinstance(item, UpstreamError):
            raise item
        if isinstance(item, str):
            await asyncio.Event().wait()
            raise AssertionError("only a cancellation ends this wait")
        return item

    def watch(self, idle: float) -> None:
        self.watched.append(idle)

    def end(self, how: End) -> None:
        if not self.ended:  # the real one lets only the first count
            self.tape.events.append(f"end {how}")
        self.ended.append(how)


@dataclass
class Asked:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class ScriptedClient:
    """Gives its answers one after the other."""

    def __init__(self, tape: Tape, answers: list[ScriptedResponse | UpstreamError]) -> None:
        self.tape = tape
        self.asked: list[Asked] = []
        self.answers = answers
        self.given: list[ScriptedResponse] = []

    async def post(
        self, path: str, headers: Mapping[str, str], body: bytes, sent: asyncio.Event | None = None
    ) -> Response:
        self.tape.events.append(f"post {path}")
        self.asked.append(Asked(path, dict(headers), json.loads(body)))
        await self.tape.pause()
        answer = self.answers.pop(0)
        if isinstance(answer, UpstreamError):
            raise answer
        answer.tape = self.tape
        self.given.append(answer)
        return answer

    def retune(self, terms: Terms) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is open."""


def stream(*reads: bytes | UpstreamError | Hang) -> ScriptedResponse:
    return ScriptedResponse(list(reads))


def refusal(status: int, message: str = "no", headers: Mapping[str, str] | None = None) -> ScriptedResponse:
    body = json.dumps({"error": {"message": message, "type": "E", "code": status}}).encode()
    return ScriptedResponse([body], status=status, headers=headers or {"content-type": "application/json"})


def reply(body: object) -> ScriptedResponse:
    return ScriptedResponse([json.dumps(body).encode()], headers={"content-type": "application/json"})


def scripted_pool(
    tape: Tape,
    *workers: list[ScriptedResponse | UpstreamError],
    engine: EngineKind = EngineKind.LLAMACPP,
    timeouts: Timeouts | None = None,
    **thinking: Any,
) -> tuple[Pool, list[ScriptedClient]]:
    """A ready pool whose workers answer as scripted; its closing phrase is ` Enough.`."""
    config = PoolConfig(
        model="m",
        engine=engine,
        format="think",
        workers=tuple(f"http://w{number}:1" for number in range(len(workers))),
        timeouts=timeouts or Timeouts(),
        selection=SelectionPolicy.ROTATION,
        thinking=Thinking(**{"closing_phrase": " Enough.", **thinking}),
    )
    pool = Pool("pool", config)
    clients = [ScriptedClient(tape, answers) for answers in workers]
    for worker, client in zip(pool.workers, clients, strict=True):
        worker.client = client
        worker.departed = None  # nobody watches what has left
        make_ready(pool, worker)
    return pool, clients


def make_ready(pool: Pool, *workers: Worker) -> None:
    """By the way that every worker goes."""
    for worker in workers or pool.workers:
        pool.move(worker, State.WARMING, "it answers")
        pool.move(worker, State.READY, "ready")


class RecordingSink:
    """What a client would have got."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.writes: list[list[Delta]] = []
        self.identities: list[Identity] = []
        self.landings: list[Landing] = []
        self.errors: list[ApiError] = []

    @property
    def deltas(self) -> list[Delta]:
        return [delta for write in self.writes for delta in write]

    async def write(self, deltas: list[Delta], identity: Identity) -> None:
        self.tape.events.append("write")
        self.writes.append(list(deltas))
        self.identities.append(identity)
        await self.tape.pause()

    async def land(self, landing: Landing) -> None:
        self.tape.events.append("land")
        self.landings.append(landing)
        await self.tape.pause()

    async def fail(self, error: ApiError) -> None:
        self.tape.events.append("fail")
        self.errors.append(error)
        await self.tape.pause()
