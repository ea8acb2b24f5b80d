"""A double of SGLang 0.5.23: late headers, flat errors, unknown fields ignored, budgets kept only in strict mode."""

from __future__ import annotations

from itertools import count
from time import time
from typing import Any, ClassVar, Final

from tests.doubles.engine import Double, Handler, Refused, answer_json, dumps
from tests.doubles.exchange import Exchange
from tests.doubles.mind import CLOSE, VOCABULARY, Turn, render, turn_of_prompt
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
from tests.doubles.voice_sglang import ChatVoice, TextVoice

ERROR_TYPES: Final = {"json": "Bad Request", "messages": "BadRequestError"}


class SglangDouble(Double):
    """`parser`: started with --reasoning-parser. `strict`: with --enable-strict-thinking, so budgets hold."""

    kind: ClassVar[str] = "sglang"
    mode: ClassVar[str] = "null"
    """--disaggregation-mode."""
    foreign: ClassVar[frozenset[str]] = frozenset(
        {"thinking_token_budget", "thinking_budget_tokens", "add_generation_prompt", "include_reasoning"}
    )

    def __init__(self, model: str = "double", *, parser: bool = True, strict: bool = False, **more: Any) -> None:
        super().__init__(model, **more)
        self.parser = parser
        self.strict = strict
        self.takes_ids = True
        """Its chat route knows `input_ids`; without, it ignores them."""
        self._names = count(1)

    def routes(self) -> dict[tuple[str, str], Handler]:
        return {
            ("GET", "/health"): self._health,
            ("GET", "/health_generate"): self._health,
            ("GET", "/ready"): self._health,
            ("GET", "/v1/models"): self._models,
            ("GET", "/model_info"): self._model_info,
            ("GET", "/server_info"): self._server_info,
            ("GET", "/v1/loads"): self._loads,
            ("GET", "/metrics"): self._metrics,
            ("POST", "/v1/chat/completions"): self._chat,
            ("POST", "/v1/completions"): self._completions,
            ("POST", "/tokenize"): self._tokenize,
            ("POST", "/v1/tokenize"): self._tokenize,
            ("POST", "/detokenize"): self._detokenize,
            ("POST", "/v1/detokenize"): self._detokenize,
            ("POST", "/abort_request"): self._abort,
        }

    def headers(self) -> tuple[tuple[str, str], ...]:
        return (("date", "Sun, 29 Nov 2026 16:08:20 GMT"), ("server", "uvicorn"))

    def error_body(self, refused: Refused) -> bytes:
        if refused.kind == "route":
            return dumps({"detail": refused.message}).encode()
        if refused.status == 401:
            return dumps({"error": "Unauthorized"}).encode()
        kind = ERROR_TYPES.get(refused.kind) or refused.kind
        kind = kind or ("BadRequestError" if refused.status < 500 else str(refused.status))
        flat = {"object": "error", "message": refused.message, "type": kind, "param": refused.param}
        return dumps({**flat, "code": refused.status}).encode()

    # Generation

    async def _chat(self, exchange: Exchange, wire: Wire) -> None:
        body = self._read(exchange, chat=True)
        if body.get("return_token_ids") and body.get("stream"):
            raise Refused(400, "return_token_ids is not supported with stream=true", kind="BadRequest")
        thinking = thinking_wanted(body)
        turn = self._chat_turn(body, thinking)
        name = body.get("rid") or f"{next(self._names):032x}"
        voice = ChatVoice(name, body.get("model") or "default", parser=self.parser)
        await self._speak(exchange, wire, body, turn, voice, split=self.parser)

    def _chat_turn(self, body: dict[str, Any], thinking: bool) -> Turn:
        messages, last = body["messages"], body["messages"][-1]
        continues = bool(body.get("continue_final_message"))
        prefix = ""
        if continues:
            if last.get("role") != "assistant" or not isinstance(last.get("content"), str):
                self.violate("continue-flags", "continue_final_message needs a last assistant message with text")
                raise Refused(400, "The last message must be from the assistant", kind="BadRequest")
            if last.get("reasoning_content"):
                self.violate("lost-thought", "reasoning_content of a continued message is dropped here")
            prefix, messages = last["content"], messages[:-1]
        elif last.get("role") == "assistant":
            self.violate("continue-flags", "a last assistant message becomes a user message here")
        if self.takes_ids and isinstance(body.get("input_ids"), list):
            turn = turn_of_prompt(VOCABULARY.decode(body["input_ids"]))
        elif continues:
            turn = turn_of_prompt(render(messages, thinking=thinking, opens=self.opens) + prefix)
        else:
            return chat_turn(messages, thinking=thinking, opens=self.opens)
        turn.user = last_user(body["messages"])
        if self.parser and turn.closed and thinking and CLOSE not in prefix:
            self.violate("misfiled", "past the thought with thinking on: the parser files the answer as reasoning")
        return turn

    async def _completions(self, exchange: Exchange, wire: Wire) -> None:
        body = self._read(exchange, chat=False)
        prompt = body.get("prompt")
        if isinstance(prompt, list):
            prompt = VOCABULARY.decode(prompt)
        if not isinstance(prompt, str) or not prompt:
            raise Refused(400, "Prompt cannot be empty")
        name = body.get("rid") or f"{next(self._names):032x}"
        voice = TextVoice(name, body.get("model") or "default", ids=bool(body.get("return_token_ids")), prompt=prompt)
        await self._speak(exchange, wire, body, turn_of_prompt(prompt), voice, split=False)

    async def _speak(
        self, exchange: Exchange, wire: Wire, body: dict[str, Any], turn: Turn, voice: Voice, *, split: bool
    ) -> None:
        script = choose_script(self, turn)
        stream, usage, continuous = stream_wish(body)
        custom = body.get("custom_params")
        asked = custom.get("thinking_budget") if isinstance(custom, dict) else None
        turn.opened = turn.opened or script.format == "raw_open"
        plan = Plan(
            script=script,
            turn=turn,
            split=split if script.format == "auto" else script.format == "split",
            seam=voice.seam,
            budget=asked if self.strict and turn.thinking and split else None,
            tools=bool(body.get("tools")) and "messages" in body,
            max_tokens=limit_of(body) or None,
        )
        job = Job(exchange, wire, voice, plan, stream, usage, continuous, n=body.get("n") or 1)
        await speak(self, self.job(job, body))

    def job(self, job: Job, body: dict[str, Any]) -> Job:
        """What a subclass makes of a generation."""
        return job

    def _read(self, exchange: Exchange, *, chat: bool) -> dict[str, Any]:
        if not exchange.headers.get("content-type", "").startswith("application/json"):
            raise Refused(400, "Unsupported Media Type: Only 'application/json' is allowed", kind="json")
        body = read_body(self, exchange, chat=chat, foreign=self.foreign)
        model = body.get("model") or ""
        if ":" in model and model != self.model:
            adapter = model.partition(":")[2]
            raise Refused(400, f"LoRA adapter '{adapter}' was requested, but LoRA is not enabled")
        if body.get("temperature") is not None and not isinstance(body["temperature"], int | float):
            raise Refused(400, "temperature: Input should be a valid number", kind="json")
        return body

    # The rest

    async def _health(self, exchange: Exchange, wire: Wire) -> None:
        await wire.answer(self.health, b"")

    async def _models(self, exchange: Exchange, wire: Wire) -> None:
        card = {"id": self.model, "object": "model", "created": int(time()), "owned_by": "sglang", "root": self.model}
        data = [{**card, "parent": None, "max_model_len": self.context}]
        await answer_json(wire, {"object": "list", "data": data})

    async def _model_info(self, exchange: Exchange, wire: Wire) -> None:
        parser = "qwen3" if self.parser else None
        await answer_json(
            wire,
            {
                "model_path": self.model,
                "served_model_name": self.model,
                "is_generation": True,
                "reasoning_parser": parser,
                "tool_call_parser": None,
                "disaggregation_mode": self.mode,
            },
        )

    async def _server_info(self, exchange: Exchange, wire: Wire) -> None:
        await answer_json(
            wire,
            {
                "served_model_name": self.model,
                "context_length": self.context,
                "page_size": 1,
                "reasoning_parser": "qwen3" if self.parser else None,
                "enable_strict_thinking": self.strict,
                "enable_custom_logit_processor": False,
                "grammar_backend": "xgrammar",
                "max_total_num_tokens": self.context * 8,
                "max_req_input_len": self.context - 6,
                "status": "ready",
                "version": "0.5.23",
                "frontend": "python",
            },
        )

    async def _loads(self, exchange: Exchange, wire: Wire) -> None:
        load = {
            "dp_rank": 0,
            "num_running_reqs": self.running,
            "num_waiting_reqs": 0,
            "num_used_tokens": 0,
            "max_total_num_tokens": self.context * 8,
            "token_usage": 0.0,
        }
        await answer_json(wire, {"timestamp": "2026-11-29T16:08:20Z", "version": "0.5.23", "loads": [load]})

    async def _metrics(self, exchange: Exchange, wire: Wire) -> None:
        labels = f'{{model_name="{self.model}",engine_type="unified",tp_rank="0",pp_rank="0"}}'
        lines = [
            f"sglang:num_running_reqs{labels} {len(self.active)}.0",
            f"sglang:num_queue_reqs{labels} 0.0",
            f"sglang:token_usage{labels} {min(1.0, len(self.active) / 100)}",
            f"sglang:num_used_tokens{labels} 0.0",
            f"sglang:max_total_num_tokens{labels} {self.context * 8}.0",
            f"sglang:generation_tokens_total{labels} {self.generated}.0",
            f"sglang:num_aborted_requests_total{labels} {len(self.aborted)}.0",
        ]
        await wire.answer(200, "\n".join([*lines, ""]).encode(), kind="text/plain; version=0.0.4; charset=utf-8")

    async def _tokenize(self, exchange: Exchange, wire: Wire) -> None:
        body = exchange.json
        if "messages" in body:
            text = render(body["messages"], thinking=thinking_wanted(body), opens=self.opens)
        else:
            text = body["prompt"]
        ids = VOCABULARY.encode(text)
        await answer_json(wire, {"tokens": ids, "count": len(ids), "max_model_len": 131_072})

    async def _detokenize(self, exchange: Exchange, wire: Wire) -> None:
        await answer_json(wire, {"text": VOCABULARY.decode(exchange.json["tokens"])})

    async def _abort(self, exchange: Exchange, wire: Wire) -> None:
        await wire.answer(200, b"")
