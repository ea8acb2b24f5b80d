"""What holds for every format, start and chunking: the same pieces, and nothing lost but markers."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers import BLANKS_HELD, FORMATS, ChoiceParser, Field, Format, Piece, Start, Whitespace, lookup
from tests.parsers.invariants import check, markers, run

starts = st.sampled_from(list(Start))
flags = st.tuples(st.booleans(), st.booleans())
whitespaces: st.SearchStrategy[Whitespace] = st.sampled_from(("template", "verbatim"))
PLAIN = [
    "a",
    "{",
    "[",
    "word ",
    "\n",
    "\n\n",
    " ",
    "\t",
    "é",
    "\U0001f600",
    "<",
    "\n" * (BLANKS_HELD + 3),
    "assistant",
    " to=f",
]


def texts_of(record: Format) -> st.SearchStrategy[str]:
    """Whole markers as often as fragments of them and ordinary text."""
    own = sorted(markers(record)) or ["<think>"]
    if record.framing is not None:
        words = ["analysis", "final", "commentary", "assistantfinal", "to=self", "to=functions.f", "json", "x" * 170]
        own = [*own, *words]
    fragments = sorted({m[:n] for m in own for n in (1, 2, len(m) - 1)} | {m[1:] for m in own})
    sources = (own, own, own, list(filter(None, fragments)), PLAIN, PLAIN)
    return st.lists(st.one_of(*map(st.sampled_from, sources)), max_size=14).map("".join)


@pytest.mark.parametrize("record", FORMATS, ids=lambda record: record.id)
def test_any_chunking_gives_the_same_and_loses_nothing_but_markers(record: Format) -> None:
    @settings(max_examples=60, deadline=None)
    @given(texts_of(record), starts, flags, whitespaces, st.lists(st.integers(0, 200), max_size=12))
    def holds(text: str, start: Start, request: tuple[bool, bool], whitespace: Whitespace, cuts: list[int]) -> None:
        tools, structured = request
        bounds = sorted({0, *(min(cut, len(text)) for cut in cuts), len(text)})
        chunkings = [[text[low:high] for low, high in pairwise(bounds)], list(text)]
        check(record, start, chunkings, text, tools=tools, whitespace=whitespace, structured=structured)

    holds()


records = st.sampled_from(FORMATS)


@settings(max_examples=400, deadline=None)
@given(records, starts, st.booleans(), st.text(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_arbitrary_text_never_raises(record: Format, start: Start, tools: bool, text: str, cuts: list[int]) -> None:
    bounds = sorted({0, *(min(cut, len(text)) for cut in cuts), len(text)})
    check(record, start, [[text[low:high] for low, high in pairwise(bounds)]], text, tools=tools)


@settings(max_examples=200, deadline=None)
@given(records.flatmap(lambda record: st.tuples(st.just(record), texts_of(record))), starts, st.booleans())
def test_template_whitespace_leaves_no_newline_at_the_markers(
    pair: tuple[Format, str], start: Start, tools: bool
) -> None:
    record, text = pair
    if record.framing is not None or "\n" * BLANKS_HELD in text or any("\n" in m for m in markers(record)):
        return
    template = run(record, start, [text], tools=tools, whitespace="template")
    verbatim = run(record, start, [text], tools=tools, whitespace="verbatim")
    if record.interrupt_at == "anywhere":
        for field in Field:
            # The choice of whitespace moves no other character from one field to the other.
            assert _ink(template, field) == _ink(verbatim, field)
    if start is Start.OPEN and record.open:
        assert not "".join(p.text for p in template if p.field is Field.REASONING).startswith("\n")


def _ink(pieces: list[Piece], field: Field) -> str:
    return re.sub(r"\s", "", "".join(piece.text for piece in pieces if piece.field is field))


deltas = st.lists(
    st.tuples(
        st.sampled_from([None, "", "r", "</think>", "a"]),
        st.sampled_from([None, "", "c", "<think>", "</think>", "\n", "<thi"]),
    ),
    max_size=8,
)


@settings(max_examples=300, deadline=None)
@given(deltas, starts, st.sampled_from([None, True, False]), st.sampled_from(["think", "harmony", "none"]))
def test_what_an_engine_split_comes_out_as_it_went_in(
    parts: list[tuple[str | None, str | None]], start: Start, splits: bool | None, name: str
) -> None:
    parser = ChoiceParser(lookup(name), start, engine_splits=splits)
    pieces: list[Piece] = []
    is_passing = False
    for reasoning, content in parts:
        is_passing = is_passing or bool(reasoning and splits is not False)
        got = parser.feed(reasoning=reasoning, content=content)
        if is_passing and parser.passing:
            given_fields = [(Field.REASONING, reasoning), (Field.CONTENT, content)]
            assert got[-2:][-sum(1 for _, text in given_fields if text) :] == [
                Piece(field, text) for field, text in given_fields if text
            ] or not (reasoning or content)
        pieces += got
    pieces += parser.finish()
    assert all(piece.text for piece in pieces)
