"""A double of llama.cpp's server: one-model, four slots, thoughts split by the template, continuation by field name."""

from __future__ import annotations

import secrets
from time import time
from typing import Any, ClassVar, Final

from tests.doubles.engine import Double, Handler, Refused, answer_json, dumps
from tests.doubles.exchange import Exchange
from tests.doubles.mind import HEAD, OPEN, VOCABULARY, Turn, render, text_of, turn_of_prompt
from tests.doubles.request import (
    chat_turn,
    choose_script,
    last_user,
    limit_of,
    read_body,
    stream_wish,
    thinking_wanted,
)
from tests.doubles.server import Wire
from tests.doubles.speech import Job, Voice, speak
from tests.doubles.steps import Plan
from tests.doubles.voice_llama import ChatVoice, TextVoice

TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    503: "unavailable_error",
}


class LlamaDouble(Double):
    """Its template opens the thought itself, as the embedded engine's does, unless thinking is switched off."""

    kind: ClassVar[str] = "llamacpp"
    foreign: ClassVar[frozenset[str]] = frozenset({"thinking_token_budget", "custom_params", "return_token_ids"})

    def __init__(self, model: str = "double", *, slots: int = 4, **more: Any) -> None:
        super().__init__(model, **{"opens": True, **more})
        self.slots = slots

    def routes(self) -> dict[tuple[str, str], Handler]:
        return {
            ("GET", "/health"): self._health,
            ("GET", "/v1/health"): self._health,
            ("GET", "/v1/models"): self._models,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/props"): self._props,
            ("GET", "/slots"): self._slots,
            ("POST", "/v1/chat/completions"): self._chat,
            ("POST", "/v1/completions"): self._completions,
            ("POST", "/apply-template"): self._apply_template,
            ("POST", "/tokenize"): self._tokenize,
            ("POST", "/detokenize"): self._detokenize,
        }

    def headers(self) -> tuple[tuple[str, str], ...]:
        return (("Server", "llama.cpp"), ("Access-Control-Allow-Origin", ""))

    def error_body(self, refused: Refused) -> bytes:
        message = {401: "Invalid API Key", 404: "File Not Found"}.get(refused.status, refused.message)
        kind = refused.kind if refused.kind.endswith("_error") else TYPES.get(refused.status, "server_error")
        more = {name: value for name, value in refused.more.items() if name != "retry_after"}
        return dumps({"error": {"code": refused.status, "message": message, "type": kind, **more}}).encode()

    # Generation

    async def _chat(self, exchange: Exchange, wire: Wire) -> None:
        body = read_body(self, exchange, chat=True, foreign=self.foreign)
        turn = self._turn(body)
        timings = bool(body.get("timings_per_token"))
        voice = ChatVoice(self._name(), body.get("model") or self.model, timings=timings)
        await self._speak(exchange, wire, body, turn, voice, split=True)

    def _turn(self, body: dict[str, Any]) -> Turn:
        messages, last = body["messages"], body["messages"][-1]
        where = body.get("continue_final_message", False)
        if last.get("role") != "assistant":
            if where:
                self.violate("continue-flags", "continue_final_message without a last assistant message")
            return chat_turn(messages, thinking=thinking_wanted(body), opens=self.opens)
        starts_anew = body.get("add_generation_prompt", True)
        if where not in ("content", "reasoning_content") or starts_anew is not False:
            self.violate("continue-flags", f"{where!r} with add_generation_prompt={starts_anew!r}")
        if OPEN in text_of(last):
            self.violate("double-thought", "this template puts an empty thought before one written into content")
        turn = chat_turn(messages[:-1], thinking=thinking_wanted(body), opens=False)
        turn.user = last_user(messages)
        turn.thought = last.get("reasoning_content") or ""
        turn.answer = text_of(last)
        turn.opened = True
        turn.closed = where != "reasoning_content"
        turn.prompt_tokens += len(VOCABULARY.encode(turn.thought + turn.answer))
        return turn

    async def _completions(self, exchange: Exchange, wire: Wire) -> None:
        body = read_body(self, exchange, chat=False, foreign=self.foreign)
        prompt = body.get("prompt")
        if isinstance(prompt, list):
            prompt = VOCABULARY.decode(prompt)
        if not isinstance(prompt, str):
            raise Refused(400, '"prompt" is required')
        voice = TextVoice(self._name(), body.get("model") or self.model)
        await self._speak(exchange, wire, body, turn_of_prompt(prompt), voice, split=False)

    async def _speak(
        self, exchange: Exchange, wire: Wire, body: dict[str, Any], turn: Turn, voice: Voice, *, split: bool
    ) -> None:
        if turn.prompt_tokens >= self.context:
            message = (
                f"request ({turn.prompt_tokens} tokens) exceeds the available context size ({self.context} tokens), "
                "try increasing it"
            )
            numbers: dict[str, Any] = {"n_prompt_tokens": turn.prompt_tokens, "n_ctx": self.context}
            raise Refused(400, message, kind="exceed_context_size_error", **numbers)
        script = choose_script(self, turn)
        stream, usage, _ = stream_wish(body)
        plan = Plan(
            script=script,
            turn=turn,
            split=split if script.format == "auto" else script.format == "split",
            seam=voice.seam,
            tools=bool(body.get("tools")) and "messages" in body,
            max_tokens=limit_of(body),
        )
        throughout = not usage or bool(body.get("timings_per_token"))
        job = Job(exchange, wire, voice, plan, stream, usage, told_throughout=throughout, n=body.get("n") or 1)
        await speak(self, job)

    def _name(self) -> str:
        return f"chatcmpl-{secrets.token_hex(16)}"

    # The rest

    async def _health(self, exchange: Exchange, wire: Wire) -> None:
        loading = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
        await answer_json(wire, {"status": "ok"} if self.health == 200 else loading, self.health)

    async def _models(self, exchange: Exchange, wire: Wire) -> None:
        meta = {"vocab_type": 2, "n_vocab": 49_216, "n_ctx_train": self.context, "n_embd": 576}
        card = {"id": self.model, "object": "model", "created": int(time()), "owned_by": "llamacpp", "meta": meta}
        await answer_json(wire, {"object": "list", "data": [card]})

    async def _metrics(self, exchange: Exchange, wire: Wire) -> None:
        lines = [
            f"llamacpp:tokens_predicted_total {self.generated}",
            f"llamacpp:requests_processing {len(self.active)}",
            f"llamacpp:requests_deferred {max(0, len(self.active) - self.slots)}",
        ]
        await wire.answer(200, "\n".join([*lines, ""]).encode(), kind="text/plain; version=0.0.4")

    async def _props(self, exchange: Exchange, wire: Wire) -> None:
        await answer_json(
            wire,
            {
                "default_generation_settings": {"params": {}, "n_ctx": self.context},
                "total_slots": self.slots,
                "model_alias": self.model,
                "model_path": f"models/{self.model}.gguf",
                "modalities": {"vision": False, "video": False, "audio": False},
                "endpoint_slots": True,
                "endpoint_props": True,
                "endpoint_metrics": True,
                "chat_template": "{{ messages }} enable_thinking <think>",
                "bos_token": "",
                "eos_token": "<|im_end|>",
                "build_info": "b0-unknown",
                "is_sleeping": False,
            },
        )

    async def _slots(self, exchange: Exchange, wire: Wire) -> None:
        busy = self.running
        await answer_json(
            wire,
            [
                {"id": i, "n_ctx": self.context, "is_processing": i < busy, "id_task": i if i < busy else -1}
                for i in range(self.slots)
            ],
        )

    async def _apply_template(self, exchange: Exchange, wire: Wire) -> None:
        body = exchange.json
        messages, last = body["messages"], body["messages"][-1]
        where = body.get("continue_final_message")
        if last.get("role") == "assistant" and where:
            thought, answer = last.get("reasoning_content") or "", text_of(last)
            tail = f"{HEAD}assistant\n{OPEN}\n{thought}"
            tail += f"\n</think>\n\n{answer}" if where == "content" else ""
            prompt = render(messages[:-1], thinking=True, opens=True, generation=False) + tail
        else:
            prompt = render(messages, thinking=thinking_wanted(body), opens=self.opens)
        await answer_json(wire, {"prompt": prompt})

    async def _tokenize(self, exchange: Exchange, wire: Wire) -> None:
        await answer_json(wire, {"tokens": VOCABULARY.encode(exchange.json.get("content", ""))})

    async def _detokenize(self, exchange: Exchange, wire: Wire) -> None:
        await answer_json(wire, {"content": VOCABULARY.decode(exchange.json["tokens"])})
