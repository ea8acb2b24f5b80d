"""From a thought that has ended to the leg that answers: what the engine is given, and what the client is told.

Arithmetic and text; the flight starts the leg.
"""

from __future__ import annotations

from dataclasses import dataclass

from budgets import Plan, trim_thought
from gateway.deltas import Delta, Text
from gateway.engines import Call, Prefix
from gateway.pools import Pool
from parsers import Field

CHARACTERS_A_TOKEN = 4
"""For the length of phrases the gateway puts in itself; a few tokens, counted so that usage adds up."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """The next call, and the words put in: `spoken` as the client gets them, `tokens` of both, `thought_tokens` of
    the phrase that ends the thought."""

    call: Call
    spoken: list[Delta]
    phrase: str
    tokens: int
    thought_tokens: int


def continue_to_answer(first: Call, thought: str, pool: Pool, plan: Plan, *, used: int) -> Continuation | None:
    """The leg from a closed thought to the answer, None where the engine cannot.

    `used` is in completion tokens. The engine goes on from the thought trimmed to a clean break; the client keeps all
    it has seen, and sees the closing phrase too, since the model was given it as its own.
    """
    thinking = pool.config.thinking
    phrase, lead_in = thinking.closing_phrase, thinking.answer_lead_in
    thought_tokens, answer_tokens = _tokens(phrase), _tokens(lead_in)
    limit = None
    if plan.limit is not None:
        limit = max(1, plan.limit - used - thought_tokens - answer_tokens)
    prefix = Prefix(thought=trim_thought(thought) + phrase, answer=lead_in)
    call = pool.dialect.answer(first, prefix, pool.profile, limit)
    if call is None:
        return None
    spoken: list[Delta] = [Text(0, Field.REASONING, phrase)]
    if lead_in:
        spoken.append(Text(0, Field.CONTENT, lead_in))
    return Continuation(call, spoken, phrase, thought_tokens + answer_tokens, thought_tokens)


def _tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS_A_TOKEN)
