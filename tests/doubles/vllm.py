"""A double of vLLM 0.32: one process, one model, with or without a reasoning parser."""

from __future__ import annotations

from hashlib import blake2b
from itertools import count
from time import time
from typing import Any, ClassVar, Final

from tests.doubles.engine import Double, Handler, Refused, answer_json, dumps
from tests.doubles.exchange import Exchange
from tests.doubles.mind import CLOSE, HEAD, VOCABULARY, Turn, read_prefix, render, text_of, turn_of_prompt
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
from tests.doubles.voice_vllm import ChatVoice, TextVoice, error_object

NO_BUDGET: Final = (
    "thinking_token_budget is set but reasoning_config is not configured. Please set --reasoning-parser and/or "
    "--reasoning-config to use thinking_token_budget."
)
NOT_COMPATIBLE: Final = (
    "continue_final_message and add_generation_prompt are not compatible. Use continue_final_message when you want "
    "the model to continue the final message, and add_generation_prompt when you want to add a header that will prompt "
    "it to start a new assistant message instead."
)
NOT_THERE: Final = (
    "continue_final_message is set but the final message does not appear in the chat after applying the chat template!"
)
EFFORTS: Final = frozenset(["none", "minimal", "low", "medium", "high", "xhigh", "max"])


class VllmDouble(Double):
    """`parser`: started with --reasoning-parser. `overruns`: takes a thinking budget and does not keep to it. `drops`:
    its template drops the thought of an assistant's message, as DeepSeek-R1's does. `misfiles`: its parser calls a
    continued answer thought."""

    kind: ClassVar[str] = "vllm"
    foreign: ClassVar[frozenset[str]] = frozenset({"thinking_budget_tokens", "custom_params"})

    def __init__(
        self,
        model: str = "double",
        *,
        parser: bool = True,
        overruns: bool = False,
        drops: bool = False,
        misfiles: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(model, **more)
        self.parser = parser
        self.overruns = overruns
        self.drops = drops
        self.misfiles = misfiles
        self.version = "0.32.0"
        self.block = 16
        """Tokens of a KV block."""
        self.began = 1_795_968_000.25
        """When its process started."""
        self._names = count(1)

    def routes(self) -> dict[tuple[str, str], Handler]:
        return {
            ("GET", "/health"): self._health,
            ("GET", "/ping"): self._health,
            ("GET", "/version"): self._version,
            ("GET", "/v1/models"): self._models,
            ("GET", "/metrics"): self._metrics,
            ("POST", "/v1/chat/completions"): self._chat,
            ("POST", "/v1/completions"): self._completions,
            ("POST", "/v1/embeddings"): self._embeddings,
            ("POST", "/tokenize"): self._tokenize,
            ("POST", "/detokenize"): self._detokenize,
        }

    def headers(self) -> tuple[tuple[str, str], ...]:
        return (("date", "Sun, 29 Nov 2026 16:08:20 GMT"), ("server", "uvicorn"), ("vary", "Origin"))

    def error_body(self, refused: Refused) -> bytes:
        if refused.kind == "route":
            return dumps({"detail": refused.message}).encode()
        if refused.status == 401:
            return dumps({"error": "Unauthorized"}).encode()
        kind = "Bad Request" if refused.kind in {"json", "messages"} else refused.kind or None
        param = "body.messages" if refused.kind == "messages" else refused.param
        return dumps({"error": error_object(refused.status, refused.message, kind, param)}).encode()

    # Generation

    async def _chat(self, exchange: Exchange, wire: Wire) -> None:
        body = read_body(self, exchange, chat=True, foreign=self.foreign)
        self._check_common(body)
        thinking = thinking_wanted(body)
        turn = self._chat_turn(body, thinking)
        prompt_ids = VOCABULARY.encode(render(body["messages"], thinking=thinking, opens=self.opens))
        voice = ChatVoice(
            self._name(exchange),
            body.get("model") or self.model,
            parser=self.parser,
            ids=bool(body.get("return_token_ids")),
            prompt_ids=prompt_ids,
            misfiles=self.misfiles and turn.closed,
        )
        await self._speak(exchange, wire, body, turn, voice, split=self.parser)

    def _chat_turn(self, body: dict[str, Any], thinking: bool) -> Turn:
        messages = body["messages"]
        continues, generation = body.get("continue_final_message", False), body.get("add_generation_prompt", True)
        if continues and generation:
            self.violate("continue-flags", "continue_final_message without add_generation_prompt:false")
            raise Refused(400, NOT_COMPATIBLE)
        last = messages[-1]
        if not continues:
            if last.get("role") == "assistant":
                self.violate("continue-flags", "an assistant message last, and no continue_final_message")
            return chat_turn(messages, thinking=thinking, opens=self.opens)
        if last.get("role") != "assistant":
            self.violate("continue-flags", "continue_final_message after a message that is not the assistant's")
        if self.drops and CLOSE in text_of(last):
            self.violate("lost-thought", "this template drops the thought of a continued message")
            raise Refused(400, NOT_THERE)
        turn = chat_turn(messages[:-1], thinking=thinking, opens=False)
        turn.user = last_user(messages)
        read_prefix(turn, text_of(last))
        turn.prompt_tokens += len(VOCABULARY.encode(text_of(last)))
        return turn

    async def _completions(self, exchange: Exchange, wire: Wire) -> None:
        body = read_body(self, exchange, chat=False, foreign=self.foreign)
        self._check_common(body)
        prompt = body.get("prompt")
        if isinstance(prompt, list):
            try:
                prompt = VOCABULARY.decode(prompt)
            except (KeyError, TypeError):
                self.violate("unknown-ids", "the prompt holds token ids this model never gave out")
                raise Refused(400, "Token id is out of vocabulary", param="prompt") from None
        if not isinstance(prompt, str) or not prompt:
            raise Refused(400, "prompt must be text or token ids", param="prompt")
        turn = turn_of_prompt(prompt)
        ids = bool(body.get("return_token_ids"))
        name, model = self._name(exchange), body.get("model") or self.model
        voice = TextVoice(name, model, ids=ids, prompt_ids=VOCABULARY.encode(prompt))
        await self._speak(exchange, wire, body, turn, voice, split=False)

    async def _speak(
        self, exchange: Exchange, wire: Wire, body: dict[str, Any], turn: Turn, voice: Voice, *, split: bool
    ) -> None:
        script = choose_script(self, turn)
        stream, usage, continuous = stream_wish(body)
        budget = body.get("thinking_token_budget")
        if budget is not None and budget != -1 and not self.parser:
            if stream:
                wire.start(voice.media_type)
                await wire.send(f"data: {voice.error(400, NO_BUDGET)}\n\ndata: [DONE]\n\n".encode())
                await wire.finish()
                return
            raise Refused(400, NO_BUDGET)
        turn.opened = turn.opened or script.format == "raw_open"
        plan = Plan(
            script=script,
            turn=turn,
            split=split if script.format == "auto" else script.format == "split",
            seam=voice.seam,
            budget=None if self.overruns or budget == -1 else budget,
            tools=bool(body.get("tools")) and "messages" in body,
            max_tokens=limit_of(body),
        )
        job = Job(exchange, wire, voice, plan, stream, usage, continuous, n=body.get("n") or 1)
        await speak(self, job)

    def _check_common(self, body: dict[str, Any]) -> None:
        model = body.get("model")
        if model and model != self.model:
            raise Refused(404, f"The model `{model}` does not exist. Valid aliases: {self.model}.", param="model")
        if (limit := limit_of(body)) is not None and limit < 1:
            raise Refused(
                400,
                f"max_tokens must be at least 1, got {limit}. (parameter=max_tokens, value={limit})",
                param="max_tokens",
            )
        if limit is not None and limit > self.context:
            message = (
                f"max_tokens={limit} cannot be greater than max_model_len={self.context}. Please request fewer output "
                f"tokens. (parameter=max_tokens, value={limit})"
            )
            raise Refused(400, message, param="max_tokens")
        if "stream_options" in body and not body.get("stream"):
            message = "Stream options can only be defined when `stream=True`. (parameter=stream_options)"
            raise Refused(400, message, param="stream_options")
        if body.get("temperature") is not None and not isinstance(body["temperature"], int | float):
            raise Refused(400, "Input should be a valid number", kind="Bad Request", param="body.temperature")
        budget = body.get("thinking_token_budget")
        if budget is not None and (not isinstance(budget, int) or isinstance(budget, bool) or budget < -1):
            raise Refused(400, f"thinking_token_budget {budget!r}", param="thinking_token_budget")
        if body.get("reasoning_effort") is not None and body["reasoning_effort"] not in EFFORTS:
            raise Refused(400, "reasoning_effort", kind="Bad Request", param="body.reasoning_effort")

    def _name(self, exchange: Exchange) -> str:
        return exchange.request_id or blake2b(str(next(self._names)).encode(), digest_size=8).hexdigest()

    # The rest

    async def _health(self, exchange: Exchange, wire: Wire) -> None:
        await wire.answer(self.health, b"")

    async def _version(self, exchange: Exchange, wire: Wire) -> None:
        await answer_json(wire, {"version": self.version})

    async def _models(self, exchange: Exchange, wire: Wire) -> None:
        card = {"id": self.model, "object": "model", "created": int(time()), "owned_by": "vllm", "root": self.model}
        await answer_json(
            wire,
            {"object": "list", "data": [{**card, "parent": None, "max_model_len": self.context, "permission": []}]},
        )

    async def _metrics(self, exchange: Exchange, wire: Wire) -> None:
        labels = f'engine="0",model_name="{self.model}"'
        cache = f'block_size="{self.block}",kv_cache_size_tokens="{self.context * 8}"'
        lines = [
            f"process_start_time_seconds {self.began}",
            f"vllm:num_requests_running{{{labels}}} {self.running}.0",
            f"vllm:num_requests_waiting{{{labels}}} 0.0",
            f"vllm:kv_cache_usage_perc{{{labels}}} {self.kv_usage}",
            f"vllm:num_preemptions_total{{{labels}}} 0.0",
            f"vllm:generation_tokens_total{{{labels}}} {self.generated}.0",
            f"vllm:request_queue_time_seconds_sum{{{labels}}} 0.0",
            f"vllm:request_prefill_time_seconds_sum{{{labels}}} {self.seconds_worked / 4}",
            f"vllm:request_decode_time_seconds_sum{{{labels}}} {self.seconds_worked * 3 / 4}",
            f"vllm:cache_config_info{{{cache},{labels}}} 1.0",
            *(
                f'vllm:request_success_total{{engine="0",finished_reason="{reason}",model_name="{self.model}"}} {n}.0'
                for reason, n in self.finished.items()
            ),
        ]
        lines += [f"{name}{{{labels}{more}}} {float(value)}" for name, more, value in self.gauges()]
        await wire.answer(200, "\n".join([*lines, ""]).encode(), kind="text/plain; version=1.0.0; charset=utf-8")

    def gauges(self) -> list[tuple[str, str, float]]:
        """More samples: name, labels after the usual ones (with a leading comma), value."""
        return []

    @property
    def kv_usage(self) -> float:
        return min(1.0, len(self.active) / 100)

    async def _embeddings(self, exchange: Exchange, wire: Wire) -> None:
        body = exchange.json
        inputs = body["input"] if isinstance(body.get("input"), list) else [body.get("input")]
        vectors = [[byte / 255 for byte in blake2b(str(text).encode(), digest_size=8).digest()] for text in inputs]
        data = [{"index": i, "object": "embedding", "embedding": vector} for i, vector in enumerate(vectors)]
        spent = sum(len(VOCABULARY.encode(str(text))) for text in inputs)
        usage = {"prompt_tokens": spent, "total_tokens": spent, "completion_tokens": 0, "prompt_tokens_details": None}
        head = {"id": f"embd-{self._name(exchange)}", "object": "list", "created": int(time()), "model": self.model}
        await answer_json(wire, {**head, "data": data, "usage": usage})

    async def _tokenize(self, exchange: Exchange, wire: Wire) -> None:
        body = exchange.json
        if body.get("continue_final_message"):
            begun = text_of(body["messages"][-1])
            if self.drops and CLOSE in begun:
                raise Refused(400, NOT_THERE)
            before = render(body["messages"][:-1], thinking=True, opens=False, generation=False)
            text = f"{before}{HEAD}assistant\n{begun}"
        elif "messages" in body:
            text = render(
                body["messages"],
                thinking=thinking_wanted(body),
                opens=self.opens,
                generation=body.get("add_generation_prompt", True),
            )
        else:
            text = body["prompt"]
        ids = VOCABULARY.encode(text)
        texts = [VOCABULARY.decode([number]) for number in ids] if body.get("return_token_strs") else None
        answer = {"count": len(ids), "max_model_len": self.context, "tokens": ids, "token_strs": texts}
        await answer_json(wire, answer)

    async def _detokenize(self, exchange: Exchange, wire: Wire) -> None:
        await answer_json(wire, {"prompt": VOCABULARY.decode(exchange.json["tokens"])})
