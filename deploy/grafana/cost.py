"""The board of cost and capacity: GPU-seconds a successful task, KV, queues, what was turned away, goodput."""

from __future__ import annotations

from deploy.grafana.panels import JOB, OUTCOMES, Board, Graph, Query, Row, Stat, now, quantiles, rate, ratio

GPU = "thinkgate_gpu_seconds_total"
BAND = "thinkgate_gpu_seconds_by_band_total"
BUSY = "thinkgate_gpu_busy_seconds_total"
NOBODYS = "thinkgate_gpu_seconds_unattributed_total"
COST = "thinkgate_gpu_cost_total"
WON = "thinkgate_successes_total"

BOARD = Board(
    uid="thinkgate-cost",
    title="thinkgate · Cost & capacity",
    about="What a successful task costs in GPU time and money, and how much room is left.",
    stats=(
        Stat(
            "GPU-seconds a success",
            "GPU time of all requests, failures included, over those that were answered: thinkgate_gpu_seconds_total "
            "over thinkgate_successes_total.",
            "s",
            Query(ratio(rate(GPU), rate(WON))),
            decimals=1,
        ),
        Stat(
            "Cost of a success",
            "thinkgate_gpu_cost_total over thinkgate_successes_total, in the currency of gpu_hour_price.",
            "short",
            Query(ratio(rate(COST), rate(WON))),
            decimals=4,
            none="no price",
        ),
        Stat(
            "GPUs busy",
            "GPUs that work for this gateway: thinkgate_gpu_busy_seconds_total.",
            "short",
            Query(rate(BUSY)),
            decimals=1,
        ),
        Stat(
            "Spent in vain",
            "GPU time of requests that were not answered, among all: thinkgate_gpu_seconds_total.",
            "percentunit",
            Query(ratio(rate(GPU, outcome="length|loop|rejected|client_gone|failed"), rate(GPU))),
            ((None, "green"), (0.1, "yellow"), (0.25, "red")),
            decimals=1,
        ),
        Stat(
            "Answer tokens",
            "Goodput, tokens of answers a second: thinkgate_tokens_total.",
            "short",
            Query(rate("thinkgate_tokens_total", kind="answer")),
            decimals=1,
        ),
        Stat(
            "Fullest KV cache",
            "The highest part of a KV cache in use: thinkgate_worker_kv_usage_ratio.",
            "percentunit",
            Query(now("thinkgate_worker_kv_usage_ratio", "max")),
            ((None, "green"), (0.8, "yellow"), (0.95, "red")),
            decimals=0,
            none="not told",
        ),
    ),
    rows=(
        Row(
            "Cost",
            (
                Graph(
                    "GPU-seconds a success by pool",
                    "thinkgate_gpu_seconds_total over thinkgate_successes_total.",
                    "s",
                    (Query(ratio(rate(GPU, "pool"), rate(WON, "pool")), "{{pool}}"),),
                ),
                Graph(
                    "GPU-seconds a success by difficulty",
                    "thinkgate_gpu_seconds_by_band_total over thinkgate_successes_total.",
                    "s",
                    (Query(ratio(rate(BAND, "band"), rate(WON, "band")), "{{band}}"),),
                ),
                Graph(
                    "Where GPU time goes",
                    "GPUs by how their requests ended: thinkgate_gpu_seconds_total by outcome; and for nobody of this "
                    "gateway: thinkgate_gpu_seconds_unattributed_total.",
                    "short",
                    (Query(rate(GPU, "outcome"), "{{outcome}}"), Query(rate(NOBODYS), "unattributed")),
                    stacked=True,
                    colors={**OUTCOMES, "unattributed": "white"},
                ),
                Graph(
                    "Cost an hour",
                    "At the pools' gpu_hour_price: thinkgate_gpu_cost_total.",
                    "short",
                    (Query(f"3600 * {rate(COST, 'pool')}", "{{pool}}"),),
                    stacked=True,
                ),
                Graph(
                    "GPUs busy by pool",
                    "GPU-seconds a second, as they are used and not only when a request ends: "
                    "thinkgate_gpu_busy_seconds_total.",
                    "short",
                    (Query(rate(BUSY, "pool"), "{{pool}}"),),
                    stacked=True,
                ),
                Graph(
                    "GPU-seconds of judged answers",
                    "What good and bad answers cost: thinkgate_feedback_gpu_seconds_total over "
                    "thinkgate_feedback_total.",
                    "s",
                    (
                        Query(
                            ratio(
                                rate("thinkgate_feedback_gpu_seconds_total", "verdict"),
                                rate("thinkgate_feedback_total", "verdict"),
                            ),
                            "{{verdict}}",
                        ),
                    ),
                    colors={"good": "green", "bad": "red"},
                ),
            ),
        ),
        Row(
            "Capacity",
            (
                Graph(
                    "KV in use by worker",
                    "Part of the KV cache in use, as engines tell it: thinkgate_worker_kv_usage_ratio.",
                    "percentunit",
                    (Query(now("thinkgate_worker_kv_usage_ratio", "max", "pool, worker"), "{{pool}} {{worker}}"),),
                    ceiling=1,
                    limit=0.95,
                ),
                Graph(
                    "KV tokens reserved and there",
                    "Tokens this gateway's requests may come to hold (thinkgate_worker_tokens_in_flight), and the "
                    "caches' size (thinkgate_worker_kv_capacity_tokens).",
                    "short",
                    (
                        Query(now("thinkgate_worker_tokens_in_flight", by="pool"), "{{pool}} reserved"),
                        Query(now("thinkgate_worker_kv_capacity_tokens", by="pool"), "{{pool}} size"),
                    ),
                ),
                Graph(
                    "Requests in engines",
                    "Running and waiting, of everybody: thinkgate_worker_requests.",
                    "short",
                    (Query(now("thinkgate_worker_requests", by="pool, state"), "{{pool}} {{state}}"),),
                ),
                Graph(
                    "Waiting in the gateway",
                    "Seconds until a worker was asked: thinkgate_queue_seconds.",
                    "s",
                    quantiles("thinkgate_queue_seconds", "pool", 0.95),
                ),
                Graph(
                    "Turned away",
                    "Refused before any flight by status (thinkgate_rejections_total), and flights that no worker took "
                    "(thinkgate_requests_total, outcome rejected).",
                    "reqps",
                    (
                        Query(rate("thinkgate_rejections_total", "status", select=JOB), "{{status}}"),
                        Query(rate("thinkgate_requests_total", "pool", outcome="rejected"), "{{pool}} rejected"),
                    ),
                ),
                Graph(
                    "Time per output token",
                    "Seconds a token after the first: thinkgate_time_per_output_token_seconds.",
                    "s",
                    quantiles("thinkgate_time_per_output_token_seconds", "pool", 0.95),
                ),
            ),
        ),
        Row(
            "Goodput and keys",
            (
                Graph(
                    "Answer and thought tokens",
                    "Tokens a second as requests end: thinkgate_tokens_total.",
                    "short",
                    (
                        Query(
                            rate("thinkgate_tokens_total", "pool, kind", kind="reasoning|answer"), "{{pool}} {{kind}}"
                        ),
                    ),
                    stacked=True,
                ),
                Graph(
                    "Successes by difficulty",
                    "Requests that were answered a second: thinkgate_successes_total.",
                    "reqps",
                    (Query(rate(WON, "band"), "{{band}}"),),
                    stacked=True,
                ),
                Graph(
                    "Tokens by key",
                    "The ten keys that use most, by alias: thinkgate_key_tokens_total.",
                    "short",
                    (Query(f"topk(10, {rate('thinkgate_key_tokens_total', 'key', select=JOB)})", "{{key}}"),),
                ),
            ),
        ),
    ),
)
