"""What happens to workers, as metrics. A worker that is removed takes its series along, so that labels stay bounded."""

from __future__ import annotations

from math import nan

from gateway.observe.metrics import Metrics
from gateway.pools.roster import Cause
from gateway.pools.verdict import Verdict
from gateway.pools.worker import Worker


class PoolMetrics:
    """A `Listener` of every pool."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def moved(self, pool: str, worker: Worker) -> None:
        self._metrics.worker_ready.labels(pool, worker.name).set(worker.is_ready)
        # Read when they are scraped: between two scrapes they change with every request.
        self._metrics.worker_tokens.labels(pool, worker.name).set_function(lambda: worker.gauge.tokens)
        self._metrics.worker_kv.labels(pool, worker.name).set_function(lambda: _kv(worker))
        self._metrics.worker_transitions.labels(pool, worker.name, worker.state).inc()

    def ejected(self, pool: str, worker: Worker, cause: Cause) -> None:
        self._metrics.worker_ejections.labels(pool, worker.name, cause).inc()

    def judged(self, pool: str, worker: Worker, verdict: Verdict) -> None:
        self._metrics.verdicts.labels(pool, worker.name, verdict.kind).inc()

    def handed(self, pool: str, seconds: float, tokens: int) -> None:
        self._metrics.handoffs.labels(pool, "handed").inc()
        self._metrics.handoff_seconds.labels(pool).observe(seconds)
        self._metrics.handoff_tokens.labels(pool).inc(tokens)

    def not_handed(self, pool: str) -> None:
        self._metrics.handoffs.labels(pool, "missing").inc()

    def orphaned(self, pool: str, seconds: float) -> None:
        self._metrics.handoffs.labels(pool, "orphaned").inc()
        self._metrics.orphaned_prefill_seconds.labels(pool).inc(seconds)

    def flooded(self, pool: str, worker: Worker) -> None:
        self._metrics.worker_floods.labels(pool, worker.name).inc()

    def retry_refused(self, pool: str) -> None:
        self._metrics.retries_refused.labels(pool).inc()

    def removed(self, pool: str, worker: Worker) -> None:
        self._metrics.forget(pool=pool, worker=worker.name)


def _kv(worker: Worker) -> float:
    load = worker.gauge.load
    return nan if load is None or load.kv is None else load.kv
