"""The workers of one model, and which of them serves the next leg."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from time import monotonic
from typing import Any

import structlog

from budgets import ClassCaps, Deadlines, How, Policy
from gateway.config import Pool as PoolConfig
from gateway.edge.errors import ApiError, not_ready
from gateway.edge.hygiene import hygiene_for
from gateway.engines import DIALECTS, Dialect, Profile
from gateway.engines.capabilities import Path
from gateway.pools.worker import State, Worker, connect
from parsers import Format, detect, lookup

log = structlog.get_logger("thinkgate.pool")

FLOODS_OF_THE_SICK = 2
SICK_FOR = 60.0
"""Seconds after which a sick worker is tried again."""

CHARACTERS_A_TOKEN = 4
"""Of the gateway's own phrases, where a worker does not count them."""


class Pool:
    """Round robin over the workers that are ready."""

    def __init__(self, name: str, config: PoolConfig, own_formats: Mapping[str, Format] | None = None) -> None:
        self.name = name
        self.config = config
        self.dialect: Dialect = DIALECTS[config.engine]
        upstream = config.upstream_model or config.model
        self.profile = Profile(
            model=upstream,
            format=_format_of(config.format, upstream, own_formats or {}),
            rules=hygiene_for(upstream, config.hygiene),
            engine_splits=config.engine_splits,
        )
        self.departed = asyncio.Event()
        """Set when a leg has left one of the workers before its end."""
        self.workers: list[Worker] = [self._connect(_short(url), url) for url in config.workers]
        self.problem = ""
        """Why there can be no worker at all; for the embedded engine, which may be missing or given up."""
        self.on_state: Callable[[Pool, Worker], None] = _nobody
        """Is told of a change of state that no health check has seen."""
        self.on_flood: Callable[[Pool, Worker], None] = _nobody
        self._turn = 0
        self._caps = ClassCaps(**config.thinking.caps.model_dump())
        self._deadlines = _deadlines(config)
        self._got_ready = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        return any(worker.is_ready for worker in self.workers)

    @property
    def headers(self) -> dict[str, str]:
        """What every request to this pool carries. The client's own key is never among it."""
        key = self.config.api_key
        return {"authorization": f"Bearer {key.get_secret_value()}"} if key is not None else {}

    @property
    def phrases(self) -> tuple[str, ...]:
        """What the gateway says itself in this pool's answers."""
        thinking = self.config.thinking
        return tuple({thinking.closing_phrase, thinking.answer_lead_in, thinking.think_on_phrase} - {""}) or ("Hi",)

    def tokens_of(self, phrase: str, worker: Worker) -> int:
        """Tokens of one of the pool's phrases, as the worker counts it, else estimated from its length."""
        estimate = -(-len(phrase) // CHARACTERS_A_TOKEN)
        known = worker.capabilities
        return estimate if known is None else known.counted.get(phrase, estimate)

    def policy(self, body: Mapping[str, Any]) -> Policy:
        """What this pool can do about the thinking of this request: natively if all its workers do it, by a cut if any
        can."""
        thinking = self.config.thinking
        workers = [worker for worker in self.workers if worker.is_ready] or self.workers
        means = {self.means(worker, body) for worker in workers}
        record = self.profile.format
        can_close = record.framing is None and any(self.path(worker, body) is not None for worker in workers)
        how = How.NATIVE if means == {How.NATIVE} else How.CUT if means & {How.NATIVE, How.CUT} else How.NONE
        return Policy(
            enabled=thinking.enabled and bool(record.open),
            can_disable=thinking.can_disable and (bool(record.switch) or can_close),
            has_switch=bool(record.switch),
            max_cap=thinking.max_cap,
            caps=self._caps,
            answer_reserve=thinking.answer_reserve,
            how=how,
            least=thinking.min_tokens,
            deadlines=self._deadlines,
        )

    def means(self, worker: Worker, body: Mapping[str, Any]) -> How:
        """How this worker holds this request to a cap. It is told one as configured, else if it said that it has one;
        but not once it was seen to overrun it."""
        told = self.config.thinking.native_cap
        if told is None:
            told = worker.capabilities is not None and worker.capabilities.native_cap
        if told and self.dialect.can_be_told_a_cap and not worker.has_overrun:
            return How.NATIVE
        return How.NONE if self.path(worker, body) is None else How.CUT

    def path(self, worker: Worker, body: Mapping[str, Any], *, resuming: bool = False) -> Path | None:
        """The best path by which this request can go on, on this worker, to its answer or (`resuming`) in its thought;
        None if there is none. A worker that was not asked yet is taken for an able one."""
        known = worker.capabilities
        for path in self.dialect.paths(body, self.profile.format):
            if (known is None or path in known.paths) and (not resuming or path in self.dialect.resuming):
                return path
        return None

    @property
    def context(self) -> int | None:
        """The context window in tokens: as configured, else the smallest that a worker told of, None if none did."""
        told = [known.context for worker in self.workers if (known := worker.capabilities) is not None]
        return self.config.context_window or min((length for length in told if length is not None), default=None)

    def note_overrun(self, worker: Worker) -> None:
        """It refused or overran the cap it was told: its thoughts are cut from now on."""
        if worker.capabilities is not None:
            worker.capabilities = replace(worker.capabilities, native_cap=False)
        if not worker.has_overrun:
            worker.has_overrun = True
            log.warning("native cap not honoured, cutting from now on", pool=self.name, worker=worker.name)

    def note_flood(self, worker: Worker) -> None:
        """It said nothing but one character. Once may be the prompt's doing: it is only not the first to be chosen.
        Twice in a row it is left alone for a while, unless it is the last that is ready."""
        worker.floods += 1
        self.on_flood(self, worker)
        log.warning("a flood from the first token on", pool=self.name, worker=worker.name, in_a_row=worker.floods)
        if worker.floods >= FLOODS_OF_THE_SICK and sum(one.is_ready for one in self.workers) > 1:
            worker.sick_until = monotonic() + SICK_FOR
            worker.state, worker.reason = State.SICK, "it generates nothing but one character"
            self.note_state()
            self.on_state(self, worker)

    def note_well(self, worker: Worker) -> None:
        """It has generated something sensible."""
        worker.floods = 0

    def adopt(self, name: str, url: str) -> None:
        """Take in a worker that is not in the config: the embedded engine's, once it listens."""
        self.close()
        self.workers = [self._connect(name, url)]

    def _connect(self, name: str, url: str) -> Worker:
        worker = connect(name, url, self.config)
        worker.departed = self.departed
        return worker

    def note_state(self) -> None:
        """A worker's state has changed."""
        if self.is_ready:
            self._got_ready.set()
        else:
            self._got_ready.clear()

    async def wait_ready(self, patience: float) -> None:
        """Until a worker is ready, `patience` seconds at most. Raises ApiError (503); at once where none can come."""
        if self.is_ready:
            return
        if self.problem or not patience:
            raise self.unavailable()
        try:
            async with asyncio.timeout(patience):
                await self._got_ready.wait()
        except TimeoutError:
            raise self.unavailable() from None

    def pick(self, tried: Collection[Worker] = (), fits: Callable[[Worker], bool] | None = None) -> Worker:
        """The next ready worker: one not yet tried, one that fits, one whose aborted legs are gone, if there is any.
        Raises ApiError (503)."""
        ready = [worker for worker in self.workers if worker.is_ready]
        fresh = [worker for worker in ready if worker not in tried] or ready
        if fits is not None:
            fresh = [worker for worker in fresh if fits(worker)] or fresh
        fresh = [worker for worker in fresh if not worker.floods] or fresh
        fresh = [worker for worker in fresh if not worker.leaving] or fresh
        if not fresh:
            raise self.unavailable()
        self._turn += 1
        return fresh[self._turn % len(fresh)]

    def unavailable(self) -> ApiError:
        reasons = (
            self.problem or "; ".join(sorted({worker.reason for worker in self.workers})) or "it is still starting"
        )
        return not_ready(f"No worker of the pool {self.name!r} is ready: {reasons}.")

    def close(self) -> None:
        for worker in self.workers:
            worker.client.close()


def _nobody(pool: Pool, worker: Worker) -> None:
    """Where nobody listens."""


def _format_of(name: str | None, model: str, own: Mapping[str, Format]) -> Format:
    if name is None:
        return detect(model)
    return own.get(name) or lookup(name)


def _short(url: str) -> str:
    return url.split("://", 1)[-1]


def _deadlines(config: PoolConfig) -> Deadlines:
    told = config.timeouts
    thought = 0.9 * told.total if told.thought is None else min(told.thought, told.total)
    return Deadlines(told.queue, told.first_token, told.idle, thought, told.total)
