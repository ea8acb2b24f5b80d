"""llama.cpp's server (llama-server, also the embedded engine): splits thoughts itself, continues over chat.

Facts as measured on xllamacpp 2026.10: its own reasoning budget is a silent no-op for templates that end in a
newline after the open marker, so the gateway always cuts; a last assistant message with `reasoning_content` and
`continue_final_message: "content"` renders the thought closed and starts the answer, and a stream does not echo it.
It looks whether its client is still there only when it writes: `return_progress` makes it write during prefill too
(idle 0.4 s after a client left, instead of 10 s).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from budgets import How, Plan
from gateway.engines.base import CHAT_PATH, Call, Prefix, Profile, shape_chat, start_of, take_stops
from gateway.engines.cache import KvCache
from gateway.engines.capabilities import Ask, Capabilities, Path, fields_of
from gateway.engines.ids import TOKENIZE_PATH, reseed
from gateway.engines.load import Load, Series, load_of_metrics, load_of_slots
from gateway.engines.overchat import BEGUN, QUESTION, THOUGHT
from parsers import Format, Start

LOAD = Series(
    running="llamacpp:requests_processing",
    waiting="llamacpp:requests_deferred",
    kv=("llamacpp:kv_cache_usage_ratio",),
)
"""For servers whose /slots is closed (`--no-slots`) and whose `--metrics` are open."""


class LlamaCppDialect:
    can_be_told_a_cap = False
    has_slots = True
    resuming = frozenset({Path.CHAT})

    async def probe(self, ask: Ask, profile: Profile, phrases: Sequence[str]) -> Capabilities:
        """Older servers refuse a last assistant message while thinking is on; a template may drop its thought."""
        props = fields_of(*await ask("GET", "/props", None))
        question = {
            "messages": [QUESTION, {"role": "assistant", "reasoning_content": THOUGHT, "content": BEGUN}],
            "continue_final_message": "content",
            "add_generation_prompt": False,
        }
        prompt = fields_of(*await ask("POST", "/apply-template", question)).get("prompt")
        continues = isinstance(prompt, str) and prompt.endswith(BEGUN) and THOUGHT in prompt
        settings = props.get("default_generation_settings")
        context = cast("dict[str, Any]", settings).get("n_ctx") if isinstance(settings, dict) else None
        counted = {phrase: count for phrase in phrases if (count := await _count(ask, phrase)) is not None}
        return Capabilities(
            paths=frozenset({Path.CHAT} if continues else ()),
            context=context if isinstance(context, int) else None,
            version=str(props.get("build_info", "")),
            counted=counted,
        )

    async def load(self, ask: Ask) -> Load | None:
        return await load_of_slots(ask) or await load_of_metrics(ask, LOAD)

    async def kv_cache(self, ask: Ask) -> KvCache | None:
        return None

    def chat(self, body: Mapping[str, Any], profile: Profile, plan: Plan) -> Call:
        shaped = shape_chat(body, profile, plan, thought_key="reasoning_content", effort_in_kwargs=True)
        stops = take_stops(shaped, plan)
        shaped["return_progress"] = True
        splits = True if profile.engine_splits is None else profile.engine_splits
        counts = plan.how is How.CUT and not shaped.get("timings_per_token")
        if counts:  # an event is a token, but for characters of several; a running total says so
            shaped["timings_per_token"] = True
        return Call(CHAT_PATH, shaped, start_of(profile, plan), splits, stops=stops, hides_usage=counts)

    def paths(self, body: Mapping[str, Any], record: Format) -> tuple[Path, ...]:
        return () if record.framing or body.get("continue_final_message") else (Path.CHAT,)

    def refuses_cap(self, status: int, message: str) -> bool:
        return False

    def onward(self, first: Call, prefix: Prefix, profile: Profile, limit: int | None, path: Path) -> Call:
        """`true` instead of `"content"` would resume the thought; a thought inside `content` would be closed twice."""
        body = dict(first.body)
        given = {"role": "assistant", "content": prefix.answer}
        if prefix.thought is not None:
            given["reasoning_content"] = prefix.thought
        body["messages"] = [*body["messages"], given]
        body["continue_final_message"] = "reasoning_content" if prefix.is_open else "content"
        body["add_generation_prompt"] = False
        if limit is not None:
            body.pop("max_completion_tokens", None)
            body["max_tokens"] = limit
        reseed(body, first.body)
        start = Start.OPEN if prefix.is_open else Start.CLOSED
        return replace(first, body=body, start=start)


async def _count(ask: Ask, text: str) -> int | None:
    tokens = fields_of(*await ask("POST", TOKENIZE_PATH, {"content": text})).get("tokens")
    return len(cast("list[object]", tokens)) if isinstance(tokens, list) else None
