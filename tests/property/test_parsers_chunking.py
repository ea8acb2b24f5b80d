"""What holds for every format, start and chunking."""

import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from parsers import BLANKS_HELD, FORMATS, Field, Format, Machine, Piece, Start, Whitespace

formats = st.sampled_from(FORMATS)
starts = st.sampled_from(list(Start))
whitespaces = st.sampled_from(("template", "verbatim"))
booleans = st.booleans()

MARKERS = sorted({m for f in FORMATS for m in (*f.open, *f.close, *f.interrupts)})
FRAGMENTS = sorted({m[:n] for m in MARKERS for n in (1, 2, len(m) - 1)} | {m[1:] for m in MARKERS})
PLAIN = ["a", "word ", "\n", "\n\n", " ", "\t", "é", "\U0001f600", "\n" * (BLANKS_HELD + 3)]
THINK = ["<think>", "</think>"]

# Twice over, so that whole markers and newlines are as frequent as their fragments.
texts = st.lists(st.one_of(*map(st.sampled_from, (MARKERS, THINK, THINK, FRAGMENTS, PLAIN, PLAIN))), max_size=14)
clean_texts = st.lists(st.one_of(*map(st.sampled_from, (MARKERS, THINK, THINK, PLAIN, PLAIN))), max_size=14)


def run(machine: Machine, chunks: list[str]) -> list[Piece]:
    return [piece for chunk in chunks for piece in machine.feed(chunk)] + machine.finish()


def joined(pieces: list[Piece], field: Field) -> str:
    return "".join(piece.text for piece in pieces if piece.field is field)


@settings(max_examples=400, deadline=None)
@given(formats, starts, booleans, texts, st.data())
def test_chunking_does_not_matter(
    record: Format, start: Start, tools: bool, parts: list[str], data: st.DataObject
) -> None:
    text = "".join(parts)
    whitespace: Whitespace = data.draw(whitespaces)
    whole = run(Machine(record, start, tools=tools, whitespace=whitespace), [text])
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12))
    bounds = sorted({0, *cuts, len(text)})
    for chunks in ([text[a:b] for a, b in pairwise(bounds)], list(text)):
        machine = Machine(record, start, tools=tools, whitespace=whitespace)
        pieces = run(machine, chunks)
        assert all(piece.text for piece in pieces)
        assert machine.consumed == text
        for field in Field:
            assert joined(pieces, field) == joined(whole, field)
        assert _runs(pieces) == _runs(whole)


def _runs(pieces: list[Piece]) -> list[tuple[Field, str]]:
    """Neighbouring pieces of one field put together: order is part of the promise."""
    runs: list[tuple[Field, str]] = []
    for field, text in pieces:
        if runs and runs[-1][0] is field:
            runs[-1] = (field, runs[-1][1] + text)
        else:
            runs.append((field, text))
    return runs


@settings(max_examples=300, deadline=None)
@given(formats, starts, booleans, whitespaces, clean_texts)
def test_nothing_is_lost_but_markers_and_blanks_beside_them(
    record: Format, start: Start, tools: bool, whitespace: Whitespace, parts: list[str]
) -> None:
    text = "".join(parts)
    shown = "".join(p.text for p in run(Machine(record, start, tools=tools, whitespace=whitespace), [text]))
    removable = [*record.open, *record.close]
    pattern = "|".join([r"\s", *map(re.escape, removable)])
    assert re.sub(pattern, "", shown) == re.sub(pattern, "", text)
    if whitespace == "verbatim" and removable:
        # The only blanks that may go stand directly in front of a marker.
        kept = iter(shown)
        assert all(char in kept for char in re.sub(rf"\s*(?:{'|'.join(map(re.escape, removable))})", "", text))
    if not removable:
        assert shown == text


@settings(max_examples=200, deadline=None)
@given(formats, starts, booleans, whitespaces, texts)
def test_little_is_withheld(
    record: Format, start: Start, tools: bool, whitespace: Whitespace, parts: list[str]
) -> None:
    longest = max(map(len, (*record.open, *record.close, *record.interrupts)), default=0)
    machine = Machine(record, start, tools=tools, whitespace=whitespace)
    for part in parts:
        machine.feed(part)
    assert sum(len(piece.text) for piece in machine.finish()) <= BLANKS_HELD + longest


@settings(max_examples=200, deadline=None)
@given(formats, starts, booleans, texts)
def test_template_whitespace_leaves_no_newline_at_the_markers(
    record: Format, start: Start, tools: bool, parts: list[str]
) -> None:
    text = "".join(part for part in parts if not part.startswith("\n" * BLANKS_HELD))
    template = run(Machine(record, start, tools=tools), [text])
    verbatim = run(Machine(record, start, tools=tools, whitespace="verbatim"), [text])
    for field in Field:
        # The choice of whitespace moves no other character from one field to the other.
        assert re.sub(r"\s", "", joined(template, field)) == re.sub(r"\s", "", joined(verbatim, field))
    if start is Start.OPEN and record.open:
        assert not joined(template, Field.REASONING).startswith("\n")
