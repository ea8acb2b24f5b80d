"""The series of hand-offs between the workers of a disaggregated pool."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from gateway.observe.poolseries import DURATIONS


class HandOffSeries:
    """A part of `Metrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.handoffs = Counter(
            "thinkgate_handoffs_total",
            "Prompts that were prefilled elsewhere, by what came of it: handed (generated from), missing (the prefill "
            "worker offered nothing, the decode worker prefilled again), orphaned (it was never generated from).",
            ["pool", "result"],
            registry=registry,
        )
        self.handoff_seconds = Histogram(
            "thinkgate_handoff_seconds",
            "Seconds from the prefill worker's answer (both at once: from the start) to the decode worker's first "
            "delta.",
            ["pool"],
            buckets=DURATIONS,
            registry=registry,
        )
        self.handoff_tokens = Counter(
            "thinkgate_handoff_tokens_total",
            "Prompt tokens whose KV cache was handed over.",
            ["pool"],
            registry=registry,
        )
        self.orphaned_prefill_seconds = Counter(
            "thinkgate_orphaned_prefill_seconds_total",
            "Seconds of prefill that was never generated from.",
            ["pool"],
            registry=registry,
        )
