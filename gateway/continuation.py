"""From a thought that has ended to the leg that answers: what the engine is given, and what the client is told.

Arithmetic and text; the flight starts the leg.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from budgets import Plan, trim_thought
from gateway.deltas import Delta, Text
from gateway.engines import Call, KnownIds, Prefix
from gateway.legwatch import Transcript
from gateway.pools import Pool
from parsers import Field

CHARACTERS_A_TOKEN = 4
"""For the length of phrases the gateway puts in itself; a few tokens, counted so that usage adds up."""

_GRAMMARS = ("response_format", "structured_outputs", "regex", "ebnf", "grammar", "json_schema")
"""Fields that bind the answer to a grammar: OpenAI's, vLLM's, SGLang's, llama-server's."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """The next call, and the words put in: `spoken` as the client gets them, `tokens` of both, `thought_tokens` of
    the phrase that ends the thought."""

    call: Call
    spoken: list[Delta]
    phrase: str
    tokens: int
    thought_tokens: int


def continue_to_answer(
    first: Call, told: Transcript, prompt_ids: tuple[int, ...], pool: Pool, plan: Plan, *, used: int
) -> Continuation | None:
    """The leg from a closed thought to the answer; None where the engine cannot, or no token is left.

    Something may have been answered already, by a model that thought again. `prompt_ids` are the prompt's, where the
    engine told them; `used` is in completion tokens. The engine goes on from the thought trimmed to a clean break; the
    client keeps all it has seen, and sees the closing phrase too, since the model was given it as its own.
    """
    said = "".join(told.said)
    thinking = pool.config.thinking
    phrase = thinking.closing_phrase
    lead_in = "" if said or _is_bound(first.body) else thinking.answer_lead_in
    room = None if plan.limit is None else plan.limit - used
    if room is not None:
        if room < 1:
            return None
        if _tokens(phrase) + _tokens(lead_in) > room // 2:
            phrase = lead_in = ""  # what little the client allows belongs to the answer
    tokens = _tokens(phrase) + _tokens(lead_in)
    thought, closing = trim_thought("".join(told.thought)), phrase or "\n"
    known = _known_ids(told, len(thought), prompt_ids, closing)
    prefix = Prefix(thought=thought + closing, answer=said or lead_in, known=known)
    call = pool.dialect.answer(first, prefix, pool.profile, None if room is None else room - tokens)
    if call is None:
        return None
    words = ((Field.REASONING, phrase), (Field.CONTENT, lead_in))
    spoken: list[Delta] = [Text(0, field, text) for field, text in words if text]
    return Continuation(call, spoken, phrase, tokens, _tokens(phrase))


def _known_ids(told: Transcript, length: int, prompt_ids: tuple[int, ...], closing: str) -> KnownIds | None:
    """The prompt and the first `length` characters of the thought by their very ids, whole pieces only; None where one
    is not known."""
    ids, taken = list(prompt_ids), 0
    for text, own in zip(told.thought, told.thought_ids, strict=True):
        taken += len(text)
        if taken > length:
            break
        if own is None:
            return None
        ids += own
    return KnownIds(tuple(ids), closing) if prompt_ids and len(ids) > len(prompt_ids) else None


def _is_bound(body: Mapping[str, Any]) -> bool:
    """Must the answer follow a grammar? Then it begins with the grammar's first words, not with ours."""
    return any(body.get(name) for name in _GRAMMARS) and body.get("response_format") != {"type": "text"}


def _tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS_A_TOKEN)
