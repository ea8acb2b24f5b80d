"""What a pool's model and workers can do about a request: how its thinking is held, how it goes on, how long it may.

Who the workers are and which is chosen is `roster`'s.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import structlog

from budgets import ClassCaps, Deadlines, How, Policy
from gateway.config import Pool as PoolConfig
from gateway.edge.errors import ApiError
from gateway.edge.hygiene import hygiene_for
from gateway.engines import DIALECTS, Call, Dialect, Profile
from gateway.engines.capabilities import Path
from gateway.pools.apart import Apart, urls_by_role
from gateway.pools.crew import Crew
from gateway.pools.handoff import HandOff
from gateway.pools.meter import Bill
from gateway.pools.role import Role
from gateway.pools.roster import Roster
from gateway.pools.worker import Worker
from parsers import Format, detect, lookup

log = structlog.get_logger("thinkgate.pool")

CHARACTERS_A_TOKEN = 4
"""Of the gateway's own phrases, where a worker does not count them."""


class Pool(Roster):
    """A model's workers, and what can be asked of the model."""

    def __init__(
        self,
        name: str,
        config: PoolConfig,
        own_formats: Mapping[str, Format] | None = None,
        crew: Crew | None = None,
        role: Role = Role.UNIFIED,
    ) -> None:
        super().__init__(name, config, crew)
        self.role = role
        self.dialect: Dialect = DIALECTS[config.engine]
        upstream = config.upstream_model or config.model
        self.profile = Profile(
            model=upstream,
            format=_format_of(config.format, upstream, own_formats or {}),
            rules=hygiene_for(upstream, config.hygiene),
            engine_splits=config.engine_splits,
        )
        self._caps = ClassCaps(**config.thinking.caps.model_dump())
        self._deadlines = _deadlines(config)
        self._parts: dict[Role, Pool] = {}
        self.apart: Apart | None = None
        """Those who prefill and encode for its workers, where these only decode."""
        self.trials: Apart | None = None
        """Where its workers are tried together with others."""
        if config.disaggregation is not None:
            self.role = Role.DECODE
            self._parts = {role: self._part(role, urls, own_formats) for role, urls in urls_by_role(config).items()}
            self.apart = Apart(name, config.disaggregation, self, self._parts)
            self._parts[Role.PREFILL].trials = self.trials = self.apart

    def _part(self, role: Role, urls: tuple[str, ...], own_formats: Mapping[str, Format] | None) -> Pool:
        """The workers of another role: the same model under the same settings."""
        alike: dict[str, Any] = {"workers": urls, "weights": {}, "discover": None, "disaggregation": None}
        known = self.crew.parts.get(role)
        part = Pool(self.name, self.config.model_copy(update=alike), own_formats, known, role)
        self.crew.parts[role] = part.crew
        return part

    @property
    def parts(self) -> tuple[Pool, ...]:
        """Itself, and the workers of other roles."""
        return (self, *self._parts.values())

    @property
    def is_ready(self) -> bool:
        """Where prefill and decode are apart, there must be one whole pair."""
        return any(self.is_open(worker, urgent=True) for worker in self.workers)

    def is_open(self, worker: Worker, *, urgent: bool = False) -> bool:
        is_open = super().is_open(worker, urgent=urgent)
        return is_open and (self.apart is None or self.apart.pairing.has_pair(worker))

    def has_other_before(self, tried: Collection[Worker], *, urgent: bool = False) -> bool:
        """Is there a worker that could prefill for its own, and was not tried?"""
        return self.apart is not None and self.apart.prefill.has_other(tried, urgent=urgent)

    async def wait_ready(self, patience: float, *, urgent: bool = False) -> None:
        if self.apart is not None and not self.apart.pairing.does_without:
            until = self.clock() + patience
            await self.apart.prefill.wait_ready(patience, urgent=urgent)
            patience = until - self.clock()
        await super().wait_ready(patience, urgent=urgent)

    def unavailable(self) -> ApiError:
        alone = next((worker for worker in self.workers if worker.is_ready), None)
        if self.apart is not None and alone is not None and not self.is_ready:
            return self.apart.pairing.nobody_for(alone)
        return super().unavailable()

    def hand_off(
        self,
        worker: Worker,
        call: Call,
        *,
        key: str | None,
        tried: Collection[Worker],
        is_warm: bool,
        bill: Bill | None = None,
        is_urgent: bool = False,
    ) -> HandOff | None:
        """How the prompt of a leg on this worker gets its cache; None where the worker fills it itself. `tried`: those
        that have failed to prefill it. `is_urgent`: its client has seen a part of the answer. Raises ApiError (503,
        400)."""
        if self.apart is None:
            return None
        return self.apart.hand_off(worker, call, key, tried, is_warm=is_warm, bill=bill, is_urgent=is_urgent)

    def close(self) -> None:
        super().close()
        if self.apart is not None:
            self.apart.close()
        for part in self._parts.values():
            part.close()

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

    def succeed(self, before: Pool) -> None:
        """Take the crew over from the same pool under other settings. What a worker was asked about its model's format
        and phrases it is asked again, where they are others; until then it counts as able."""
        for part in self.parts:
            part.settle()
        if self.apart is not None and before.apart is not None:
            self.apart.succeed(before.apart)
        if (self.profile, self.phrases) != (before.profile, before.phrases):
            for worker in self.workers:
                worker.capabilities, worker.is_known = None, False

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


def _format_of(name: str | None, model: str, own: Mapping[str, Format]) -> Format:
    if name is None:
        return detect(model)
    return own.get(name) or lookup(name)


def _deadlines(config: PoolConfig) -> Deadlines:
    told = config.timeouts
    thought = 0.9 * told.total if told.thought is None else min(told.thought, told.total)
    return Deadlines(told.queue, told.first_token, told.idle, thought, told.total)
