"""Labelled cases: an output, how it is to be read, and what should come of it; run under many chunkings.

A case is a JSON object: `id`, `format` (or `parser`, an engine's name for it), `output` or `deltas`, `opts`,
`expected_reasoning`, `expected_content`, and `match`. Where `target_reasoning` or `target_content` is given, that is
the right answer and `expected_*` what some engine does. null and "" are the same. What must not come in: parsing.
"""

import json
import random
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, NamedTuple, cast

from parsers.format import Format
from parsers.machines import machine_for
from parsers.names import UnknownFormat, detect, lookup
from parsers.pieces import Field, Whitespace
from parsers.start import Start, resolve_start

SIZES: Final = (1, 2, 3, 5, 7, 11)
RANDOM_CUTS: Final = 20

# Keys of groups of formats that differ in their tool markers only.
_GROUPS: Final = {
    "think_tool": "qwen3",
    "think_nemotron": "nemotron_v3",
    "think_step": "step3p5",
    "think_dsml": "deepseek_v4",
    "think_granite42": "granite_thinking",
}
_WHITESPACE: Final[dict[str, Whitespace]] = {
    "verbatim": "verbatim",
    "template": "template",
    "trim_reasoning_end": "template",
    "lstrip_content_newlines": "template",
}


class Split(NamedTuple):
    reasoning: str
    content: str


class Failure(NamedTuple):
    """What came out instead, and under which chunking."""

    id: str
    chunks: list[str]
    got: Split
    wanted: Split


class BadCase(ValueError):
    """A line of a case file that is no case."""


class Case:
    """One case, resolved."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data: Final = data
        self.id: Final = str(data["id"])
        self.opts: Final = cast("Mapping[str, Any]", data.get("opts") or {})
        deltas = data.get("deltas")
        self.deltas: Final = [str(delta) for delta in deltas] if deltas is not None else None
        self.text: Final = "".join(self.deltas) if self.deltas is not None else str(data["output"])
        self.format: Final = self._format()
        self.start: Final = self._start()
        self.wanted: Final = Split(self._wanted("reasoning"), self._wanted("content"))

    def _format(self) -> Format:
        name = str(self.data.get("parser") or self.data["format"]).rpartition(":")[2]
        try:
            record = lookup(name)
        except UnknownFormat:
            key = str(self.data["format"])
            record = detect(name)
            if not record.open:
                record = lookup(_GROUPS.get(key, key))
        tool = self.opts.get("tool_start")
        if tool is not None and tool not in record.interrupts and record.framing is None:
            record = replace(record, interrupts=(tool,))
        if self.opts.get("force_nonempty_content"):
            record = replace(record, on_no_close="content")
        return record

    def _start(self) -> Start:
        if "thinking" in self.opts:
            return Start.OFF
        start = self.opts.get("start")
        if start is None:
            return resolve_start(self.format, thinking=True)
        return Start.OPEN if start == "open" else Start.CLOSED

    def _wanted(self, field: str) -> str:
        return str(self.data.get(f"target_{field}", self.data.get(f"expected_{field}")) or "")

    @property
    def chunkings(self) -> Iterator[list[str]]:
        """Whole, as given, in every size of `SIZES`, and cut at random (the same way each time)."""
        text, end = self.text, len(self.text)
        yield [text]
        if self.deltas is not None:
            yield self.deltas
        for size in SIZES:
            yield [text[at : at + size] for at in range(0, end, size)]
        chance = random.Random(zlib.crc32(self.id.encode()))  # noqa: S311 - not a secret
        for _ in range(RANDOM_CUTS):
            cuts = sorted(chance.randint(0, end) for _ in range(chance.randint(1, 6)))
            yield [text[low:high] for low, high in pairwise((0, *cuts, end))]

    def split(self, chunks: Iterable[str]) -> Split:
        machine = machine_for(
            self.format,
            self.start,
            tools="tool_start" in self.opts,
            whitespace=_WHITESPACE.get(self.opts.get("ws", "")),
        )
        pieces = [piece for chunk in chunks for piece in machine.feed(chunk)] + machine.finish()
        reasoning, content = ("".join(piece.text for piece in pieces if piece.field is field) for field in Field)
        return Split("" if self.opts.get("include_reasoning") is False else reasoning, content)

    def matches(self, got: Split) -> bool:
        how = self.data.get("match", "exact")
        for text, wanted in zip(got, self.wanted, strict=True):
            if how == "contains" and wanted:
                fits = wanted in text
            elif how == "startswith" and wanted:
                fits = text.startswith(wanted)
            else:
                fits = text == wanted
            if not fits:
                return False
        return True

    def run(self) -> Failure | None:
        """The first chunking with a wrong answer; None: all are right."""
        for chunks in self.chunkings:
            got = self.split(chunks)
            if not self.matches(got):
                return Failure(self.id, chunks, got, self.wanted)
        return None


def read_cases(lines: Iterable[str]) -> list[Case]:
    """Raises BadCase with the number of the line."""
    cases: list[Case] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            cases.append(Case(json.loads(line)))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise BadCase(f"line {number}: {error!r}") from error
    return cases
