"""llama.cpp's server (llama-server, also the embedded engine): splits thoughts itself, continues over chat.

Facts as measured on xllamacpp 2026.10: its own reasoning budget is a silent no-op for templates that end in a
newline after the open marker, so the gateway always cuts; a last assistant message with `reasoning_content` and
`continue_final_message: "content"` renders the thought closed and starts the answer, and a stream does not echo it.
It looks whether its client is still there only when it writes: `return_progress` makes it write during prefill too
(idle 0.4 s after a client left, instead of 10 s).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from budgets import Plan
from gateway.engines.base import CHAT_PATH, Call, Prefix, Profile, shape_chat, start_of, take_stops
from gateway.engines.capabilities import Ask, Capabilities, Continues, fields_of
from parsers import Start


class LlamaCppDialect:
    can_be_told_a_cap = False

    async def probe(self, ask: Ask, model: str) -> Capabilities:
        """Older servers refuse a last assistant message while thinking is on; a template may drop its thought."""
        props = fields_of(*await ask("GET", "/props", None))
        closed = {"role": "assistant", "reasoning_content": "So it is.", "content": "Yes"}
        question = {
            "messages": [{"role": "user", "content": "Is it?"}, closed],
            "continue_final_message": "content",
            "add_generation_prompt": False,
        }
        prompt = fields_of(*await ask("POST", "/apply-template", question)).get("prompt")
        continues = isinstance(prompt, str) and prompt.endswith("Yes") and "So it is." in prompt
        settings = props.get("default_generation_settings")
        context = cast("dict[str, Any]", settings).get("n_ctx") if isinstance(settings, dict) else None
        return Capabilities(
            continues=Continues.CHAT if continues else Continues.NOT,
            context=context if isinstance(context, int) else None,
            version=str(props.get("build_info", "")),
        )

    def chat(self, body: Mapping[str, Any], profile: Profile, plan: Plan) -> Call:
        shaped = shape_chat(body, profile, plan, thought_key="reasoning_content")
        stops = take_stops(shaped, plan)
        shaped["return_progress"] = True
        splits = True if profile.engine_splits is None else profile.engine_splits
        return Call(CHAT_PATH, shaped, start_of(profile, plan), splits, stops=stops)

    def can_continue(self, body: Mapping[str, Any]) -> bool:
        return True

    def refuses_cap(self, status: int, message: str) -> bool:
        return False

    def answer(self, first: Call, prefix: Prefix, profile: Profile, limit: int | None) -> Call | None:
        """`true` instead of `"content"` would resume the thought; a thought inside `content` would be closed twice."""
        body = dict(first.body)
        closed = {"role": "assistant", "reasoning_content": prefix.thought, "content": prefix.answer}
        body["messages"] = [*body["messages"], closed]
        body["continue_final_message"] = "content"
        body["add_generation_prompt"] = False
        if limit is not None:
            body.pop("max_completion_tokens", None)
            body["max_tokens"] = limit
        return Call(CHAT_PATH, body, Start.CLOSED, first.engine_splits, stops=first.stops)
