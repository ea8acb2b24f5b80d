"""The board of thinking: how much of it there is, what ends it, what loops cost and what cutting them saves."""

from __future__ import annotations

from deploy.grafana.panels import PLAIN, Board, Graph, Query, Row, Stat, quantile, quantiles, rate, ratio

TOKENS = "thinkgate_tokens_total"
ENDED = "thinkgate_thinking_ended_total"
SAID = "reasoning|answer"

BOARD = Board(
    uid="thinkgate-reasoning",
    title="thinkgate · Reasoning",
    about="How much is thought, what ends a thought, and what loops cost.",
    stats=(
        Stat(
            "Requests",
            "Requests that ended a second: thinkgate_requests_total.",
            "reqps",
            Query(rate("thinkgate_requests_total")),
        ),
        Stat(
            "Think share",
            "Tokens of thought among all that were generated: thinkgate_tokens_total, kind reasoning over reasoning "
            "and answer.",
            "percentunit",
            Query(ratio(rate(TOKENS, kind="reasoning"), rate(TOKENS, kind=SAID))),
            decimals=1,
        ),
        Stat(
            "Cap hit-rate",
            "Thoughts that their cap ended, among all: thinkgate_thinking_ended_total by cap. Above a half, caps are "
            "likely too low for what is asked.",
            "percentunit",
            Query(ratio(rate(ENDED, by="", select='job=~"$job", pool=~"$pool", by="cap"'), rate(ENDED))),
            ((None, "green"), (0.5, "yellow"), (0.8, "red")),
            decimals=1,
        ),
        Stat(
            "Loops rescued",
            "Rescued requests that came to an answer, among all that were rescued from a loop: "
            "thinkgate_loop_rescues_total.",
            "percentunit",
            Query(ratio(rate("thinkgate_loop_rescues_total", result="answered"), rate("thinkgate_loop_rescues_total"))),
            ((None, "red"), (0.8, "yellow"), (0.95, "green")),
            decimals=0,
            none="no loops",
        ),
        Stat(
            "Tokens saved",
            "Tokens a second that looping thoughts could still have cost: thinkgate_loop_tokens_saved_total.",
            "short",
            Query(rate("thinkgate_loop_tokens_saved_total")),
            PLAIN,
            decimals=1,
        ),
        Stat(
            "First answer token p95",
            "What a client waits for the answer to begin, thought included: "
            "thinkgate_time_to_first_answer_token_seconds.",
            "s",
            Query(quantile(0.95, "thinkgate_time_to_first_answer_token_seconds")),
            decimals=1,
        ),
    ),
    rows=(
        Row(
            "Thinking",
            (
                Graph(
                    "Think share by pool",
                    "Tokens of thought among all generated: thinkgate_tokens_total.",
                    "percentunit",
                    (
                        Query(
                            ratio(rate(TOKENS, "pool", kind="reasoning"), rate(TOKENS, "pool", kind=SAID)), "{{pool}}"
                        ),
                    ),
                    ceiling=1,
                ),
                Graph(
                    "What ended thoughts",
                    "Thoughts a second by what ended them: thinkgate_thinking_ended_total.",
                    "ops",
                    (Query(rate(ENDED, "by"), "{{by}}"),),
                    stacked=True,
                    colors={"model": "green", "cap": "yellow", "loop": "orange", "deadline": "red", "stop": "blue"},
                ),
                Graph(
                    "Cap hit-rate by pool",
                    "Thoughts that their cap ended, among all: thinkgate_thinking_ended_total.",
                    "percentunit",
                    (
                        Query(
                            ratio(
                                rate(ENDED, "pool", select='job=~"$job", pool=~"$pool", by="cap"'), rate(ENDED, "pool")
                            ),
                            "{{pool}}",
                        ),
                    ),
                    ceiling=1,
                    limit=0.8,
                ),
                Graph(
                    "Thinking length by difficulty",
                    "Tokens of a thought by the router's band: thinkgate_thinking_tokens.",
                    "short",
                    (
                        *quantiles("thinkgate_thinking_tokens", "band", 0.95),
                        Query(quantile(0.5, "thinkgate_thinking_tokens"), "p50 of all"),
                    ),
                ),
                Graph(
                    "Thinking time by difficulty",
                    "Seconds from the first token of a thought to the first of the answer: thinkgate_thinking_seconds.",
                    "s",
                    (
                        *quantiles("thinkgate_thinking_seconds", "band", 0.95),
                        Query(quantile(0.5, "thinkgate_thinking_seconds"), "p50 of all"),
                    ),
                ),
                Graph(
                    "First token, first answer token",
                    "What a client waits: thinkgate_time_to_first_token_seconds and "
                    "thinkgate_time_to_first_answer_token_seconds.",
                    "s",
                    (
                        Query(quantile(0.5, "thinkgate_time_to_first_token_seconds"), "first token p50"),
                        Query(quantile(0.95, "thinkgate_time_to_first_token_seconds"), "first token p95"),
                        Query(quantile(0.5, "thinkgate_time_to_first_answer_token_seconds"), "first of answer p50"),
                        Query(quantile(0.95, "thinkgate_time_to_first_answer_token_seconds"), "first of answer p95"),
                    ),
                ),
            ),
        ),
        Row(
            "Cuts and loops",
            (
                Graph(
                    "Forced closes",
                    "Legs a second that lead a thought to its answer: thinkgate_legs_total, kind answer.",
                    "ops",
                    (Query(rate("thinkgate_legs_total", "pool", kind="answer"), "{{pool}}"),),
                ),
                Graph(
                    "Loops by what was done",
                    "Loops found a second: thinkgate_loops_total by channel and action.",
                    "ops",
                    (Query(rate("thinkgate_loops_total", "channel, action"), "{{channel}} {{action}}"),),
                    stacked=True,
                ),
                Graph(
                    "Tokens saved, trimmed, wasted",
                    "Tokens a second that loops could still have cost (thinkgate_loop_tokens_saved_total), that cuts "
                    "threw away (kind trimmed) and that were never told (kind wasted, thinkgate_tokens_total).",
                    "short",
                    (
                        Query(rate("thinkgate_loop_tokens_saved_total"), "saved"),
                        Query(rate(TOKENS, "kind", kind="trimmed|wasted"), "{{kind}}"),
                    ),
                ),
                Graph(
                    "Tokens by kind",
                    "Tokens a second: thinkgate_tokens_total. Cached is part of prompt, injected part of the rest.",
                    "short",
                    (Query(rate(TOKENS, "kind", kind="prompt|cached|reasoning|answer|injected"), "{{kind}}"),),
                ),
                Graph(
                    "Budgets not kept",
                    "Thoughts a second beyond their cap (thinkgate_caps_total, held no), and beyond one that an engine "
                    "was told (thinkgate_native_cap_overruns_total).",
                    "ops",
                    (
                        Query(rate("thinkgate_caps_total", "pool", held="no"), "{{pool}}"),
                        Query(rate("thinkgate_native_cap_overruns_total", "pool"), "{{pool}} native"),
                    ),
                ),
                Graph(
                    "Verdicts of users",
                    "What POST /v1/feedback was told a second: thinkgate_feedback_total.",
                    "ops",
                    (Query(rate("thinkgate_feedback_total", "verdict"), "{{verdict}}"),),
                    colors={"good": "green", "bad": "red"},
                ),
            ),
        ),
    ),
)
