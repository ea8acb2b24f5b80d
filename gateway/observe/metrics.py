"""Every Prometheus series thinkgate has: its name, its labels, its buckets, and what it says.

Labels are bounded by the config (pools, workers, routes, aliases of keys) or by an enum; nothing from a request becomes
one. Histograms reach to 22 minutes and to 65,536 tokens, since a thought may. docs/observability.md lists them all.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics import MetricWrapperBase

from gateway.observe.gpuseries import GpuSeries
from gateway.observe.handoffseries import HandOffSeries
from gateway.observe.multiprocess import folder, shared_registry
from gateway.observe.poolseries import DURATIONS, PoolSeries

WAITS = (0.001, 0.0025, *DURATIONS)
"""Seconds. Most requests do not wait at all."""

TOKEN_TIMES = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
"""Seconds a token: OpenTelemetry's, and finer ones for small models."""

LENGTHS = tuple(float(16 * 2**step) for step in range(13))
"""Tokens: 16 … 65,536, doubling."""

ROUTER_TIMES = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class Metrics(PoolSeries, GpuSeries, HandOffSeries):
    """One registry a process, so that two apps in one test do not share a count. With `PROMETHEUS_MULTIPROC_DIR` set
    when the process starts, several processes on one machine share theirs, and each answers a scrape for all."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        disable_created_metrics()  # a second series for each, that no board reads
        self.registry = registry = CollectorRegistry()
        PoolSeries.__init__(self, registry)
        GpuSeries.__init__(self, registry)
        HandOffSeries.__init__(self, registry)
        self.before_scrape: list[Callable[[], None]] = []
        """What has to be looked up when it is asked for."""
        self.requests = Counter(
            "thinkgate_requests_total",
            "Requests that have ended, by how: route as asked for, pool that served, outcome.",
            ["route", "pool", "outcome"],
            registry=registry,
        )
        self.in_flight = Gauge(
            "thinkgate_flights_in_flight",
            "Requests being served now.",
            ["pool"],
            multiprocess_mode="livesum",
            registry=registry,
        )
        self.legs = Counter(
            "thinkgate_legs_total",
            "Generations started on a worker: first of a request, retry of it elsewhere, answer after a thought's end.",
            ["pool", "kind"],
            registry=registry,
        )
        self.first_token = Histogram(
            "thinkgate_time_to_first_token_seconds",
            "Seconds from the request's arrival to the first delta from the engine, thought or answer.",
            ["pool"],
            buckets=DURATIONS,
            registry=registry,
        )
        self.first_answer_token = Histogram(
            "thinkgate_time_to_first_answer_token_seconds",
            "Seconds from the request's arrival to the first token of the answer.",
            ["pool"],
            buckets=DURATIONS,
            registry=registry,
        )
        self.duration = Histogram(
            "thinkgate_request_duration_seconds",
            "Seconds from the request's arrival to its end, whatever the end.",
            ["pool", "outcome"],
            buckets=DURATIONS,
            registry=registry,
        )
        self.tokens = Counter(
            "thinkgate_tokens_total",
            "Tokens by kind: prompt, cached (part of it), reasoning, answer, injected (phrases, part of both), trimmed "
            "(part of reasoning that a cut threw away), wasted (generated and never told).",
            ["pool", "kind"],
            registry=registry,
        )
        self.successes = Counter(
            "thinkgate_successes_total",
            "Requests that were answered: not those that ran into their limit, looped, failed or lost their client.",
            ["pool", "route", "band"],
            registry=registry,
        )
        self.queue = Histogram(
            "thinkgate_queue_seconds",
            "Seconds from the request's arrival until a worker was asked: routing, and waiting for a ready worker.",
            ["pool"],
            buckets=WAITS,
            registry=registry,
        )
        self.output_token = Histogram(
            "thinkgate_time_per_output_token_seconds",
            "Seconds a generated token took after the first, averaged over a request, changes of legs included.",
            ["pool"],
            buckets=TOKEN_TIMES,
            registry=registry,
        )
        self.thinking_seconds = Histogram(
            "thinkgate_thinking_seconds",
            "Seconds from the first token of a thought to the first of the answer, or to the end where none came.",
            ["pool", "band"],
            buckets=DURATIONS,
            registry=registry,
        )
        self.thinking_tokens = Histogram(
            "thinkgate_thinking_tokens",
            "Tokens of a thought, of those that thought at all, by the difficulty of what was asked.",
            ["pool", "band"],
            buckets=LENGTHS,
            registry=registry,
        )
        self.caps_held = Counter(
            "thinkgate_caps_total",
            "Thoughts that had a cap, by whether they kept to it (a fiftieth and 32 tokens are let pass).",
            ["pool", "held"],
            registry=registry,
        )
        self.key_requests = Counter(
            "thinkgate_key_requests_total",
            "Requests that have ended, by the alias of their key: 200 aliases, then (others).",
            ["key", "outcome"],
            registry=registry,
        )
        self.key_tokens = Counter(
            "thinkgate_key_tokens_total",
            "Tokens by the alias of the key and by kind: prompt, reasoning, answer.",
            ["key", "kind"],
            registry=registry,
        )
        self.thinking_ended = Counter(
            "thinkgate_thinking_ended_total",
            "Thoughts by what ended them: model (by itself), cap, deadline, loop, stop (the model, in mid-thought).",
            ["pool", "by"],
            registry=registry,
        )
        self.loops = Counter(
            "thinkgate_loops_total",
            "Loops found in thoughts and answers, by kind and by what was done about them.",
            ["pool", "channel", "kind", "action"],
            registry=registry,
        )
        self.loop_tokens_saved = Counter(
            "thinkgate_loop_tokens_saved_total",
            "Tokens that looping thoughts could still have cost up to their caps when they were cut.",
            ["pool"],
            registry=registry,
        )
        self.loop_rescues = Counter(
            "thinkgate_loop_rescues_total",
            "Requests rescued from a loop in their thought, by how they ended: answered, or the outcome.",
            ["pool", "result"],
            registry=registry,
        )
        self.router_decisions = Counter(
            "thinkgate_router_decisions_total",
            "Verdicts of the classifier by route and by the tier that gave them.",
            ["route", "tier"],
            registry=registry,
        )
        self.router_seconds = Histogram(
            "thinkgate_router_decision_seconds",
            "Seconds a request waited for its verdict.",
            ["tier"],
            buckets=ROUTER_TIMES,
            registry=registry,
        )
        self.router_fallbacks = Counter(
            "thinkgate_router_fallbacks_total",
            "Verdicts by less than was due, by why: the encoder was `late`, `busy` or `failed`; a `crowd` at the door.",
            ["why"],
            registry=registry,
        )
        self.router_shadowed = Counter(
            "thinkgate_router_shadow_total",
            "Verdicts of the shadow model by whether they agree with those in force; `skipped` where it was behind.",
            ["agrees"],
            registry=registry,
        )
        self.rejections = Counter(
            "thinkgate_rejections_total",
            "Requests answered with an error before any flight, by HTTP status.",
            ["status"],
            registry=registry,
        )

        self.reloads = Counter(
            "thinkgate_config_reloads_total",
            "Times the configuration was read again, by outcome: applied, unchanged, failed.",
            ["outcome"],
            registry=registry,
        )
        self.reload_succeeded = Gauge(
            "thinkgate_config_last_reload_successful",
            "1 while the file's configuration is the one in force, 0 since a reload has failed.",
            registry=registry,
            multiprocess_mode="livemin",
        )
        self.reloaded_at = Gauge(
            "thinkgate_config_last_reload_success_timestamp_seconds",
            "Unix time at which the configuration was last read and found fine.",
            registry=registry,
            multiprocess_mode="livemin",
        )

    def forget(self, **labels: str) -> None:
        """Drop every series with these labels. Where several processes share theirs, none can be taken away."""
        if folder() is not None:
            return
        for series in vars(self).values():
            if isinstance(series, MetricWrapperBase):
                with suppress(ValueError):  # it has no such labels
                    series.remove_by_labels(labels)

    def render(self) -> bytes:
        """The text that /metrics answers with."""
        for refresh in self.before_scrape:
            refresh()
        return generate_latest(shared_registry() or self.registry)
