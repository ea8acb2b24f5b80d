"""vLLM: names the field `reasoning`, caps thinking by itself where it was started with a reasoning parser.

Facts from vLLM 0.32: `thinking_token_budget` is a top-level integer, refused with 400 when the server has no
reasoning parser; unary answers may file the answer under `reasoning`, streams do not, and everything is streamed here.
Thoughts of earlier turns are read as `reasoning` (from 0.16), as `reasoning_content` too only from about 0.22.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from budgets import How, Plan
from gateway.engines.base import CHAT_PATH, Call, Prefix, Profile, shape_chat, start_of, take_stops
from gateway.engines.cache import KvCache, kv_of_metrics
from gateway.engines.capabilities import Ask, Capabilities, Path, context_of, fields_of
from gateway.engines.ids import by_ids, count_phrases, is_plain_text, written
from gateway.engines.load import Load, Series, load_of_metrics
from gateway.engines.overchat import continued, keeps_thought, misfiles
from parsers import Format, Start

CAP_FIELD = "thinking_token_budget"
"""The native cap; the engine names it where it refuses it."""

WHOLE_CONTEXT = 10_000_000
"""More tokens than any context: the leg brings it down to what the engine says it has left."""

LOAD = Series(
    running="vllm:num_requests_running",
    waiting="vllm:num_requests_waiting",
    kv=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    info="vllm:cache_config_info",
    times=(
        "vllm:request_queue_time_seconds_sum",
        "vllm:request_prefill_time_seconds_sum",
        "vllm:request_decode_time_seconds_sum",
    ),
)
"""Older releases say `gpu_cache_usage_perc`."""


class VllmDialect:
    can_be_told_a_cap = True
    has_slots = False
    resuming = frozenset({Path.IDS})

    async def probe(self, ask: Ask, profile: Profile, phrases: Sequence[str]) -> Capabilities:
        """Without a reasoning parser vLLM refuses the cap: unary with 400, streamed with an error event in a 200."""
        model = profile.model
        version = fields_of(*await ask("GET", "/version", None)).get("version", "")
        context = context_of(fields_of(*await ask("GET", "/v1/models", None)), model)
        question = {
            "model": model,
            "messages": [{"role": "user", "content": "Hi"}],
            "max_tokens": 1,
            "stream": True,
            CAP_FIELD: 1,
        }
        status, answer = await ask("POST", CHAT_PATH, question)
        native = status == 200 and b"[DONE]" in answer and b'"error"' not in answer
        counted = await count_phrases(ask, model, phrases)
        paths: set[Path] = set() if counted is None else {Path.IDS}
        files_wrongly = False
        if profile.format.open and profile.format.framing is None and await keeps_thought(ask, profile):
            paths.add(Path.CHAT)
            files_wrongly = await misfiles(ask, profile)
        return Capabilities(
            native_cap=native,
            paths=frozenset(paths),
            splits=True if native else None,  # only under a reasoning parser does it take a cap
            misfiles=files_wrongly,
            context=context,
            version=str(version),
            counted=counted or {},
        )

    async def load(self, ask: Ask) -> Load | None:
        return await load_of_metrics(ask, LOAD)

    async def kv_cache(self, ask: Ask) -> KvCache | None:
        return await kv_of_metrics(ask, LOAD.info)

    def chat(self, body: Mapping[str, Any], profile: Profile, plan: Plan) -> Call:
        shaped = shape_chat(body, profile, plan, thought_key="reasoning")
        stops = take_stops(shaped, plan)
        if plan.how is How.NATIVE and plan.cap is not None:
            shaped[CAP_FIELD] = plan.cap
        counts = plan.how in {How.CUT, How.NATIVE} and not body.get("return_token_ids")
        if counts:  # an event may hold several tokens; and a thought that is cut goes on from its very ids
            shaped["return_token_ids"] = True
        start = start_of(profile, plan)
        return Call(CHAT_PATH, shaped, start, profile.engine_splits, stops=stops, hides_ids=counts)

    def paths(self, body: Mapping[str, Any], record: Format) -> tuple[Path, ...]:
        if body.get("continue_final_message") or body.get("truncate_prompt_tokens") is not None:
            return ()  # the client's own prefix would have to hold the thought; a cut prompt would be cut elsewhere
        if is_plain_text(body):
            return (Path.IDS,) if record.framing else (Path.IDS, Path.CHAT)
        return () if record.framing else (Path.CHAT,)

    def refuses_cap(self, status: int, message: str) -> bool:
        return status == 400 and CAP_FIELD in message

    def onward(self, first: Call, prefix: Prefix, profile: Profile, limit: int | None, path: Path) -> Call:
        if path is Path.IDS:
            return by_ids(first, prefix, profile, WHOLE_CONTEXT if limit is None else limit)
        # The template writes the message as it stands, so the open marker is in it even where a prompt would bring it.
        unopened = replace(first, start=Start.CLOSED)
        body = continued(first.body, {"role": "assistant", "content": written(unopened, prefix, profile)}, limit)
        body["add_generation_prompt"] = False
        body.pop(CAP_FIELD, None)
        return replace(first, body=body, start=Start.CLOSED)
