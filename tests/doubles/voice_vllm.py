"""vLLM 0.32's events and bodies, key by key and in its order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from time import time
from typing import Any

from tests.doubles.engine import dumps
from tests.doubles.speech import Usage
from tests.doubles.steps import Choice, Step, call_deltas

FINGERPRINT = "vllm-0.32.0-1ef0c81d"
STATUS_WORDS = {
    400: "BadRequestError",
    401: "Unauthorized",
    404: "NotFoundError",
    429: "TooManyRequestsError",
    500: "InternalServerError",
    503: "Service Unavailable",
}


def error_object(code: int, message: str, kind: str | None = None, param: str | None = None) -> dict[str, Any]:
    kind = kind or STATUS_WORDS.get(code, "InternalServerError")
    return {"message": message, "type": kind, "param": param, "code": code}


class ChatVoice:
    """/v1/chat/completions."""

    media_type = "text/event-stream; charset=utf-8"
    head: tuple[tuple[str, str], ...] = ()
    late = False
    seam: tuple[str, str] = ("\n", "\n\n")
    done_after_error = True
    usage_after_error = False
    handed: dict[str, Any] | None = None
    """`kv_transfer_params` of a body, and of a stream's last chunk with a finish reason."""
    encoded: dict[str, Any] | None = None
    """`ec_transfer_params`."""
    cached: int | None = None
    """Cached tokens as told; None without --enable-prompt-tokens-details."""

    def __init__(
        self, name: str, model: str, *, parser: bool, ids: bool, prompt_ids: Sequence[int], misfiles: bool = False
    ) -> None:
        self.name, self.model, self.parser, self.ids, self.misfiles = name, model, parser, ids, misfiles
        self.prompt_ids = list(prompt_ids) if ids else None
        self.created = int(time())

    def role(self, index: int, usage: Usage | None) -> list[str]:
        delta = {"role": "assistant", "content": ""}
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        return [self._chunk([choice], **self._usage(usage), prompt_token_ids=self.prompt_ids, prompt_text=None)]

    def delta(self, index: int, step: Step, usage: Usage | None) -> list[str]:
        if step.call:
            choices = [{**self._choice(index, step), "delta": delta} for delta in call_deltas(step)]
            choices[0]["token_ids"] = None
            return [self._chunk([choice], **self._usage(usage)) for choice in choices]
        if not step.parts and not self.ids:
            return []
        return [self._chunk([self._choice(index, step)], **self._usage(usage))]

    def finish(self, index: int, step: Step, reason: str, usage: Usage | None) -> list[str]:
        events: list[str] = []
        if step.call or (reason == "stop" and step.parts):
            events, step = self.delta(index, step, usage), Step()
        choice = self._choice(index, step)
        ids = choice.pop("token_ids")
        choice |= {"finish_reason": reason, "stop_reason": None, "token_ids": ids}
        handed = {"kv_transfer_params": self.handed} if self.handed else {}
        return [*events, self._chunk([choice], **self._usage(usage), **handed)]

    def usage(self, usage: Usage) -> list[str]:
        told = {"usage": self._usage(usage)["usage"], "system_fingerprint": FINGERPRINT}
        return [self._chunk([], **told)]

    def error(self, code: int, message: str) -> str:
        return json.dumps({"error": error_object(code, message)})

    def whole(self, choices: list[Choice], usage: Usage) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self.name}",
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [self._whole_choice(choice) for choice in choices],
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": self._whole_usage(usage),
            "prompt_logprobs": None,
            "prompt_token_ids": self.prompt_ids,
            "prompt_text": None,
            "kv_transfer_params": self.handed,
            "ec_transfer_params": self.encoded,
            "metrics": None,
        }

    def _whole_choice(self, choice: Choice) -> dict[str, Any]:
        message = {
            "role": "assistant",
            "content": choice.said.text("answer") or None,
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
            "reasoning": choice.said.text("think") or None,
        }
        return {
            "index": choice.index,
            "message": message,
            "logprobs": None,
            "finish_reason": choice.reason,
            "stop_reason": None,
            "token_ids": choice.said.ids if self.ids else None,
            "routed_experts": None,
        }

    def _choice(self, index: int, step: Step) -> dict[str, Any]:
        said: dict[str, Any] = {"content": step.text("answer"), "reasoning": step.text("think")}
        if self.misfiles:
            said = {"content": "", "reasoning": said["reasoning"] + said["content"]}
        delta = {name: text for name, text in said.items() if text}
        return {
            "index": index,
            "delta": delta,
            "logprobs": None,
            "finish_reason": None,
            "token_ids": step.ids if self.ids else None,
        }

    def _usage(self, usage: Usage | None) -> dict[str, Any]:
        if usage is None:
            return {}
        told: dict[str, Any] = {
            "prompt_tokens": usage.prompt,
            "total_tokens": usage.prompt + usage.completion,
            "completion_tokens": usage.completion,
        }
        if self.cached is not None:
            told["prompt_tokens_details"] = {"cached_tokens": self.cached, "created_cache_tokens": None}
        if self.parser:
            told["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
        return {"usage": told}

    def _whole_usage(self, usage: Usage) -> dict[str, Any]:
        details = {"reasoning_tokens": usage.reasoning} if self.parser else None
        cached = {"cached_tokens": self.cached, "created_cache_tokens": None, "multimodal_tokens": None}
        cached = None if self.cached is None else cached
        return {
            "prompt_tokens": usage.prompt,
            "total_tokens": usage.prompt + usage.completion,
            "completion_tokens": usage.completion,
            "prompt_tokens_details": cached,
            "completion_tokens_details": details,
        }

    def _chunk(self, choices: list[dict[str, Any]], **more: Any) -> str:
        head = {"id": f"chatcmpl-{self.name}", "object": "chat.completion.chunk", "created": self.created}
        return dumps({**head, "model": self.model, "choices": choices, **more})


class TextVoice(ChatVoice):
    """/v1/completions: raw text, no parser, no role."""

    def __init__(self, name: str, model: str, *, ids: bool, prompt_ids: Sequence[int]) -> None:
        super().__init__(name, model, parser=False, ids=ids, prompt_ids=prompt_ids)
        self._told_prompt: set[int] = set()

    def role(self, index: int, usage: Usage | None) -> list[str]:
        return []

    def delta(self, index: int, step: Step, usage: Usage | None) -> list[str]:
        return [self._chunk([self._text(index, step, None)], **self._usage(usage))]

    def finish(self, index: int, step: Step, reason: str, usage: Usage | None) -> list[str]:
        return [self._chunk([self._text(index, step, reason)], **self._usage(usage))]

    def whole(self, choices: list[Choice], usage: Usage) -> dict[str, Any]:
        return {
            "id": f"cmpl-{self.name}",
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": [self._whole_choice(choice) for choice in choices],
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": self._whole_usage(usage),
            "kv_transfer_params": self.handed,
            "ec_transfer_params": self.encoded,
            "metrics": None,
        }

    def _whole_choice(self, choice: Choice) -> dict[str, Any]:
        return {
            "index": choice.index,
            "text": choice.said.text("answer"),
            "logprobs": None,
            "finish_reason": choice.reason,
            "stop_reason": None,
            "token_ids": choice.said.ids if self.ids else None,
            "prompt_logprobs": None,
            "prompt_token_ids": self.prompt_ids,
            "routed_experts": None,
        }

    def _text(self, index: int, step: Step, reason: str | None) -> dict[str, Any]:
        first = index not in self._told_prompt
        self._told_prompt.add(index)
        return {
            "index": index,
            "text": step.text("answer"),
            "logprobs": None,
            "finish_reason": reason,
            "stop_reason": None,
            "prompt_token_ids": self.prompt_ids if first else None,
            "token_ids": step.ids if self.ids else None,
        }

    def _chunk(self, choices: list[dict[str, Any]], **more: Any) -> str:
        head = {"id": f"cmpl-{self.name}", "object": "text_completion", "created": self.created}
        return dumps({**head, "model": self.model, "choices": choices, **more})
