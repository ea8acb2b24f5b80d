"""Every Prometheus series thinkgate has: its name, its labels, its buckets, and what it says.

Labels are bounded by the config (pools, workers, routes) or by an enum; nothing from a request becomes one.
Histograms reach to 22 minutes, since a thought may take that long.
"""

from __future__ import annotations

from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics import MetricWrapperBase

DURATIONS = tuple(0.01 * 2**step for step in range(18))
"""Seconds: 0.01 … 1310.72, doubling (OpenTelemetry's GenAI buckets, extended for thinking)."""

ROUTER_TIMES = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class Metrics:
    """One registry a process, so that two apps in one test do not share a count."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        disable_created_metrics()  # a second series for each, that no board reads
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "thinkgate_requests_total",
            "Requests that have ended, by how: route as asked for, pool that served, outcome.",
            ["route", "pool", "outcome"],
            registry=registry,
        )
        self.in_flight = Gauge("thinkgate_flights_in_flight", "Requests being served now.", ["pool"], registry=registry)
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
            "Tokens by kind: prompt, cached (part of it), reasoning, answer, injected (phrases), wasted (never told).",
            ["pool", "kind"],
            registry=registry,
        )
        self.thinking_ended = Counter(
            "thinkgate_thinking_ended_total",
            "Thoughts by what ended them: the model itself, the cap, a stop of the model in mid-thought.",
            ["pool", "by"],
            registry=registry,
        )
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
        self.worker_floods = Counter(
            "thinkgate_worker_floods_total",
            "Generations that were one character from the first token on: a sick worker.",
            ["pool", "worker"],
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
        self.worker_ready = Gauge(
            "thinkgate_worker_ready", "1 while a worker may be chosen, else 0.", ["pool", "worker"], registry=registry
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
            registry=registry,
        )
        self.pool_pace = Gauge(
            "thinkgate_pool_pace_ratio",
            "Median pace of a pool's workers in the last ten seconds, compared with the usual: low when all slow down.",
            ["pool"],
            registry=registry,
        )
        self.worker_kv = Gauge(
            "thinkgate_worker_kv_usage_ratio",
            "Part of a worker's KV cache in use, as its engine last told; NaN where it does not say.",
            ["pool", "worker"],
            registry=registry,
        )
        self.verdicts = Counter(
            "thinkgate_worker_verdicts_total",
            "What came of generations, as far as the worker is to blame: success, back_pressure, client, failure, "
            "neutral.",
            ["pool", "worker", "verdict"],
            registry=registry,
        )
        self.handoffs = Counter(
            "thinkgate_handoffs_total",
            "Prompts that were prefilled elsewhere, by what came of it: handed (generated from), missing (the prefill "
            "worker offered nothing), orphaned (nobody has generated from it).",
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
            "Seconds of prefill from which nobody has generated.",
            ["pool"],
            registry=registry,
        )
        self.retries_refused = Counter(
            "thinkgate_retries_refused_total",
            "Failed launches that were not tried again, since the pool's retry budget was spent or no worker was left.",
            ["pool"],
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
        )
        self.reloaded_at = Gauge(
            "thinkgate_config_last_reload_success_timestamp_seconds",
            "Unix time at which the configuration was last read and found fine.",
            registry=registry,
        )

    def forget(self, **labels: str) -> None:
        """Drop every series with these labels."""
        for series in vars(self).values():
            if isinstance(series, MetricWrapperBase):
                with suppress(ValueError):  # it has no such labels
                    series.remove_by_labels(labels)

    def render(self) -> bytes:
        """The text that /metrics answers with."""
        return generate_latest(self.registry)
