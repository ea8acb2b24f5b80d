"""The framed machine by behaviour; what an output comes to is in the case files."""

from __future__ import annotations

import pytest

from parsers import Field, FramedMachine, Piece, Start, lookup, machine_for, resolve_start
from parsers.framed import HEADER_HELD

HARMONY = lookup("gpt-oss")
FINAL = "<|start|>assistant<|channel|>final<|message|>"


def feed_all(start: Start, chunks: list[str], *, tools: bool = False) -> tuple[FramedMachine, list[Piece]]:
    machine = machine_for(HARMONY, start, tools=tools)
    assert isinstance(machine, FramedMachine)
    return machine, [piece for chunk in chunks for piece in machine.feed(chunk)]


def test_text_flows_as_it_arrives_and_the_field_follows() -> None:
    machine, pieces = feed_all(Start.CLOSED, ["<|channel|>", "analysis", "<|message|>"])
    assert (pieces, machine.field) == ([], Field.REASONING)
    assert machine.feed("We add") == [Piece(Field.REASONING, "We add")]
    assert machine.feed(" <|en") == [Piece(Field.REASONING, " ")]
    assert machine.feed("d|>" + FINAL + "4") == [Piece(Field.CONTENT, "4")]
    assert machine.field is Field.CONTENT
    assert machine.feed("2") == [Piece(Field.CONTENT, "2")]
    assert machine.finish() == []
    assert machine.consumed == "<|channel|>analysis<|message|>We add <|end|>" + FINAL + "42"


def test_a_header_is_withheld_no_further_than_its_bound() -> None:
    machine, pieces = feed_all(Start.CLOSED, ["<|start|>", *("w " for _ in range(HEADER_HELD))])
    assert sum(len(piece.text) for piece in pieces) > HEADER_HELD
    assert machine.consumed.endswith("w w ")


def test_leading_blanks_are_withheld_no_further_than_their_bound() -> None:
    _, pieces = feed_all(Start.CLOSED, [" "] * 100)
    assert sum(len(piece.text) for piece in pieces) == 100


@pytest.mark.parametrize("lead", ["", " \n"])
def test_off_looks_for_tokens_at_the_beginning_only(lead: str) -> None:
    machine, pieces = feed_all(Start.OFF, [lead + "Use <|channel|>final<|message|> so."])
    assert pieces == [Piece(Field.CONTENT, lead + "Use <|channel|>final<|message|> so.")]
    assert machine.untouched
    assert machine.feed("<|end|>") == [Piece(Field.CONTENT, "<|end|>")]
    machine, pieces = feed_all(Start.OFF, [lead + FINAL + "4"])
    assert pieces[-1] == Piece(Field.CONTENT, "4")
    assert not machine.untouched


def test_off_and_nothing_but_blanks() -> None:
    machine, pieces = feed_all(Start.OFF, ["  "])
    assert pieces == []
    assert machine.finish() == [Piece(Field.CONTENT, "  ")]
    assert machine.feed("") == []


def test_a_tool_message_flows_to_the_content_with_tools() -> None:
    _, pieces = feed_all(
        Start.CLOSED, ["<|channel|>commentary to=functions.f<|message|>", '{"a"', ": 1}", "<|call|>"], tools=True
    )
    text = '<|channel|>commentary to=functions.f<|message|>{"a": 1}<|call|>'
    assert "".join(piece.text for piece in pieces) == text
    assert {piece.field for piece in pieces} == {Field.CONTENT}


@pytest.mark.parametrize(
    ("tail", "start"),
    [
        ("…<|end|><|start|>assistant", Start.CLOSED),
        ("…<|start|>assistant<|channel|>analysis<|message|>", Start.OPEN),
        ("…<|start|>assistant<|channel|>analysis<|message|>half a thought", Start.OPEN),
        ("…<|start|>assistant<|channel|>analysis<|message|>done<|end|>", Start.CLOSED),
    ],
)
def test_where_a_framed_output_starts(tail: str, start: Start) -> None:
    assert resolve_start(HARMONY, thinking=None, prompt_tail=tail) is start
    assert resolve_start(HARMONY, thinking=False) is Start.CLOSED  # it has no switch


@pytest.mark.parametrize(
    "unit", ["<|", "<|start|>", "<|channel|>analysis", "<|message|>", "<|end|>", "to=", "analysis"]
)
def test_hostile_text_costs_no_more_than_its_length(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    machine, _ = feed_all(Start.CLOSED, [])
    for at in range(0, len(text), 7):
        machine.feed(text[at : at + 7])
        assert len(machine._held) + len(machine._header) <= HEADER_HELD + 64
    machine.finish()
    assert machine.consumed == text
