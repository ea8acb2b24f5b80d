"""SGLang: names the field `reasoning_content`, ignores unknown fields in silence, answers errors flat.

Facts from SGLang 0.5.23: a native budget acts only under server flags, which `/server_info` tells of; the head of an
answer comes with its first token; of earlier turns only `reasoning_content` is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from budgets import How, Plan
from gateway.engines.base import CHAT_PATH, Call, Prefix, Profile, shape_chat, start_of, take_stops
from gateway.engines.capabilities import Ask, Capabilities, context_of, fields_of
from gateway.engines.ids import answer_by_ids, continues_by_ids, is_plain_text

UNSAID_LIMIT = 4_096
"""Tokens of answer after a cut, if the client set no limit: SGLang refuses too many, and does not say how many fit."""


_HELD_BY = frozenset(
    {"qwen3", "qwen3-thinking", "minimax", "dots", "nanbeige", "interns1", "deepseek-v3", "mimo", "poolside_v1"}
    | {"kimi_k2", "kimi_k3", "glm45", "ling3", "deepseek-v4", "deepseek-v41"}
)
"""Reasoning parsers under which strict thinking acts on a request's own budget; under the others it is ignored in
silence unless the server has a default budget (`ReasonerGrammarBackend`, SGLang 0.5.23)."""


class SglangDialect:
    can_be_told_a_cap = True

    async def probe(self, ask: Ask, model: str) -> Capabilities:
        info = fields_of(*await ask("GET", "/server_info", None))
        context = info.get("context_length")
        if not isinstance(context, int):
            context = context_of(fields_of(*await ask("GET", "/v1/models", None)), model)
        native = info.get("enable_strict_thinking") is True and info.get("reasoning_parser") in _HELD_BY
        return Capabilities(native, await continues_by_ids(ask, model), context, str(info.get("version", "")))

    def chat(self, body: Mapping[str, Any], profile: Profile, plan: Plan) -> Call:
        shaped = shape_chat(body, profile, plan, thought_key="reasoning_content")
        stops = take_stops(shaped, plan)
        if plan.how is How.NATIVE and plan.cap is not None:
            given = shaped.get("custom_params")
            known = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
            shaped["custom_params"] = {**known, "thinking_budget": plan.cap}
        return Call(CHAT_PATH, shaped, start_of(profile, plan), profile.engine_splits, stops=stops)

    def can_continue(self, body: Mapping[str, Any]) -> bool:
        return is_plain_text(body)

    def refuses_cap(self, status: int, message: str) -> bool:
        return False

    def answer(self, first: Call, prefix: Prefix, profile: Profile, limit: int | None) -> Call | None:
        call = answer_by_ids(first, prefix, profile, UNSAID_LIMIT if limit is None else limit)
        # vLLM wants to be told, SGLang's /tokenize does as its chat route does when the field is absent.
        render = {key: value for key, value in call.tokenize[0].items() if key != "add_generation_prompt"}
        return replace(call, tokenize=(render, *call.tokenize[1:]))
