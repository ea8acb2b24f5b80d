"""The board of health: workers and their states, breakers, ejections, migrations, errors, the router."""

from __future__ import annotations

from deploy.grafana.panels import (
    ERRORS,
    JOB,
    OUTCOMES,
    Board,
    Graph,
    Query,
    Row,
    Stat,
    Timeline,
    now,
    quantile,
    quantiles,
    rate,
    ratio,
)

ALL = "thinkgate_requests_total"
READY = "thinkgate_worker_ready"

BOARD = Board(
    uid="thinkgate-health",
    title="thinkgate · Health",
    about="Are the workers well, do requests fail, and who was taken out.",
    stats=(
        Stat(
            "Requests in flight",
            "Being served now: thinkgate_flights_in_flight.",
            "short",
            Query(now("thinkgate_flights_in_flight")),
        ),
        Stat(
            "Failed",
            "Requests that failed, among all: thinkgate_requests_total, outcome failed.",
            "percentunit",
            Query(ratio(rate(ALL, outcome="failed"), rate(ALL))),
            ERRORS,
            decimals=2,
        ),
        Stat(
            "Workers ready",
            "thinkgate_worker_ready.",
            "short",
            Query(now(READY)),
            ((None, "red"), (1, "green")),
            none="none",
        ),
        Stat(
            "Workers not ready",
            "thinkgate_worker_ready that is 0.",
            "short",
            Query(f'count ({READY}{{job=~"$job", pool=~"$pool"}} == 0) or vector(0)'),
            ((None, "green"), (1, "yellow"), (3, "red")),
        ),
        Stat(
            "Slowest pool's pace",
            "A pool's median pace compared with its usual one: thinkgate_pool_pace_ratio. Low when all workers slow "
            "down together: a degraded interconnect.",
            "percentunit",
            Query(now("thinkgate_pool_pace_ratio", "min")),
            ((None, "red"), (0.3, "yellow"), (0.7, "green")),
            decimals=0,
            none="not measured",
        ),
        Stat(
            "Request p95",
            "Seconds from a request's arrival to its end: thinkgate_request_duration_seconds.",
            "s",
            Query(quantile(0.95, "thinkgate_request_duration_seconds")),
            decimals=1,
        ),
    ),
    rows=(
        Row(
            "Workers",
            (
                Timeline(
                    "Ready",
                    "Each worker over time: thinkgate_worker_ready.",
                    Query(now(READY, "min", "pool, worker"), "{{pool}} {{worker}}"),
                    {0: ("not ready", "red"), 1: ("ready", "green")},
                ),
                Graph(
                    "Workers by state",
                    "pending, warming, ready, ejected, draining, gone: thinkgate_worker_state.",
                    "short",
                    (Query(now("thinkgate_worker_state", by="state"), "{{state}}"),),
                    stacked=True,
                    colors={
                        "ready": "green",
                        "warming": "yellow",
                        "pending": "orange",
                        "ejected": "red",
                        "draining": "blue",
                        "gone": "gray",
                    },
                ),
                Graph(
                    "Ejections",
                    "Workers taken out in five minutes, by cause: thinkgate_worker_ejections_total.",
                    "short",
                    (
                        Query(
                            "sum by (cause) (increase(thinkgate_worker_ejections_total"
                            '{job=~"$job", pool=~"$pool"}[5m]))',
                            "{{cause}}",
                        ),
                    ),
                ),
                Graph(
                    "What came of generations",
                    "As far as the worker is to blame, which is what its breaker counts: "
                    "thinkgate_worker_verdicts_total.",
                    "ops",
                    (Query(rate("thinkgate_worker_verdicts_total", "verdict"), "{{verdict}}"),),
                    stacked=True,
                    colors={
                        "success": "green",
                        "neutral": "gray",
                        "client": "blue",
                        "back_pressure": "yellow",
                        "failure": "red",
                    },
                ),
                Graph(
                    "Failures by worker",
                    "Generations a second that failed: thinkgate_worker_verdicts_total, verdict failure.",
                    "ops",
                    (
                        Query(
                            rate("thinkgate_worker_verdicts_total", "pool, worker", verdict="failure"),
                            "{{pool}} {{worker}}",
                        ),
                    ),
                ),
                Graph(
                    "Pace",
                    "A pool's median pace compared with its usual one: thinkgate_pool_pace_ratio.",
                    "percentunit",
                    (Query(now("thinkgate_pool_pace_ratio", "min", "pool"), "{{pool}}"),),
                ),
            ),
        ),
        Row(
            "Requests",
            (
                Graph(
                    "How requests ended",
                    "Requests a second by outcome: thinkgate_requests_total.",
                    "reqps",
                    (Query(rate(ALL, "outcome"), "{{outcome}}"),),
                    stacked=True,
                    colors=OUTCOMES,
                ),
                Graph(
                    "Failed by pool",
                    "Requests that failed, among all of the pool: thinkgate_requests_total.",
                    "percentunit",
                    (Query(ratio(rate(ALL, "pool", outcome="failed"), rate(ALL, "pool")), "{{pool}}"),),
                    limit=0.01,
                ),
                Graph(
                    "Duration",
                    "Seconds from arrival to end: thinkgate_request_duration_seconds.",
                    "s",
                    quantiles("thinkgate_request_duration_seconds", "", 0.5, 0.95, 0.99),
                ),
                Graph(
                    "Moves: retries, migrations",
                    "Legs a second that began elsewhere, before a word was told (retry) or in the midst (migrated): "
                    "thinkgate_legs_total.",
                    "ops",
                    (Query(rate("thinkgate_legs_total", "pool, kind", kind="retry|migrated"), "{{pool}} {{kind}}"),),
                ),
                Graph(
                    "Rare troubles",
                    "A second: failures told at once, since the retry budget was spent "
                    "(thinkgate_retries_refused_total); aborted requests that seemed to run on "
                    "(thinkgate_aborts_lingering_total); generations of one character (thinkgate_worker_floods_total).",
                    "ops",
                    (
                        Query(rate("thinkgate_retries_refused_total"), "retries refused"),
                        Query(rate("thinkgate_aborts_lingering_total"), "aborts lingering"),
                        Query(rate("thinkgate_worker_floods_total"), "floods"),
                    ),
                ),
                Graph(
                    "Aborts",
                    "Seconds until an engine ran an aborted request no more: thinkgate_abort_seconds.",
                    "s",
                    quantiles("thinkgate_abort_seconds", "pool", 0.95),
                ),
            ),
        ),
        Row(
            "Hand-offs",
            (
                Graph(
                    "Prompts prefilled elsewhere",
                    "A second, by what came of it: generated from, offered nothing, never generated from: "
                    "thinkgate_handoffs_total.",
                    "ops",
                    (Query(rate("thinkgate_handoffs_total", "result"), "{{result}}"),),
                    stacked=True,
                    colors={"handed": "green", "missing": "orange", "orphaned": "red"},
                ),
                Graph(
                    "Hand-off time",
                    "Seconds from the prefill worker's answer to the decode worker's first delta: "
                    "thinkgate_handoff_seconds. What is usual here follows from the prompts and the network.",
                    "s",
                    quantiles("thinkgate_handoff_seconds", "pool", 0.5, 0.95),
                ),
                Graph(
                    "Orphaned prefill",
                    "Seconds of prefill a second from which nothing was generated: "
                    "thinkgate_orphaned_prefill_seconds_total.",
                    "s",
                    (Query(rate("thinkgate_orphaned_prefill_seconds_total", "pool"), "{{pool}}"),),
                ),
            ),
        ),
        Row(
            "Router and engines",
            (
                Graph(
                    "Verdicts of the router",
                    "Decisions a second by route and tier: thinkgate_router_decisions_total.",
                    "ops",
                    (Query(rate("thinkgate_router_decisions_total", "route, tier", select=JOB), "{{route}} {{tier}}"),),
                    stacked=True,
                ),
                Graph(
                    "Router latency",
                    "Seconds a request waited for its verdict: thinkgate_router_decision_seconds.",
                    "s",
                    quantiles("thinkgate_router_decision_seconds", "tier", 0.95, select=JOB),
                ),
                Graph(
                    "Time in engines",
                    "Seconds of requests that finished, a second, by phase, where engines tell: "
                    "thinkgate_engine_request_seconds_total.",
                    "short",
                    (Query(rate("thinkgate_engine_request_seconds_total", "phase"), "{{phase}}"),),
                    stacked=True,
                ),
            ),
        ),
    ),
)
