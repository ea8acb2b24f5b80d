"""The streaming machine: one model output, in any chunking, into pieces of reasoning and content.

It runs any `Format` whose markers are literal text. A message-framed format is another class with the same face:
`feed`, `finish`, `field`, `consumed`. What must not come in: family names, engine dialects, field names, I/O.

A whole output is `feed(all)` and `finish()`, so streaming and non-streaming cannot differ. The rules:

* The first marker that is live in the present state acts. The first close marker ends reasoning, quoted or not, since
  text alone cannot tell; inside a block that was opened in so many words, a further open marker is text.
* Where the output or a block begins, repeated open markers vanish, with the blanks in front of them. Text before an
  open marker is content when the output starts outside, and then the marker is text too unless the format reopens;
  when the output starts inside it is reasoning, and the marker vanishes.
* `Start.CLOSED`: one stray close marker at the very beginning vanishes. `Start.OFF`: only an open marker at the very
  beginning counts; without one the text is untouched.
* Tool markers end reasoning only if the request carries tools, and stay in the content.
* Whitespace `template`: newlines directly after an open marker, before and after a close marker are the chat
  template's and vanish, so a block of newlines only is no reasoning at all. `verbatim` keeps them.
* Withheld is only what may still become a live marker, leading blanks, and the newlines that end the reasoning so
  far, the latter two up to `BLANKS_HELD`: beyond that they are text like any other. `finish` emits what is withheld.

Not here: blanks other than newlines before a tool call, and the JSON rule, need the request and the tool parser;
showing reasoning as content when there is no answer, hiding it, stop strings and log probabilities belong to those who
write the response; end-of-turn tokens only reach the text of families that must be read with special tokens on.
"""

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from parsers.formats import Format
from parsers.start import Start

Whitespace = Literal["template", "verbatim"]

BLANKS_HELD: Final = 32
"""How many blanks may be withheld. A model that loops on newlines must stay visible to client and loop detector."""

_INK: Final = re.compile(r"\S")


class Field(StrEnum):
    REASONING = "reasoning"
    CONTENT = "content"


class Piece(NamedTuple):
    """Text of one field, never empty."""

    field: Field
    text: str


class _Live:
    """The markers that count in one state, prepared for one left-to-right search."""

    __slots__ = ("_firsts", "_longest", "_pattern", "_prefixes")

    def __init__(self, markers: tuple[str, ...]) -> None:
        longest_first = sorted(markers, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        self._prefixes = frozenset(marker[:size] for marker in markers for size in range(1, len(marker)))
        self._firsts = frozenset(marker[0] for marker in markers)
        self._longest = len(longest_first[0])

    def may_grow(self, text: str, at: int) -> bool:
        """Whether the text from `at` to its end may still become a marker, or a longer one."""
        return len(text) - at < self._longest and text[at:] in self._prefixes

    def at(self, text: str, pos: int) -> re.Match[str] | None:
        return self._pattern.match(text, pos)

    def find(self, text: str, pos: int) -> re.Match[str] | None:
        return self._pattern.search(text, pos)

    def tail(self, text: str, pos: int) -> int:
        """Where the earliest unfinished marker at the end of the text begins; its length if there is none."""
        tail = len(text)
        low = max(pos, tail - self._longest + 1)
        for first in self._firsts:
            at = text.find(first, low)
            while at != -1:
                if text[at:] in self._prefixes:
                    tail = min(tail, at)
                    break
                at = text.find(first, at + 1)
        return tail


@lru_cache(maxsize=256)
def _live(markers: tuple[str, ...]) -> _Live | None:
    return _Live(markers) if markers else None


class Machine:
    """One choice's parser. A generation continued elsewhere keeps feeding the same machine; `finish` is for the end."""

    __slots__ = (
        "_edge",
        "_field",
        "_format",
        "_held",
        "_lead",
        "_live",
        "_opened",
        "_taken",
        "_template",
        "_tools",
        "_untouched",
    )

    def __init__(
        self,
        format: Format,  # noqa: A002 - the field's word
        start: Start,
        *,
        tools: bool = False,
        whitespace: Whitespace = "template",
    ) -> None:
        self._format = format
        self._tools = tools
        self._template = whitespace == "template"
        self._taken: list[str] = []
        self._held = ""
        self._edge = False  # newlines met now belong to the marker just passed
        self._opened = False  # an open marker was met, in so many words
        self._untouched = start is Start.OFF or not format.open
        self._field = Field.REASONING if start is Start.OPEN and format.open else Field.CONTENT
        # START: what may stand at the very beginning of the output, or of a block. None once past it.
        self._lead = _live(format.open + format.close if start is Start.CLOSED else format.open)
        self._live: _Live | None = None

    @property
    def field(self) -> Field:
        """Where the stream stands now. Withheld text may still move it."""
        return self._field

    @property
    def untouched(self) -> bool:
        """Whether everything is content as it came, up to here and from here on."""
        return self._untouched and self._lead is None

    @property
    def consumed(self) -> str:
        """All text taken in, markers included: what a continuation must start from."""
        if len(self._taken) > 1:
            self._taken = ["".join(self._taken)]
        return self._taken[0] if self._taken else ""

    def feed(self, text: str) -> list[Piece]:
        if not text:
            return []
        self._taken.append(text)
        if self._field is Field.CONTENT and self._live is None and self._lead is None and not self._edge:
            return [Piece(Field.CONTENT, text)]
        return self._scan(self._held + text, final=False)

    def finish(self) -> list[Piece]:
        """The output is complete: what was withheld is text after all."""
        return self._scan(self._held, final=True)

    def _scan(self, text: str, *, final: bool) -> list[Piece]:
        out: list[Piece] = []
        pos, end = 0, len(text)
        while pos < end:
            if self._lead is not None:
                after = self._begin(self._lead, text, pos, final=final)
                if after is None:
                    break
                pos = after
                continue
            if self._edge:
                while pos < end and text[pos] == "\n":
                    pos += 1
                if pos == end:
                    break
                self._edge = False
            live = self._live
            match = live.find(text, pos) if live else None
            if live and match and (final or not live.may_grow(text, match.start())):
                pos = self._act(text, pos, match, out)
                continue
            keep = end if final or live is None else live.tail(text, pos)
            if self._template and not final and self._field is Field.REASONING:
                keep = _before_newlines(text, pos, keep)
            _emit(out, self._field, text[pos:keep])
            pos = keep
            break
        self._held = text[pos:]
        return out

    def _begin(self, lead: _Live, text: str, pos: int, *, final: bool) -> int | None:
        """At a beginning: take a marker, or leave START, and say where to go on. None: more text is needed."""
        ink = _INK.search(text, pos, pos + BLANKS_HELD + 1)
        if ink is None:
            if not final and len(text) - pos <= BLANKS_HELD:
                return None
            self._leave_start()
            return pos
        if not final and lead.may_grow(text, ink.start()):
            return None
        match = lead.at(text, ink.start())
        if match is None:
            self._leave_start()
            return pos
        if match.group() in self._format.open:
            self._enter_block()
        else:
            self._enter_content(edge=True)
        return match.end()

    def _leave_start(self) -> None:
        if self._field is Field.CONTENT:
            self._enter_content(edge=False)
            return
        live = self._format.close
        if self._tools:
            live += self._format.interrupts
        if not self._opened:
            live += self._format.open
        self._lead = None
        self._live = _live(live)
        self._edge = self._template

    def _act(self, text: str, pos: int, match: re.Match[str], out: list[Piece]) -> int:
        """Emit the text before a live marker, change state, and say where to go on."""
        at, marker = match.start(), match.group()
        if marker in self._format.open:
            _emit(out, self._field, text[pos:at])
            self._enter_block()
            return match.end()
        if self._field is Field.CONTENT:
            _emit(out, Field.CONTENT, text[pos:at])
            return match.end()
        _emit(out, Field.REASONING, text[pos : _before_newlines(text, pos, at) if self._template else at])
        closed = marker in self._format.close
        self._enter_content(edge=closed)
        return match.end() if closed else at

    def _enter_block(self) -> None:
        self._field = Field.REASONING
        self._opened = True
        self._untouched = False
        self._lead = _live(self._format.open)

    def _enter_content(self, *, edge: bool) -> None:
        live: tuple[str, ...] = ()
        if not self._untouched:
            if self._format.late_close == "drop":
                live += self._format.close
            if self._format.reopen:
                live += self._format.open
        self._field = Field.CONTENT
        self._lead = None
        self._live = _live(live)
        self._edge = edge and self._template


def _emit(out: list[Piece], field: Field, text: str) -> None:
    if text:
        out.append(Piece(field, text))


def _before_newlines(text: str, pos: int, end: int) -> int:
    """Where the newlines that end text[pos:end] begin, looking back no further than `BLANKS_HELD`."""
    low = max(pos, end - BLANKS_HELD)
    while end > low and text[end - 1] == "\n":
        end -= 1
    return end
