"""What must hold for every format and every text; used by the property tests and by the fuzz harness.

`check` raises AssertionError: under any chunking the same pieces come out in the same order, and they are the input
less its markers, blanks beside markers and headers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from parsers import Field, Format, Piece, Start, Whitespace, lookup, machine_for
from parsers.framed import HEADER_HELD
from parsers.pieces import BLANKS_HELD


def run(
    record: Format,
    start: Start,
    chunks: Iterable[str],
    *,
    tools: bool,
    whitespace: Whitespace | None,
    structured: bool = False,
) -> list[Piece]:
    """All pieces, with neighbouring ones of a field put together; and what holds of any single run."""
    machine = machine_for(record, start, tools=tools, whitespace=whitespace, structured=structured)
    pieces: list[Piece] = []
    text = ""
    for chunk in chunks:
        text += chunk
        pieces += machine.feed(chunk)
    ending = machine.finish()
    bound = BLANKS_HELD + HEADER_HELD + max(map(len, markers(record)), default=0)
    if record.on_no_close == "reasoning":
        assert sum(len(piece.text) for piece in ending) <= bound, "too much was withheld"
    assert machine.finish() == [], "a second end said something"
    pieces += ending
    assert all(piece.text for piece in pieces), "an empty piece"
    assert machine.consumed == text, "the raw text was not kept"
    joined: list[Piece] = []
    for piece in pieces:
        if joined and joined[-1].field is piece.field:
            joined[-1] = Piece(piece.field, joined[-1].text + piece.text)
        else:
            joined.append(piece)
    return joined


def check(
    record: Format,
    start: Start,
    chunkings: Iterable[list[str]],
    text: str,
    *,
    tools: bool = False,
    whitespace: Whitespace | None = None,
    structured: bool = False,
) -> list[Piece]:
    def again(chunks: list[str]) -> list[Piece]:
        return run(record, start, chunks, tools=tools, whitespace=whitespace, structured=structured)

    whole = again([text])
    for chunks in chunkings:
        assert "".join(chunks) == text
        assert again(chunks) == whole, f"depends on chunks: {chunks!r}"
    if record.framing is None:
        machine = machine_for(record, start, tools=tools, whitespace=whitespace, structured=structured)
        pieces = machine.feed(text) + machine.finish()
        is_repeated = record.on_no_close == "content" and machine.field is Field.REASONING and len(pieces) > 1
        if is_repeated and pieces[-1].field is Field.CONTENT:  # the thought, once more
            pieces.pop()
        assert _rebuilds(record, start, text, pieces, whitespace)
    else:
        _check_framed(record, start, text, whole)
    return whole


def check_case(case: dict[str, Any]) -> None:
    """The same for a line of `seeds.jsonl`; also by character and in fives."""
    text = "".join(case["chunks"])
    check(
        lookup(case["format"]),
        Start(case["start"]),
        [case["chunks"], list(text), [text[at : at + 5] for at in range(0, len(text), 5)]],
        text,
        tools=case["tools"],
        whitespace=case["whitespace"],
        structured=case["structured"],
    )


@cache
def markers(record: Format) -> tuple[str, ...]:
    """Everything that may act."""
    framing = record.framing
    if framing is not None:
        tokens = (*framing.begin, *(token for token, _ in framing.bodies), *framing.end, *framing.inner)
        stripped = framing.stripped
        return (*tokens, *(token for token, _ in stripped.bodies)) if stripped is not None else tokens
    return (*vanishing(record), *record.interrupts, *(marker for pair in record.spans for marker in pair))


@cache
def vanishing(record: Format) -> tuple[str, ...]:
    label = (record.open_label, record.open_label.rstrip()) if record.open_label else ()
    return (*record.open, *record.close, *record.content_open, *record.drop, *label, *record.end_tokens)


def _rebuilds(record: Format, start: Start, text: str, pieces: list[Piece], whitespace: Whitespace | None) -> bool:
    """Whether the pieces, in order, fill the text but for markers and the blanks beside them."""
    trims = (whitespace or record.whitespace) == "template"
    removable = vanishing(record)
    half = {m[:n] for m in markers(record) for n in range(3, len(m))} if record.tail == "drop" else set[str]()

    @cache
    def after_gaps(pos: int) -> frozenset[int]:
        """Where a row of markers that begins at `pos` may end."""
        ends: set[int] = set()
        todo = {pos}
        while todo:
            at = todo.pop()
            if text[at:] in half:
                ends.add(len(text))
            blanks = at
            while blanks <= len(text):
                for marker in removable:
                    if text.startswith(marker, blanks):
                        stop = blanks + len(marker)
                        found = {stop}
                        while trims and text.startswith("\n", stop):
                            stop += 1
                            found.add(stop)
                        todo |= found - ends
                        ends |= found
                if blanks == len(text) or not text[blanks].isspace():
                    break
                blanks += 1
        return frozenset(ends)

    reach = {0}
    if trims and start is Start.OPEN:  # newlines after the open marker that the prompt holds
        reach |= {len(m.group()) for n in range(len(text)) if (m := re.match(rf"\n{{{n + 1}}}", text))}
    if trims:  # newlines in front of a tool call
        reach |= _before_tools(record, text, reach)
    for piece in pieces:
        starts = reach | {end for at in reach for end in after_gaps(at)}
        reach = {at + len(piece.text) for at in starts if text.startswith(piece.text, at)}
        if trims:
            reach |= _before_tools(record, text, reach)
        if not reach:
            return False
    return any(at == len(text) or len(text) in after_gaps(at) for at in reach)


def _before_tools(record: Format, text: str, reach: set[int]) -> set[int]:
    ends: set[int] = set()
    for at in reach:
        stop = at
        while text.startswith("\n", stop):
            stop += 1
        if stop > at and text.startswith(record.interrupts or ("\0never",), stop):
            ends.add(stop)
    return ends


def _check_framed(record: Format, start: Start, text: str, pieces: list[Piece]) -> None:
    """What is shown is the text less something; and no more is gone than tokens where no header ever began."""
    framing = record.framing
    assert framing is not None
    shown = "".join(piece.text for piece in pieces)
    left = iter(text)
    assert all(char in left for char in shown), "something came up that was not there"
    tokens = sorted(markers(record), key=len, reverse=True)
    untokened = re.sub("|".join(map(re.escape, tokens)), "", text)
    begins = (*framing.begin, *(token for token, verdict in framing.bodies if verdict == "tool"))
    lead = text.lstrip()
    words = (framing.implied, *(word for word, _, _ in framing.stripped_lead))
    if not any(token in text for token in begins) and not any(word and lead.startswith(word) for word in words):
        plain = sorted((token for token in _tokens(record)), key=len, reverse=True)
        expected = re.sub("|".join(map(re.escape, plain)), "", text)
        is_led = len(text) - len(lead) <= BLANKS_HELD and lead.startswith(tuple(plain))
        is_free = start is Start.OFF and not is_led
        assert shown == (text if is_free else expected), "text was lost outside headers"
    else:
        assert len(shown) <= len(text)
        assert untokened or not shown or shown == text or any(token in shown for token in tokens)


def _tokens(record: Format) -> tuple[str, ...]:
    framing = record.framing
    assert framing is not None
    return (*framing.begin, *(token for token, _ in framing.bodies), *framing.end, *framing.inner)
