"""Polls a pool's workers: ready means that `/health` is well, the model is listed, and what it can do was asked.

A task a poll, over httpx; the streaming path never waits for it. A worker is taken out only after several failures
in a row, and comes back with one success.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

import httpx
import structlog

from gateway.config import EngineKind
from gateway.pools.asking import asker
from gateway.pools.pool import Pool
from gateway.pools.worker import State, Worker

log = structlog.get_logger("thinkgate.health")

PROBE_PATIENCE = 60.0
"""Seconds a worker may take to answer what it can do: it may have to generate its first token for that."""

_CHECKS_MODEL = frozenset({EngineKind.VLLM, EngineKind.SGLANG})
"""Engines that list the model under the name they are asked for. llama-server lists a file and answers to any name."""


class HealthWatch:
    """Keeps the states of one pool's workers; `on_change` is called after every transition."""

    def __init__(self, pool: Pool, on_change: Callable[[Pool, Worker], None]) -> None:
        self._pool = pool
        self._on_change = on_change
        health = pool.config.health
        self._client = httpx.AsyncClient(
            timeout=health.timeout, headers=pool.headers, verify=pool.config.tls_verify, trust_env=False
        )

    async def run(self) -> None:
        """Poll until cancelled."""
        polls: dict[Worker, asyncio.Task[None]] = {}
        try:
            while True:
                for worker in self._pool.workers:
                    poll = polls.get(worker)
                    if poll is not None and not poll.done():
                        continue  # a slow worker waits for itself only
                    if poll is not None:
                        poll.result()
                    polls[worker] = asyncio.create_task(self._poll(worker))
                await asyncio.sleep(self._pool.config.health.interval)
        finally:
            for poll in polls.values():
                poll.cancel()
            await asyncio.gather(*polls.values(), return_exceptions=True)
            await self._client.aclose()

    async def _poll(self, worker: Worker) -> None:
        problem = await self._problem(worker)
        if problem is None and worker.capabilities is None:
            await self._probe(worker)
        if problem is None:
            worker.failures = 0
            self._move(worker, State.READY, "ready")
            await self._count_strangers(worker)
            return
        worker.failures += 1
        if worker.state is not State.READY or worker.failures >= self._pool.config.health.failures:
            self._move(worker, State.DOWN, problem)

    async def _probe(self, worker: Worker) -> None:
        """Ask what it can do. No answer is no verdict: it may serve, and is asked again at the next poll."""
        try:
            found = await self._pool.dialect.probe(
                asker(self._client, worker, PROBE_PATIENCE), self._pool.profile, self._pool.phrases
            )
        except httpx.HTTPError as error:
            log.warning("could not ask a worker what it can do", worker=worker.name, problem=type(error).__name__)
            return
        worker.capabilities = found
        log.info("capabilities", pool=self._pool.name, worker=worker.name, **found.shown)

    async def _count_strangers(self, worker: Worker) -> None:
        """What it runs for others, seen while nothing of ours is on its way out."""
        try:
            running = await self._pool.dialect.running(asker(self._client, worker, self._pool.config.health.timeout))
        except httpx.HTTPError:
            return
        if running is not None and not worker.leaving:
            worker.strangers = max(0, running - worker.in_flight)

    async def _problem(self, worker: Worker) -> str | None:
        """Why the worker cannot serve, None if it can."""
        engine = self._pool.config.engine
        try:
            if engine is not EngineKind.OPENAI:
                answer = await self._client.get(f"{worker.url}/health")
                if answer.status_code != 200:
                    return f"/health answers {answer.status_code}"
            answer = await self._client.get(f"{worker.url}/v1/models")
            if answer.status_code != 200:
                return f"/v1/models answers {answer.status_code}"
            if engine in _CHECKS_MODEL and self._pool.profile.model not in _listed(answer):
                return f"the model {self._pool.profile.model!r} is not listed"
        except httpx.TimeoutException:
            return "it does not answer in time"
        except httpx.ConnectError:
            return "it refuses connections"
        except httpx.HTTPError as error:
            return f"its answer is broken ({type(error).__name__})"
        return None

    def _move(self, worker: Worker, state: State, reason: str) -> None:
        if worker.state is state:
            worker.reason = reason
            return
        if worker.state is State.SICK and state is State.READY and monotonic() < worker.sick_until:
            return
        before, worker.state = worker.state, state
        worker.reason = reason
        self._pool.note_state()
        log.info("worker", pool=self._pool.name, worker=worker.name, was=before, now=state, reason=reason)
        self._on_change(self._pool, worker)


def _listed(answer: httpx.Response) -> set[str]:
    try:
        entries = answer.json()["data"]
        return {entry["id"] for entry in entries}
    except (ValueError, KeyError, TypeError):
        return set()
