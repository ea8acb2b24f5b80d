"""The series of GPU time, and of what users thought of what it was spent on. How it is measured: `pools.meter`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class GpuSeries:
    """A part of `Metrics`. At any time busy = attributed + pending + unattributed."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.gpu_seconds = Counter(
            "thinkgate_gpu_seconds_total",
            "GPU-seconds of requests that have ended; over thinkgate_successes_total it is the cost of a success.",
            ["pool", "route", "outcome"],
            registry=registry,
        )
        self.gpu_band_seconds = Counter(
            "thinkgate_gpu_seconds_by_band_total",
            "GPU-seconds of requests that have ended, by the difficulty of what was asked.",
            ["pool", "band"],
            registry=registry,
        )
        self.gpu_cost = Counter(
            "thinkgate_gpu_cost_total",
            "The GPU-seconds at the pool's gpu_hour_price, in its currency; none where no price is told.",
            ["pool", "route", "outcome"],
            registry=registry,
        )
        self.gpu_busy = Counter(
            "thinkgate_gpu_busy_seconds_total",
            "GPU-seconds in which a worker had a request of this gateway: time times its GPUs.",
            ["pool"],
            registry=registry,
        )
        self.gpu_pending = Gauge(
            "thinkgate_gpu_pending_seconds",
            "GPU-seconds of requests that have not ended.",
            ["pool"],
            multiprocess_mode="livesum",
            registry=registry,
        )
        self.gpu_unattributed = Counter(
            "thinkgate_gpu_seconds_unattributed_total",
            "Busy GPU-seconds that no request of this gateway gets: shares of others' requests and of relayed routes.",
            ["pool"],
            registry=registry,
        )
        self.engine_seconds = Counter(
            "thinkgate_engine_request_seconds_total",
            "Seconds of finished requests as engines tell them: queue, prefill, decode. Two at once count twice.",
            ["pool", "phase"],
            registry=registry,
        )
        self.feedback = Counter(
            "thinkgate_feedback_total",
            "Verdicts of users on answers (POST /v1/feedback): good or bad.",
            ["pool", "band", "verdict"],
            registry=registry,
        )
        self.feedback_gpu_seconds = Counter(
            "thinkgate_feedback_gpu_seconds_total",
            "GPU-seconds of the requests that got a verdict.",
            ["pool", "band", "verdict"],
            registry=registry,
        )
