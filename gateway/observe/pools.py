"""What happens to workers, as metrics. A worker that is removed takes its series along, so that labels stay bounded."""

from __future__ import annotations

from gateway.observe.metrics import Metrics
from gateway.observe.multiprocess import folder
from gateway.pools.meter import Use
from gateway.pools.roster import Cause
from gateway.pools.states import State
from gateway.pools.verdict import Kind, Verdict
from gateway.pools.worker import Worker

PHASES = ("queue", "prefill", "decode")
REQUESTS = ("running", "waiting")
RESULTS = ("handed", "missing", "orphaned")
"""What may come of a prompt that was prefilled elsewhere."""


class PoolMetrics:
    """A `Listener` of every pool."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def moved(self, pool: str, worker: Worker) -> None:
        self.show(pool, worker)
        self._metrics.worker_transitions.labels(pool, worker.name, worker.state).inc()

    def show(self, pool: str, worker: Worker) -> None:
        """The state it is in; also of one that has not moved yet."""
        metrics, labels = self._metrics, (pool, worker.name)
        metrics.worker_ready.labels(*labels).set(worker.is_ready)
        for state in State:
            metrics.worker_state.labels(*labels, state).set(worker.state is state)
        # Counters that start at 0: what first appears at 1 has no rate, and an alert would miss it.
        for series in (metrics.worker_floods, metrics.native_overruns, metrics.aborts_lingering):
            series.labels(*labels)
        for cause in Cause:
            metrics.worker_ejections.labels(*labels, cause)
        for kind in Kind:
            metrics.verdicts.labels(*labels, kind)
        self.refresh(pool, worker)

    def refresh(self, pool: str, worker: Worker) -> None:
        """Numbers that change with every request: looked up when they are asked for."""
        self._metrics.worker_tokens.labels(pool, worker.name).set(worker.gauge.tokens)

    def measured(self, pool: str, worker: Worker) -> None:
        metrics, labels, load = self._metrics, (pool, worker.name), worker.gauge.load
        self.refresh(pool, worker)
        if load is None:
            return
        metrics.worker_requests.labels(*labels, "running").set(load.running)
        metrics.worker_requests.labels(*labels, "waiting").set(load.waiting)
        if load.kv is not None:
            metrics.worker_kv.labels(*labels).set(load.kv)
        if load.capacity is not None:
            metrics.worker_kv_capacity.labels(*labels).set(load.capacity)

    def used(self, pool: str, use: Use) -> None:
        metrics = self._metrics
        metrics.gpu_busy.labels(pool).inc(use.busy)
        metrics.gpu_pending.labels(pool).inc(use.attributed)
        metrics.gpu_unattributed.labels(pool).inc(max(0.0, use.unattributed))
        if use.times is not None:
            for phase in PHASES:
                metrics.engine_seconds.labels(pool, phase).inc(getattr(use.times, phase))

    def ejected(self, pool: str, worker: Worker, cause: Cause) -> None:
        self._metrics.worker_ejections.labels(pool, worker.name, cause).inc()

    def judged(self, pool: str, worker: Worker, verdict: Verdict) -> None:
        self._metrics.verdicts.labels(pool, worker.name, verdict.kind).inc()

    def expect_hand_offs(self, pool: str) -> None:
        """Series that start at 0: what first appears at 1 has no rate."""
        for result in RESULTS:
            self._metrics.handoffs.labels(pool, result)
        self._metrics.orphaned_prefill_seconds.labels(pool)

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
        metrics, labels = self._metrics, (pool, worker.name)
        if folder() is not None:  # there series cannot be taken away: they say that nothing is there
            for gauge in (metrics.worker_ready, metrics.worker_tokens, metrics.worker_kv, metrics.worker_kv_capacity):
                gauge.labels(*labels).set(0)
            for state in REQUESTS:
                metrics.worker_requests.labels(*labels, state).set(0)
            for state in State:
                metrics.worker_state.labels(*labels, state).set(0)
            return
        metrics.forget(pool=pool, worker=worker.name)
