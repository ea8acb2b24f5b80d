"""Going on by token ids: the way that no chat template can spoil.

vLLM and SGLang both answer `/tokenize` for messages (the ids their chat route would have rendered) and for text, and
both take ids as the `prompt` of `/v1/completions`. Templates that drop, double or strip a thought in a last assistant
message never come into play. The price: no tool parser on that route, no images (ids hold only placeholders), and
log probabilities in another shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from gateway.engines.base import Call, Prefix, Profile
from gateway.engines.capabilities import Ask, fields_of
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
    "length_penalty",
    "cache_salt",
    "extra_key",
    "priority",
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

_CHAT_ONLY = ("tools", "functions", "logprobs", "documents")
"""Chat fields that a bare prompt of ids cannot honour."""

_RENDERED = ("model", "messages", "tools", "tool_choice", "chat_template_kwargs", "reasoning_effort")
"""What the prompt of a chat is made of."""


async def count_phrases(ask: Ask, model: str, phrases: Sequence[str]) -> dict[str, int] | None:
    """Tokens of each phrase, by the worker's own tokenizer; None where it has no such door."""
    counted: dict[str, int] = {}
    for phrase in phrases:
        question = {"model": model, "prompt": phrase, "add_special_tokens": False}
        tokens = fields_of(*await ask("POST", TOKENIZE_PATH, question)).get("tokens")
        if not isinstance(tokens, list):
            return None
        counted[phrase] = len(cast("list[object]", tokens))
    return counted


def is_plain_text(body: Mapping[str, Any]) -> bool:
    """No tools, no log probabilities, no images: what a bare prompt of ids can carry."""
    return not any(body.get(name) for name in _CHAT_ONLY) and not has_media(body)


def has_media(body: Mapping[str, Any]) -> bool:
    return any(_holds_media(message) for message in cast("list[Mapping[str, Any]]", body["messages"]))


def written(first: Call, prefix: Prefix, profile: Profile) -> str:
    """The assistant's turn up to where the next leg starts.

    Where the prompt did not open the thought, the model had opened it, and so does this.
    """
    record = profile.format
    if prefix.thought is None:
        return prefix.answer
    opening = "" if first.start is Start.OPEN else record.open[0]
    # An engine that splits leaves the newline after the marker to the thought, the gateway's own parser takes it.
    seam = "\n" if opening and record.framing is None and not prefix.thought.startswith("\n") else ""
    return f"{opening}{seam}{prefix.thought}{_ending(prefix, profile)}"


def by_ids(first: Call, prefix: Prefix, profile: Profile, limit: int) -> Call:
    """The next leg over /v1/completions, of `limit` tokens at most: unsaid, both engines would stop at 16 there."""
    chat = first.body
    ids, questions = prompt_of(first, prefix, profile)
    body: dict[str, Any] = {key: chat[key] for key in _SAMPLING if chat.get(key) is not None}
    if profile.format.needs_special_tokens:  # nobody but the gateway parses here
        body.setdefault("skip_special_tokens", False)
    body |= {"model": chat["model"], "stream": True, "stream_options": chat["stream_options"], "max_tokens": limit}
    reseed(body, chat)
    return Call(
        COMPLETIONS_PATH,
        body,
        Start.OPEN if prefix.is_open else Start.CLOSED,
        engine_splits=False,
        stops=first.stops,
        tokenize=questions,
        prompt_ids=ids,
        hides_ids=first.hides_ids,
        hides_usage=first.hides_usage,
    )


def prompt_of(first: Call, prefix: Prefix, profile: Profile) -> tuple[tuple[int, ...], tuple[dict[str, Any], ...]]:
    """(ids known already, what is still to be tokenized): both together are the prompt of the next leg."""
    chat, known = first.body, prefix.known
    if known is not None:
        return known.ids, (_text(chat, known.rest),) if known.rest else ()
    render = {key: chat[key] for key in _RENDERED if key in chat}
    return (), ({**render, "add_generation_prompt": True}, _text(chat, written(first, prefix, profile)))


def reseed(body: dict[str, Any], chat: Mapping[str, Any]) -> None:
    """The same seed again would draw the thought's numbers once more."""
    if isinstance(chat.get("seed"), int):
        body["seed"] = chat["seed"] + 1


def _ending(prefix: Prefix, profile: Profile) -> str:
    return "" if prefix.is_open else f"{profile.format.closing}{prefix.answer}"


def _text(chat: Mapping[str, Any], text: str) -> dict[str, Any]:
    return {"model": chat["model"], "prompt": text, "add_special_tokens": False}


def _holds_media(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    if not isinstance(content, list):
        return False
    parts = cast("list[object]", content)
    return any(not isinstance(part, Mapping) or cast("Mapping[str, Any]", part).get("type") != "text" for part in parts)
