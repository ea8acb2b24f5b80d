"""Continuing a cut thought by token ids: the way that no chat template can spoil.

vLLM and SGLang both answer `/tokenize` for messages (the ids their chat route would have rendered) and for text, and
both take ids as the `prompt` of `/v1/completions`. Templates that drop, double or strip a thought in a last assistant
message never come into play. The price: no tool parser on that route, no images (ids hold only placeholders), and
log probabilities in another shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from gateway.engines.base import Call, Prefix, Profile
from gateway.engines.capabilities import Ask, Continues, fields_of
from parsers import Start

COMPLETIONS_PATH = "/v1/completions"
TOKENIZE_PATH = "/tokenize"

_SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "bad_words",
    "allowed_token_ids",
    "repetition_detection",
    "vllm_xargs",
    "custom_params",
    "stop",
    "stop_token_ids",
    "stop_regex",
    "include_stop_str_in_output",
    "no_stop_trim",
    "ignore_eos",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "return_token_ids",
    "stream_interval",
    "user",
    # Grammars bind the answer alone, on both routes: the prompt has left the thought behind.
    "response_format",
    "structured_outputs",
    "regex",
    "ebnf",
)
"""Chat fields that mean the same on /v1/completions; what only one of the engines knows, the other ignores."""

_CHAT_ONLY = ("tools", "functions", "logprobs", "documents", "continue_final_message", "truncate_prompt_tokens")
"""Chat fields that a prompt of ids cannot honour, or that make the prompt another one than /tokenize renders."""


async def continues_by_ids(ask: Ask, model: str) -> Continues:
    """Does the worker tokenize?"""
    told = fields_of(*await ask("POST", TOKENIZE_PATH, {"model": model, "prompt": "Hi", "add_special_tokens": False}))
    return Continues.IDS if isinstance(told.get("tokens"), list) else Continues.NOT


def is_plain_text(body: Mapping[str, Any]) -> bool:
    """No tools, no log probabilities, no images, one choice: what a prompt of ids can carry."""
    if any(body.get(name) for name in _CHAT_ONLY) or (body.get("n") or 1) > 1:
        return False
    return not any(_has_media(message) for message in cast("list[Mapping[str, Any]]", body["messages"]))


def answer_by_ids(first: Call, prefix: Prefix, profile: Profile, limit: int) -> Call:
    """The answer leg, of `limit` tokens at most: unsaid, both engines would stop at 16 on this route.

    Where the prompt did not open the thought, the model had opened it, and so does the prefix.
    """
    chat = first.body
    known = prefix.known
    if known is not None:
        prompt_ids, rendered, text = known.ids, (), f"{known.rest}{profile.format.closing}{prefix.answer}"
    else:
        render = {key: chat[key] for key in ("model", "messages", "chat_template_kwargs") if key in chat}
        opening = "" if first.start is Start.OPEN else profile.format.open[0]
        # An engine that splits leaves the newline after the marker to the thought, the gateway's own parser takes it.
        seam = "\n" if opening and not prefix.thought.startswith("\n") else ""
        text = f"{opening}{seam}{prefix.thought}{profile.format.closing}{prefix.answer}"
        prompt_ids, rendered = (), ({**render, "add_generation_prompt": True},)
    body: dict[str, Any] = {key: chat[key] for key in _SAMPLING if chat.get(key) is not None}
    if isinstance(chat.get("seed"), int):
        body["seed"] = chat["seed"] + 1  # the same seed again would draw the thought's numbers once more
    body |= {"model": chat["model"], "stream": True, "stream_options": {"include_usage": True}}
    body["max_tokens"] = limit
    said = {"model": chat["model"], "prompt": text, "add_special_tokens": False}
    return Call(
        COMPLETIONS_PATH,
        body,
        Start.CLOSED,
        engine_splits=False,
        stops=first.stops,
        tokenize=(*rendered, said),
        prompt_ids=prompt_ids,
        hides_ids=first.hides_ids,
    )


def _has_media(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    if not isinstance(content, list):
        return False
    parts = cast("list[object]", content)
    return any(not isinstance(part, Mapping) or cast("Mapping[str, Any]", part).get("type") != "text" for part in parts)
