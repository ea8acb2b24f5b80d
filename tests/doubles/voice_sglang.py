"""SGLang 0.5.23's events and bodies, key by key and in its order."""

from __future__ import annotations

import json
from http import HTTPStatus
from time import time
from typing import Any

from tests.doubles.engine import dumps
from tests.doubles.mind import VOCABULARY
from tests.doubles.speech import Usage
from tests.doubles.steps import Choice, Side, Step, call_deltas

EOS = 151_645


class ChatVoice:
    """/v1/chat/completions. The finish chunk comes after all choices have ended; usage never rides on it."""

    media_type = "text/event-stream"
    head: tuple[tuple[str, str], ...] = ()
    late = True
    seam: tuple[str, str] = ("\n", "\n\n")
    done_after_error = True
    usage_after_error = True
    cached: int | None = None
    """Cached tokens as told; None without --enable-cache-report."""

    def __init__(self, name: str, model: str, *, parser: bool) -> None:
        self.name, self.model, self.parser = name, model, parser
        self.created = int(time())

    def role(self, index: int, usage: Usage | None) -> list[str]:
        return [self._chunk(index, {"reasoning_content": None, "role": "assistant", "content": ""})]

    def delta(self, index: int, step: Step, usage: Usage | None) -> list[str]:
        deltas = [_delta(side, text) for side, text in step.parts]
        calls = [{"role": None, "content": None, "reasoning_content": None, **call} for call in call_deltas(step)]
        return [self._chunk(index, delta, usage=usage) for delta in (*deltas, *calls)]

    def finish(self, index: int, step: Step, reason: str, usage: Usage | None) -> list[str]:
        events = self.delta(index, step, usage)
        matched = EOS if reason == "stop" else None
        return [*events, self._chunk(index, {"reasoning_content": None}, reason, matched)]

    def usage(self, usage: Usage) -> list[str]:
        return [dumps({**self._head(), "choices": [], "usage": self._usage(usage)})]

    def error(self, code: int, message: str) -> str:
        kind = HTTPStatus(code).name
        return json.dumps({"error": {"object": "error", "message": message, "type": kind, "param": None, "code": code}})

    def whole(self, choices: list[Choice], usage: Usage) -> dict[str, Any]:
        return {
            "id": self.name,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [
                {
                    "index": choice.index,
                    "message": {
                        "role": "assistant",
                        "content": choice.said.text("answer"),
                        "reasoning_content": choice.said.text("think") or None,
                    },
                    "logprobs": None,
                    "finish_reason": choice.reason,
                    "matched_stop": EOS if choice.reason == "stop" else None,
                }
                for choice in choices
            ],
            "usage": self._usage(usage),
            "metadata": {"weight_version": "default"},
        }

    def _usage(self, usage: Usage) -> dict[str, Any]:
        reasoning = usage.reasoning if self.parser else 0
        return {
            "prompt_tokens": usage.prompt,
            "total_tokens": usage.prompt + usage.completion,
            "completion_tokens": usage.completion,
            "prompt_tokens_details": None if self.cached is None else {"cached_tokens": self.cached},
            "reasoning_tokens": reasoning,
            "completion_tokens_details": {"reasoning_tokens": reasoning} if reasoning else None,
        }

    def _head(self) -> dict[str, Any]:
        return {"id": self.name, "object": "chat.completion.chunk", "created": self.created, "model": self.model}

    def _chunk(
        self,
        index: int,
        delta: dict[str, Any],
        reason: str | None = None,
        matched: int | None = None,
        usage: Usage | None = None,
    ) -> str:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason, "matched_stop": matched}
        more = {"usage": self._usage(usage)} if usage else {}
        return dumps({**self._head(), "choices": [choice], **more})


def _delta(side: Side, text: str) -> dict[str, Any]:
    return {"reasoning_content": text} if side == "think" else {"reasoning_content": None, "content": text}


class TextVoice(ChatVoice):
    """/v1/completions: raw text; the finish reason rides on the last text, and `usage` is null on every chunk."""

    def __init__(self, name: str, model: str, *, ids: bool, prompt: str) -> None:
        super().__init__(name, model, parser=False)
        self.ids = ids
        self._prompt_ids: list[int] | None = VOCABULARY.encode(prompt) if ids else None

    def role(self, index: int, usage: Usage | None) -> list[str]:
        return []

    def delta(self, index: int, step: Step, usage: Usage | None) -> list[str]:
        return [self._text(index, step, None, usage)]

    def finish(self, index: int, step: Step, reason: str, usage: Usage | None) -> list[str]:
        return [self._text(index, step, reason, usage)]

    def usage(self, usage: Usage) -> list[str]:
        told = {name: value for name, value in self._usage(usage).items() if value is not None}
        return [dumps({**self._head(), "choices": [], "usage": told})]

    def whole(self, choices: list[Choice], usage: Usage) -> dict[str, Any]:
        return {
            **self._head(),
            "choices": [
                {
                    "index": choice.index,
                    "text": choice.said.text("answer"),
                    "logprobs": None,
                    "finish_reason": choice.reason,
                    "matched_stop": EOS if choice.reason == "stop" else None,
                }
                for choice in choices
            ],
            "usage": self._usage(usage),
            "metadata": {"weight_version": "default"},
        }

    def _head(self) -> dict[str, Any]:
        return {"id": self.name, "object": "text_completion", "created": self.created, "model": self.model}

    def _text(self, index: int, step: Step, reason: str | None, usage: Usage | None) -> str:
        choice: dict[str, Any] = {
            "index": index,
            "text": step.text("answer"),
            "logprobs": None,
            "finish_reason": reason,
            "matched_stop": EOS if reason == "stop" else None,
        }
        if self.ids:
            choice["token_ids"] = step.ids
            if self._prompt_ids is not None:
                choice["prompt_token_ids"], self._prompt_ids = self._prompt_ids, None
        return dumps({**self._head(), "choices": [choice], "usage": self._usage(usage) if usage else None})
