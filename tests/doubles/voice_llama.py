"""llama-server's events and bodies, key by key and in its order."""

from __future__ import annotations

from time import time
from typing import Any

from tests.doubles.engine import dumps
from tests.doubles.speech import Usage
from tests.doubles.steps import Choice, Side, Step, call_deltas

FINGERPRINT = "b0-unknown"
STREAM_HEAD = (("X-Accel-Buffering", "no"), ("Keep-Alive", "timeout=5, max=100"))


class ChatVoice:
    """/v1/chat/completions: role with `content: null`, one delta a token, an empty delta with the finish reason."""

    media_type = "text/event-stream"
    head = STREAM_HEAD
    late = False
    seam: tuple[str, str] = ("\n", "")
    done_after_error = False
    usage_after_error = False

    def __init__(self, name: str, model: str, *, timings: bool = False) -> None:
        self.name, self.model, self.timings = name, model, timings
        self.created = int(time())

    def role(self, index: int, usage: Usage | None) -> list[str]:
        return [self._chunk([_choice(index, {"role": "assistant", "content": None})])]

    def delta(self, index: int, step: Step, usage: Usage | None) -> list[str]:
        more: dict[str, Any] = {"timings": _timings(usage)} if usage and self.timings else {}
        deltas = [{_field(side): text} for side, text in step.parts] + call_deltas(step)
        return [self._chunk([_choice(index, delta)], **more) for delta in deltas]

    def finish(self, index: int, step: Step, reason: str, usage: Usage | None) -> list[str]:
        more: dict[str, Any] = {"timings": _timings(usage)} if usage else {}
        return [*self.delta(index, step, usage), self._chunk([_choice(index, {}, reason)], **more)]

    def usage(self, usage: Usage) -> list[str]:
        return [self._chunk([], usage=_usage(usage), timings=_timings(usage))]

    def error(self, code: int, message: str) -> str:
        return dumps({"error": {"code": code, "message": message, "type": "server_error"}})

    def whole(self, choices: list[Choice], usage: Usage) -> dict[str, Any]:
        return self._body("chat.completion", [_whole(choice) for choice in choices], usage)

    def _body(self, kind: str, choices: list[dict[str, Any]], usage: Usage) -> dict[str, Any]:
        return {
            "choices": choices,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
            "object": kind,
            "usage": _usage(usage),
            "id": self.name,
            "timings": _timings(usage),
        }

    def _chunk(self, choices: list[dict[str, Any]], kind: str = "chat.completion.chunk", **more: Any) -> str:
        head = {"choices": choices, "created": self.created, "id": self.name, "model": self.model}
        return dumps({**head, "system_fingerprint": FINGERPRINT, "object": kind, **more})


class TextVoice(ChatVoice):
    """/v1/completions: raw text."""

    def role(self, index: int, usage: Usage | None) -> list[str]:
        return []

    def delta(self, index: int, step: Step, usage: Usage | None) -> list[str]:
        return [self._chunk([_text(index, step.text("answer"))], "text_completion")] if step.parts else []

    def finish(self, index: int, step: Step, reason: str, usage: Usage | None) -> list[str]:
        return [*self.delta(index, step, usage), self._chunk([_text(index, "", reason)], "text_completion")]

    def usage(self, usage: Usage) -> list[str]:
        return [self._chunk([], "text_completion", usage=_usage(usage), timings=_timings(usage))]

    def whole(self, choices: list[Choice], usage: Usage) -> dict[str, Any]:
        texts = [_text(choice.index, choice.said.text("answer"), choice.reason) for choice in choices]
        return self._body("text_completion", texts, usage)


def _field(side: Side) -> str:
    return "reasoning_content" if side == "think" else "content"


def _choice(index: int, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"finish_reason": reason, "index": index, "delta": delta}


def _text(index: int, text: str, reason: str | None = None) -> dict[str, Any]:
    return {"text": text, "index": index, "logprobs": None, "finish_reason": reason}


def _whole(choice: Choice) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": choice.said.text("answer")}
    if thought := choice.said.text("think"):
        message["reasoning_content"] = thought
    return {"finish_reason": choice.reason, "index": choice.index, "message": message}


def _usage(usage: Usage) -> dict[str, Any]:
    """No word about reasoning tokens: this engine does not count them."""
    return {
        "completion_tokens": usage.completion,
        "prompt_tokens": usage.prompt,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def _timings(usage: Usage) -> dict[str, Any]:
    return {
        "cache_n": 0,
        "prompt_n": usage.prompt,
        "prompt_ms": 1.5,
        "prompt_per_token_ms": 0.1,
        "prompt_per_second": 10_000.0,
        "predicted_n": usage.completion,
        "predicted_ms": 2.5,
        "predicted_per_token_ms": 0.1,
        "predicted_per_second": 10_000.0,
    }
