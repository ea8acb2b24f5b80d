"""SGLang: names the field `reasoning_content`, ignores unknown fields in silence, answers errors flat.

Facts from SGLang 0.5.23: a native budget acts only under server flags that a request cannot see, so none is sent;
the head of an answer comes with its first token; of earlier turns only `reasoning_content` is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from budgets import Plan
from gateway.engines.base import CHAT_PATH, Call, Prefix, Profile, shape_chat, start_of, take_stops
from gateway.engines.ids import answer_by_ids, is_plain_text

UNSAID_LIMIT = 4_096
"""Tokens of answer after a cut, if the client set no limit: SGLang refuses too many, and does not say how many fit."""


class SglangDialect:
    def chat(self, body: Mapping[str, Any], profile: Profile, plan: Plan) -> Call:
        shaped = shape_chat(body, profile, plan, thought_key="reasoning_content")
        stops = take_stops(shaped, plan)
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
