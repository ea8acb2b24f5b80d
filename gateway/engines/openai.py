"""Any OpenAI-compatible API as a pool, with the fewest promises: no switch it may not know, no continuation.

Source: OpenAI's chat-completions reference. Template kwargs stay out, since hosted APIs refuse what they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from budgets import Plan
from gateway.engines.base import CHAT_PATH, Call, Prefix, Profile, shape_chat, start_of
from gateway.engines.cache import KvCache
from gateway.engines.capabilities import Ask, Capabilities, Path
from gateway.engines.load import Load
from parsers import Format


class OpenAIDialect:
    can_be_told_a_cap = False
    has_slots = False
    resuming: frozenset[Path] = frozenset()

    async def probe(self, ask: Ask, profile: Profile, phrases: Sequence[str]) -> Capabilities:
        return Capabilities()

    async def load(self, ask: Ask) -> Load | None:
        return None

    async def kv_cache(self, ask: Ask) -> KvCache | None:
        return None

    def chat(self, body: Mapping[str, Any], profile: Profile, plan: Plan) -> Call:
        shaped = shape_chat(body, profile, plan, thought_key=None)
        shaped.pop("chat_template_kwargs", None)
        if plan.level is not None:
            shaped["reasoning_effort"] = plan.level
        return Call(CHAT_PATH, shaped, start_of(profile, plan), profile.engine_splits)

    def paths(self, body: Mapping[str, Any], record: Format) -> tuple[Path, ...]:
        return ()

    def refuses_cap(self, status: int, message: str) -> bool:
        return False

    def onward(self, first: Call, prefix: Prefix, profile: Profile, limit: int | None, path: Path) -> Call:
        raise AssertionError("a hosted API has no path onward")
