"""SGLang: names the field `reasoning_content`, ignores unknown fields in silence, answers errors flat.

Facts from SGLang 0.5.23: a native budget acts only under server flags, which `/server_info` tells of; the head of an
answer comes with its first token; of earlier turns only `reasoning_content` is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from budgets import How, Plan
from gateway.engines.base import CHAT_PATH, Call, Prefix, Profile, shape_chat, start_of, take_stops
from gateway.engines.cache import KvCache, kv_of_server_info
from gateway.engines.capabilities import Ask, Capabilities, Path, context_of, fields_of
from gateway.engines.ids import by_ids, count_phrases, has_media, is_plain_text, prompt_of, written
from gateway.engines.load import Load, Series, load_of_loads, load_of_metrics
from gateway.engines.overchat import continued
from parsers import Format, Start

UNSAID_LIMIT = 4_096
"""Tokens of answer after a cut, if the client set no limit: SGLang refuses too many, and does not say how many fit."""


_HELD_BY = frozenset(
    {"qwen3", "qwen3-thinking", "minimax", "dots", "nanbeige", "interns1", "deepseek-v3", "mimo", "poolside_v1"}
    | {"kimi_k2", "kimi_k3", "glm45", "ling3", "deepseek-v4", "deepseek-v41"}
)
"""Reasoning parsers under which strict thinking acts on a request's own budget; under the others it is ignored in
silence unless the server has a default budget (`ReasonerGrammarBackend`, SGLang 0.5.23)."""

LOAD = Series(
    running="sglang:num_running_reqs",
    waiting="sglang:num_queue_reqs",
    kv=("sglang:token_usage",),
    capacity=("sglang:max_total_num_tokens",),
)
"""For releases without /v1/loads, if they were started with `--enable-metrics`."""


class SglangDialect:
    can_be_told_a_cap = True
    has_slots = False
    resuming = frozenset({Path.IDS, Path.CHAT_IDS})

    async def probe(self, ask: Ask, profile: Profile, phrases: Sequence[str]) -> Capabilities:
        model = profile.model
        info = fields_of(*await ask("GET", "/server_info", None))
        context = info.get("context_length")
        if not isinstance(context, int):
            context = context_of(fields_of(*await ask("GET", "/v1/models", None)), model)
        native = info.get("enable_strict_thinking") is True and info.get("reasoning_parser") in _HELD_BY
        counted = await count_phrases(ask, model, phrases)
        paths = {Path.CHAT}
        if counted is not None:
            paths.add(Path.IDS)
            if await _takes_ids_in_chat(ask, model):
                paths.add(Path.CHAT_IDS)
        return Capabilities(
            native,
            frozenset(paths),
            splits=bool(info["reasoning_parser"]) if "reasoning_parser" in info else None,
            context=context,
            version=str(info.get("version", "")),
            counted=counted or {},
        )

    async def load(self, ask: Ask) -> Load | None:
        return await load_of_loads(ask) or await load_of_metrics(ask, LOAD)

    async def kv_cache(self, ask: Ask) -> KvCache | None:
        return await kv_of_server_info(ask)

    def chat(self, body: Mapping[str, Any], profile: Profile, plan: Plan) -> Call:
        shaped = shape_chat(body, profile, plan, thought_key="reasoning_content")
        stops = take_stops(shaped, plan)
        if plan.how is How.NATIVE and plan.cap is not None:
            given = shaped.get("custom_params")
            known = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
            shaped["custom_params"] = {**known, "thinking_budget": plan.cap}
        options = shaped["stream_options"]
        counts = plan.how in {How.CUT, How.NATIVE} and not options.get("continuous_usage_stats")
        if counts:  # its streams tell no ids; a running total says how many tokens an event holds
            shaped["stream_options"] = {**options, "continuous_usage_stats": True}
        return Call(CHAT_PATH, shaped, start_of(profile, plan), profile.engine_splits, stops=stops, hides_usage=counts)

    def paths(self, body: Mapping[str, Any], record: Format) -> tuple[Path, ...]:
        if body.get("continue_final_message") or body.get("input_ids") is not None:
            return ()
        if is_plain_text(body):
            return (Path.IDS,)
        if record.framing:
            return ()
        return (Path.CHAT,) if has_media(body) else (Path.CHAT_IDS, Path.CHAT)

    def refuses_cap(self, status: int, message: str) -> bool:
        return False

    def onward(self, first: Call, prefix: Prefix, profile: Profile, limit: int | None, path: Path) -> Call:
        if path is Path.IDS:
            call = by_ids(first, prefix, profile, UNSAID_LIMIT if limit is None else limit)
            return replace(call, tokenize=_as_chat_does(call.tokenize))
        begun = written(first, prefix, profile)
        if path is Path.CHAT:
            body = continued(first.body, {"role": "assistant", "content": begun}, limit)
        else:
            body = self._beside_ids(first, prefix, profile, limit)
        body.pop("custom_params", None)  # past the thought, strict thinking would count the answer
        if kept := {k: v for k, v in first.body.get("custom_params", {}).items() if k != "thinking_budget"}:
            body["custom_params"] = kept
        start = Start.OPEN if prefix.is_open else Start.CLOSED
        if path is Path.CHAT:
            return replace(first, body=body, start=start)
        ids, questions = prompt_of(first, prefix, profile)
        return replace(
            first, body=body, start=start, ids_field="input_ids", prompt_ids=ids, tokenize=_as_chat_does(questions)
        )

    def _beside_ids(self, first: Call, prefix: Prefix, profile: Profile, limit: int | None) -> dict[str, Any]:
        """The messages only steer the parsers here. Two things say that the thought is over, since no one of them does
        for every parser: the template's switch, and an end marker in a last message to be continued."""
        if prefix.is_open:
            last, switches = (
                {"role": "assistant", "content": profile.format.open[0]},
                profile.format.switch_kwargs(True),
            )
        else:
            closed = f"{profile.format.closing}{prefix.answer}"
            last, switches = {"role": "assistant", "content": closed}, profile.format.switch_kwargs(False)
        body = continued(first.body, last, UNSAID_LIMIT if limit is None else limit)
        if switches:
            body["chat_template_kwargs"] = {**body.get("chat_template_kwargs", {}), **switches}
        return body


async def _takes_ids_in_chat(ask: Ask, model: str) -> bool:
    """A version that does not know `input_ids` ignores it in silence: then the prompt is longer than these two."""
    question = {
        "model": model,
        "messages": [{"role": "user", "content": "Is it so, or is it not so after all?"}],
        "input_ids": [1, 1],
        "max_tokens": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    status, answer = await ask("POST", CHAT_PATH, question)
    return status == 200 and b'"prompt_tokens":2,' in answer.replace(b" ", b"")


def _as_chat_does(questions: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """vLLM's /tokenize wants to be told to open the assistant's turn, SGLang's does it as its chat route would when
    nothing is said."""
    return tuple({key: value for key, value in one.items() if key != "add_generation_prompt"} for one in questions)
