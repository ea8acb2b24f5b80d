"""Message-framed outputs that are well formed: what is shown is the bodies of the messages, exactly, and nothing of
their headers; so bodies, headers and tokens are the whole input. Arbitrary text: `tests/parsers/invariants.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers import Field, Start, lookup, machine_for

Message = tuple[Field, str]

ALPHABET = st.sampled_from([*"ab{}[]<|>\n :=", "to=", "assistant", "final", "思", "😀", "</think>", "<|", "|>"])
BODIES = st.lists(ALPHABET, min_size=1, max_size=12).map("".join).filter(lambda text: not text.isspace())
MESSAGES = st.lists(st.tuples(st.sampled_from(list(Field)), BODIES), min_size=1, max_size=5)


def harmony(messages: list[Message]) -> str:
    channels = {Field.REASONING: "analysis", Field.CONTENT: "final"}
    turns = (f"<|channel|>{channels[field]}<|message|>{body}<|end|>" for field, body in messages)
    return "<|start|>assistant".join(turns)


def muse(messages: list[Message]) -> str:
    recipients = {Field.REASONING: "self", Field.CONTENT: "user"}
    turns = (f" to={recipients[field]}<|message|>{body}<|eom|>" for field, body in messages)
    return "<|start|>assistant" + "<|start|>assistant".join(turns)


def inkling(messages: list[Message]) -> str:
    kinds = {Field.REASONING: "<|content_thinking|>", Field.CONTENT: "<|content_text|>"}
    return "<|message_model|>".join(f"{kinds[field]}{body}<|end_message|>" for field, body in messages)


def solar(messages: list[Message]) -> str:
    kinds = {Field.REASONING: "<|think|>", Field.CONTENT: "<|content|>"}
    return "<|begin|>assistant".join(f"{kinds[field]}{body}<|end|>" for field, body in messages)


RENDERERS: dict[str, Callable[[list[Message]], str]] = {
    "harmony": harmony,
    "muse": muse,
    "inkling": inkling,
    "solar_open": solar,
}


@pytest.mark.parametrize("name", RENDERERS)
@settings(max_examples=200, deadline=None)
@given(messages=MESSAGES, cuts=st.lists(st.integers(0, 400), max_size=12))
def test_the_bodies_are_shown_exactly_and_the_headers_not_at_all(
    name: str, messages: list[Message], cuts: list[int]
) -> None:
    text = RENDERERS[name](messages)
    machine = machine_for(lookup(name), Start.CLOSED, tools=False)
    bounds = sorted({0, *(at % (len(text) + 1) for at in cuts), len(text)})
    pieces = [piece for low, high in pairwise(bounds) for piece in machine.feed(text[low:high])] + machine.finish()
    assert joined([(piece.field, piece.text) for piece in pieces]) == joined(messages)
    assert machine.consumed == text


def joined(messages: list[Message]) -> list[Message]:
    """Neighbours of one field put together."""
    found: list[Message] = []
    for field, text in messages:
        if found and found[-1][0] is field:
            found[-1] = (field, found[-1][1] + text)
        else:
            found.append((field, text))
    return found
