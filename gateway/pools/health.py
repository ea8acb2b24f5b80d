"""Watches a pool's workers: what makes one ready, what takes it out, what brings it back, and how busy it is.

Ready means: `/health` is well, the model is listed, a canary generation has passed, and what it can do was asked. A
task a poll, over httpx; the streaming path never waits for it. Loading and compiling may take half an hour and trip
nothing: a worker that warms up is only not chosen yet.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import httpx
import msgspec
import structlog

from gateway.config import EngineKind
from gateway.engines.capabilities import Ask, fields_of
from gateway.pools.asking import asker, asking_client, problem_of
from gateway.pools.canary import canary
from gateway.pools.handoff.paired import OthersFailure, paired
from gateway.pools.pool import Pool
from gateway.pools.role import Role
from gateway.pools.roster import Cause
from gateway.pools.states import State
from gateway.pools.verdict import NEUTRAL, SUCCESS, Kind, Verdict
from gateway.pools.worker import Worker

log = structlog.get_logger("thinkgate.health")

PROBE_PATIENCE = 60.0
"""Seconds a worker may take to answer what it can do: it may have to generate its first token for that."""

_HEALTH_PATHS = {EngineKind.SGLANG: ("/ready", "/health"), EngineKind.OPENAI: ()}
"""SGLang's /health generates a token, and takes a second or twenty; releases without /ready answer it with 404."""

_CHECKS_MODEL = frozenset({EngineKind.VLLM, EngineKind.SGLANG})
"""Engines that list the model under the name they are asked for. llama-server lists a file and answers to any name."""


class HealthWatch:
    """Keeps the states and the loads of one pool's workers."""

    def __init__(self, pool: Pool) -> None:
        self._client = asking_client(pool.config, pool.headers)
        self.renew(pool)

    def renew(self, pool: Pool) -> None:
        """The same workers under other settings; the key they want is the one that was."""
        self._pool = pool
        self._health = pool.config.health
        told = self._health.canary
        self._has_canary = pool.config.engine is not EngineKind.OPENAI if told is None else told

    async def run(self) -> None:
        """Poll until cancelled."""
        polls: dict[Worker, asyncio.Task[None]] = {}
        try:
            while True:
                for worker in self._pool.workers:
                    poll = polls.get(worker)
                    if poll is not None and not poll.done():
                        continue  # a slow worker waits for itself only
                    polls[worker] = asyncio.create_task(self.look(worker))
                for worker in polls.keys() - set(self._pool.workers):
                    polls.pop(worker).cancel()
                await asyncio.sleep(self._health.interval)
        finally:
            for poll in polls.values():
                poll.cancel()
            await asyncio.gather(*polls.values(), return_exceptions=True)
            await self._client.aclose()

    async def look(self, worker: Worker) -> None:
        """One poll, and what follows from it. What nobody has thought of ends neither this watch nor the gateway."""
        try:
            await self._look(worker)
        except Exception as error:
            log.exception("a worker cannot be checked", pool=self._pool.name, worker=worker.name)
            self._note_problem(worker, f"it cannot be checked ({type(error).__name__})", answers=True)
        finally:
            worker.meter.settle()

    async def _look(self, worker: Worker) -> None:
        if worker.state in {State.DRAINING, State.GONE}:
            return
        answers, problem = await self._problem(worker)
        if problem is not None:
            self._note_problem(worker, problem, answers=answers)
            return
        worker.failures = 0
        if not worker.is_ready:
            await self._take_in(worker)
        if worker.is_ready:
            await self._measure(worker)

    def _note_problem(self, worker: Worker, problem: str, *, answers: bool) -> None:
        pool, now = self._pool, self._pool.clock()
        worker.failures += 1
        if worker.is_ready:
            if worker.failures >= self._health.failures:
                pool.eject(worker, Cause.HEALTH, problem, now)
            return
        pool.move(worker, State.WARMING if answers and worker.state is State.PENDING else worker.state, problem)
        self._give_up_if_late(worker, problem)

    def _give_up_if_late(self, worker: Worker, problem: str) -> None:
        """One that has not become ready in all its time is shown as ejected; it is looked at all the same."""
        now = self._pool.clock()
        if worker.state in {State.PENDING, State.WARMING} and now - worker.life.since >= self._health.warm_up:
            reason = f"not ready within {self._health.warm_up:g} s: {problem}"
            self._pool.eject(worker, Cause.WARM_UP, reason, now)

    async def _take_in(self, worker: Worker) -> None:
        """From wherever it is to ready, if it can generate."""
        pool = self._pool
        if worker.state is State.EJECTED:
            if pool.clock() < worker.ejected_until:
                return
            worker.is_known = False
        pool.move(worker, State.WARMING, "it answers, and has to generate a few tokens")
        if not worker.breaker.half_open(pool.clock()):
            return
        problem = await self._canary(worker) if self._has_canary and pool.role is not Role.ENCODE else None
        if problem is not None:
            pool.move(worker, State.WARMING, problem)
            self._give_up_if_late(worker, problem)
            return
        if not worker.is_known:
            await self._probe(worker)
        worker.floods = 0
        pool.move(worker, State.READY, "ready")

    async def _canary(self, worker: Worker) -> str | None:
        """Its verdict is the breaker's probe. It may take as long as a client's first token may."""
        stamp = worker.breaker.take()
        verdict = NEUTRAL
        ask = self._asker(worker, self._pool.config.timeouts.first_token)
        try:
            if isinstance(ask, str):
                return ask
            problem = await canary(ask, self._pool.dialect, self._pool.profile)
            verdict = SUCCESS if problem is None else Verdict(Kind.FAILURE)
        except OthersFailure as error:
            problem = f"it was tried together with another, which failed: {error}"
        except httpx.HTTPError as error:
            problem = f"a generation is not answered ({type(error).__name__})"
            verdict = Verdict(Kind.FAILURE)
        finally:
            is_held_against_it = worker.breaker.is_open or verdict.kind is Kind.SUCCESS
            worker.breaker.note(verdict if is_held_against_it else NEUTRAL, stamp, self._pool.clock())
        return problem

    async def _probe(self, worker: Worker) -> None:
        """Ask what it can do. No answer is no verdict: it may serve, what was known of it is taken to hold, and it is
        asked again at the next poll."""
        pool = self._pool
        ask = self._asker(worker, PROBE_PATIENCE)
        try:
            if pool.role is not Role.UNIFIED:
                worker.kv_cache = await pool.dialect.kv_cache(asker(self._client, worker, PROBE_PATIENCE))
            if pool.role in {Role.PREFILL, Role.ENCODE}:
                worker.is_known = True
            if worker.is_known or isinstance(ask, str):
                return
            found = await pool.dialect.probe(ask, pool.profile, pool.phrases)
        except httpx.HTTPError as error:
            log.warning("could not ask a worker what it can do", worker=worker.name, problem=type(error).__name__)
            return
        known, worker.is_known = worker.capabilities, True
        if known is not None and found.version != known.version:
            worker.has_overrun = False
        worker.capabilities = replace(found, native_cap=found.native_cap and not worker.has_overrun)
        if worker.capabilities != known:
            log.info("capabilities", pool=self._pool.name, worker=worker.name, **worker.capabilities.shown)

    def _asker(self, worker: Worker, patience: float) -> Ask | str:
        """How a worker is asked to generate: together with another, where it cannot do so alone; or why it cannot be
        asked, since there is no other."""
        ask, trials = asker(self._client, worker, patience), self._pool.trials
        if trials is None:
            return ask
        pair = trials.trial(worker)
        if isinstance(pair, str):
            return pair
        return paired(ask, lambda: trials.between(*pair), self._pool.headers, patience, worker)

    async def _measure(self, worker: Worker) -> None:
        """How busy it is; and what it runs for others, seen while nothing of ours is on its way out."""
        if not worker.is_known:
            await self._probe(worker)
        before = worker.in_flight
        try:
            load = await self._pool.dialect.load(asker(self._client, worker, self._health.timeout))
        except httpx.HTTPError:
            return
        if load is None:
            return
        self._note_start(worker, load.began)
        worker.gauge.note(load, self._pool.clock())
        worker.meter.note(load, max(before, worker.in_flight) + worker.leaving)
        self._pool.note_measured(worker)
        if not worker.leaving:
            worker.strangers = max(0, load.running + load.waiting - worker.in_flight)

    def _note_start(self, worker: Worker, began: float | None) -> None:
        """A restart may be over between two polls. The next one asks the new process what it can do."""
        if None not in (began, worker.began) and began != worker.began:
            log.info("a worker was restarted", pool=self._pool.name, worker=worker.name)
            worker.is_known, worker.has_overrun = False, False
        worker.began = began if began is not None else worker.began

    async def _problem(self, worker: Worker) -> tuple[bool, str | None]:
        """Does anybody answer there at all, and why the worker cannot serve, None if it can."""
        engine = self._pool.config.engine
        ask = asker(self._client, worker, self._health.timeout)
        try:
            for path in _HEALTH_PATHS.get(engine, ("/health",)):
                status, _ = await ask("GET", path, None)
                if status == 404 and path != "/health":
                    continue
                if status != 200:
                    return True, f"{path} answers {status}"
                break
            status, body = await ask("GET", "/v1/models", None)
            if status != 200:
                return True, f"/v1/models answers {status}"
            if engine in _CHECKS_MODEL:
                listed = _listed(body)
                if self._pool.profile.model not in listed:
                    return True, f"the model {self._pool.profile.model!r} is not listed"
                other = listed[self._pool.profile.model]
                if other in _CHECKS_MODEL and other != engine:
                    return True, f"it says that it is {other}, and the pool's engine is {engine}"
            if self._pool.role is Role.PREFILL and self._pool.trials is not None:
                return True, await self._pool.trials.look(self._get, worker)
        except httpx.HTTPError as error:
            return False, problem_of(error)
        return True, None

    async def _get(self, url: str) -> tuple[int, bytes]:
        """From a bootstrap server, which is no worker's API."""
        answer = await self._client.get(url)
        return answer.status_code, answer.content


def _listed(body: bytes) -> dict[str, str]:
    """The models, and whose they are: an engine's name, as a rule."""
    entries = fields_of(200, body).get("data")
    try:
        return {entry.id: str(entry.owned_by) for entry in msgspec.convert(entries, list[_Card])}
    except msgspec.ValidationError:
        return {}


class _Card(msgspec.Struct):
    id: str
    owned_by: object = None
