"""The workers of one model, and which of them serves the next leg."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import structlog

from budgets import ClassCaps, How, Policy
from gateway.config import Pool as PoolConfig
from gateway.edge.errors import ApiError, not_ready
from gateway.edge.hygiene import hygiene_for
from gateway.engines import DIALECTS, Dialect, Profile
from gateway.engines.capabilities import Continues
from gateway.pools.worker import Worker, connect
from parsers import Format, detect, lookup

log = structlog.get_logger("thinkgate.pool")


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
        self.workers: list[Worker] = [connect(_short(url), url, config) for url in config.workers]
        self.problem = ""
        """Why there can be no worker at all; for the embedded engine, which may be missing or given up."""
        self._has_overrun = False
        self._turn = 0
        self._caps = ClassCaps(**config.thinking.caps.model_dump())

    @property
    def is_ready(self) -> bool:
        return any(worker.is_ready for worker in self.workers)

    @property
    def headers(self) -> dict[str, str]:
        """What every request to this pool carries. The client's own key is never among it."""
        key = self.config.api_key
        return {"authorization": f"Bearer {key.get_secret_value()}"} if key is not None else {}

    def policy(self, body: Mapping[str, Any]) -> Policy:
        """What this pool can do about the thinking of this request."""
        thinking = self.config.thinking
        if self.has_native_cap:
            how = How.NATIVE
        elif self.can_continue(body):
            how = How.CUT
        else:
            how = How.NONE
        return Policy(
            enabled=thinking.enabled and bool(self.profile.format.open),
            can_disable=thinking.can_disable and bool(self.profile.format.switch),
            max_cap=thinking.max_cap,
            caps=self._caps,
            answer_reserve=thinking.answer_reserve,
            how=how,
        )

    @property
    def has_native_cap(self) -> bool:
        """Is the engine told the cap? As configured, else if every worker that was asked has one; but not once a worker
        was seen to overrun it."""
        if self._has_overrun or not self.dialect.can_be_told_a_cap:
            return False
        if self.config.thinking.native_cap is not None:
            return self.config.thinking.native_cap
        asked = [worker.capabilities for worker in self.workers if worker.capabilities is not None]
        return bool(asked) and all(known.native_cap for known in asked)

    @property
    def context(self) -> int | None:
        """The context window in tokens: as configured, else the smallest that a worker told of, None if none did."""
        told = [known.context for worker in self.workers if (known := worker.capabilities) is not None]
        return self.config.context_window or min((length for length in told if length is not None), default=None)

    def can_continue(self, body: Mapping[str, Any]) -> bool:
        """Could a cut thought of this request go on to its answer? Not several at once, not in a framed format, not
        where no worker can."""
        if (body.get("n") or 1) > 1 or self.profile.format.framing is not None:
            return False
        asked = [worker.capabilities for worker in self.workers if worker.capabilities is not None]
        can = not asked or any(known.continues is not Continues.NOT for known in asked)
        return can and self.dialect.can_continue(body)

    def native_cap_failed(self, worker: Worker | None) -> None:
        """A worker refused or overran the cap it was told: from now on this pool's thoughts are cut."""
        if worker is not None and worker.capabilities is not None:
            worker.capabilities = replace(worker.capabilities, native_cap=False)
        if not self._has_overrun:
            self._has_overrun = True
            name = worker.name if worker is not None else ""
            log.warning("native cap not honoured, cutting from now on", pool=self.name, worker=name)

    def adopt(self, name: str, url: str) -> None:
        """Take in a worker that is not in the config: the embedded engine's, once it listens."""
        self.close()
        self.workers = [connect(name, url, self.config)]

    def pick(self, tried: Collection[Worker] = ()) -> Worker:
        """The next ready worker, one not yet tried if there is any. Raises ApiError (503)."""
        ready = [worker for worker in self.workers if worker.is_ready]
        fresh = [worker for worker in ready if worker not in tried] or ready
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


def _format_of(name: str | None, model: str, own: Mapping[str, Format]) -> Format:
    if name is None:
        return detect(model)
    return own.get(name) or lookup(name)


def _short(url: str) -> str:
    return url.split("://", 1)[-1]
