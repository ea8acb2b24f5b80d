"""The series of pools and workers. A gauge says how the views of several processes become one (`multiprocess_mode`)."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

DURATIONS = tuple(0.01 * 2**step for step in range(18))
"""Seconds: 0.01 … 1310.72, doubling (OpenTelemetry's GenAI buckets, extended for thinking)."""


class PoolSeries:
    """A part of `Metrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.native_overruns = Counter(
            "thinkgate_native_cap_overruns_total",
            "Thoughts that went on past the cap their engine was told.",
            ["pool", "worker"],
            registry=registry,
        )
        self.abort_seconds = Histogram(
            "thinkgate_abort_seconds",
            "Seconds from the abort of a generation until its engine ran it no more.",
            ["pool"],
            buckets=DURATIONS,
            registry=registry,
        )
        self.aborts_lingering = Counter(
            "thinkgate_aborts_lingering_total",
            "Aborts after which the engine still seemed to run the request half a minute later.",
            ["pool", "worker"],
            registry=registry,
        )
        self.worker_floods = Counter(
            "thinkgate_worker_floods_total",
            "Generations that were one character from the first token on: a sick worker.",
            ["pool", "worker"],
            registry=registry,
        )
        self.worker_ready = Gauge(
            "thinkgate_worker_ready",
            "1 while a worker may be chosen, else 0.",
            ["pool", "worker"],
            multiprocess_mode="livemin",
            registry=registry,
        )
        self.worker_transitions = Counter(
            "thinkgate_worker_transitions_total",
            "Changes of a worker's state, by the state it went to.",
            ["pool", "worker", "state"],
            registry=registry,
        )
        self.worker_ejections = Counter(
            "thinkgate_worker_ejections_total",
            "Workers that were taken out, by cause: failures, unreachable, flood, health, warm_up, slow.",
            ["pool", "worker", "cause"],
            registry=registry,
        )
        self.worker_tokens = Gauge(
            "thinkgate_worker_tokens_in_flight",
            "KV tokens that the requests of this gateway are taken to hold on a worker.",
            ["pool", "worker"],
            multiprocess_mode="livesum",
            registry=registry,
        )
        self.pool_pace = Gauge(
            "thinkgate_pool_pace_ratio",
            "Median pace of a pool's workers in the last ten seconds, compared with the usual: low when all slow down.",
            ["pool"],
            multiprocess_mode="livemin",
            registry=registry,
        )
        self.worker_kv = Gauge(
            "thinkgate_worker_kv_usage_ratio",
            "Part of a worker's KV cache in use, as its engine last told; none where it does not say.",
            ["pool", "worker"],
            multiprocess_mode="livemax",
            registry=registry,
        )
        self.verdicts = Counter(
            "thinkgate_worker_verdicts_total",
            "What came of generations, as far as the worker is to blame: success, back_pressure, client, failure, "
            "neutral.",
            ["pool", "worker", "verdict"],
            registry=registry,
        )
        self.retries_refused = Counter(
            "thinkgate_retries_refused_total",
            "Failed launches that were not tried again, since the pool's retry budget was spent or no worker was left.",
            ["pool"],
            registry=registry,
        )
        self.worker_kv_capacity = Gauge(
            "thinkgate_worker_kv_capacity_tokens",
            "Size of a worker's KV cache in tokens, as its engine last told; none where it does not say.",
            ["pool", "worker"],
            multiprocess_mode="livemax",
            registry=registry,
        )
        self.worker_requests = Gauge(
            "thinkgate_worker_requests",
            "Requests of everybody that a worker's engine last said it runs, or lets wait.",
            ["pool", "worker", "state"],
            multiprocess_mode="livemax",
            registry=registry,
        )
        self.worker_state = Gauge(
            "thinkgate_worker_state",
            "1 for the state a worker is in, 0 for the others: pending, warming, ready, ejected, draining, gone.",
            ["pool", "worker", "state"],
            multiprocess_mode="livemax",
            registry=registry,
        )
