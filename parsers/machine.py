"""The streaming machine: one model output, in any chunking, into pieces of reasoning and content.

It runs any `Format` whose markers are literal text; `parsers.framed` runs the others. What must not come in: family
names, engine dialects, response fields, I/O. Which markers count where is a table (`parsers.states`).

A whole output is `feed(all)` and `finish()`, so streaming and non-streaming cannot differ. The rules:

* The first marker that is live in the present state acts. The first close marker ends reasoning, quoted or not, since
  text alone cannot tell; inside a block that was opened in so many words, a further open marker is text.
* Where the output or a block begins, repeated open markers vanish, with the blanks in front of them. Text before an
  open marker is content when the output starts outside, and then the marker is text too unless the format reopens;
  when the output starts inside it is reasoning, and the marker vanishes.
* `Start.CLOSED`: one stray close marker at the very beginning vanishes. `Start.OFF`: only an open marker at the very
  beginning counts; without one only the answer's wrappers are taken off.
* Tool markers end reasoning only if the request carries tools, and stay in the content.
* `structured`: a grammar may hold from the first character, so an output that starts inside with `{` or `[` is content.
* Whitespace `template`: newlines directly after an open marker, before and after a close marker or a wrapper are the
  chat template's and vanish, so a block of newlines only is no reasoning at all. `verbatim` keeps them.
* Withheld is only what may still become a live marker, leading blanks, and newlines that may stand before a marker,
  the latter two up to `BLANKS_HELD`: beyond that they are text like any other. `finish` emits what is withheld.

Not here: blanks other than newlines before a tool call need the tool parser; hiding reasoning, stop strings and log
probabilities belong to those who write the response.
"""

import re
from typing import Final

from parsers.format import Format
from parsers.pieces import BLANKS_HELD, SHORT, Field, Piece, Whitespace, make_piece
from parsers.start import Start
from parsers.states import Action, State, states_of

_INK: Final = re.compile(r"\S")
_TOKEN_MIN: Final = 3  # so much of a marker is not prose: `<` and `<|` may be


class Machine:
    """One choice's parser. A generation continued elsewhere keeps feeding the same machine; `finish` is for the end."""

    __slots__ = (
        "_edge",
        "_form",
        "_held",
        "_is_beginning",
        "_is_off",
        "_quick",
        "_state",
        "_states",
        "_structured",
        "_taken",
        "_template",
        "_thought",
        "field",
    )

    def __init__(
        self,
        format: Format,  # noqa: A002 - the field's word
        start: Start,
        *,
        tools: bool = False,
        whitespace: Whitespace | None = None,
        structured: bool = False,
    ) -> None:
        self._form = format
        self._structured = structured
        self._template = (whitespace or format.whitespace) == "template"
        self._states = states_of(format, tools)
        self._taken: list[str] = []
        self._thought: list[str] | None = [] if format.on_no_close == "content" else None
        self._held = ""
        self._edge = False  # newlines met now belong to the marker just passed
        self._is_off = start is Start.OFF or not format.open
        self._is_beginning = False
        self._state = self._states.off
        self.field = Field.CONTENT
        if format.open:
            begins = {Start.OFF: self._states.begin_off, Start.CLOSED: self._states.begin_closed}
            self._begin(begins.get(start, self._states.begin_open))
        # A chunk without these characters flows through. None: no chunk does.
        self._quick: frozenset[str] | None = None if self._is_beginning else frozenset()

    @property
    def untouched(self) -> bool:
        """Whether the output began without a marker, and only one at the beginning could have made it reasoning."""
        return self._is_off and not self._is_beginning

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
        quick = self._quick
        if quick is not None and (not quick or (len(text) <= SHORT and quick.isdisjoint(text))):
            pieces = [make_piece((self.field, text))]
        else:
            pieces = self._scan(self._held + text, final=False)
        if self._thought is not None:
            self._remember(pieces)
        return pieces

    def finish(self) -> list[Piece]:
        """The output is complete: what was withheld is text after all."""
        pieces = self._scan(self._held, final=True)
        if self._thought is not None:
            self._remember(pieces)
            if self._thought and self.field is Field.REASONING:
                pieces.append(Piece(Field.CONTENT, "".join(self._thought)))
                self._thought = None
        return pieces

    def _remember(self, pieces: list[Piece]) -> None:
        if self._thought is None or any(piece.field is Field.CONTENT for piece in pieces):
            self._thought = None
        else:
            self._thought += [piece.text for piece in pieces]

    def _scan(self, text: str, *, final: bool) -> list[Piece]:
        out: list[Piece] = []
        pos, end = 0, len(text)
        while pos < end:
            if self._is_beginning:
                after = self._lead(text, pos, out, final=final)
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
            state, markers = self._state, self._state.markers
            match = self._find(text, pos)
            keep = end if final else markers.tail(text, pos)
            if match and match.start() < keep:
                pos = self._act(text, pos, match, out)
                continue
            if final:
                keep = self._end(text, pos)
            elif self._template and state.trims:
                keep = _before_newlines(text, pos, keep)
            _emit(out, self.field, text[pos:keep])
            pos = keep
            break
        self._held = "" if final else text[pos:]
        is_settled = not (self._held or self._edge or self._is_beginning)
        self._quick = self._state.quick(self._template) if is_settled else None
        return out

    def _lead(self, text: str, pos: int, out: list[Piece], *, final: bool) -> int | None:
        """At a beginning: take a marker, or leave it, and say where to go on. None: more text is needed."""
        markers = self._state.markers
        ink = _INK.search(text, pos, pos + BLANKS_HELD + 1)
        if ink is None:
            if not final and len(text) - pos <= BLANKS_HELD:
                return None
            self._leave_beginning()
            return pos
        if not final and markers.may_grow(text, ink.start()):
            return None
        match = markers.at(text, ink.start())
        if match is None:
            if self._structured and text[ink.start()] in "{[" and self._state is self._states.begin_open:
                self._enter(self._states.content)
                return pos
            stub = self._form.open_label.rstrip()
            is_stub = final and bool(stub) and self.field is Field.REASONING and text[ink.start() :] == stub
            self._leave_beginning()
            return len(text) if is_stub else pos
        action = self._state.actions[match.group()]
        if action is Action.OPEN:
            self._is_off = False
            self._begin(self._states.begin_block)
            return match.end()
        if action is Action.LABEL:
            self._enter(self._states.opened, edge=True)
            return match.end()
        if action is Action.CLOSE:
            self._enter(self._states.content, edge=True)
            return match.end()
        blanks = text[pos : match.start()]
        _emit(out, self.field, blanks.strip("\n") if self._template else blanks)
        self._enter(self._states.content)
        return match.start()

    def _leave_beginning(self) -> None:
        if self.field is Field.CONTENT:
            self._enter(self._states.off if self._is_off else self._states.content)
        elif self._state is self._states.begin_open:
            self._enter(self._states.prompted, edge=True)
        else:
            self._enter(self._states.opened, edge=True)

    def _act(self, text: str, pos: int, match: re.Match[str], out: list[Piece]) -> int:
        """Emit the text before a live marker, change state, and say where to go on."""
        at, marker = match.start(), match.group()
        action = self._state.actions[marker]
        stop = match.end() if action is Action.SPAN_END else at
        if self._template and action in _TRIMMING:
            stop = _before_newlines(text, pos, at)
        _emit(out, self.field, text[pos:stop])
        match action:
            case Action.OPEN:
                self._begin(self._states.begin_block)
            case Action.CLOSE:
                self._enter(self._states.content, edge=True)
            case Action.WRAP:
                self._enter(self._states.off if self._is_off else self._states.content, edge=True)
            case Action.INTERRUPT:
                self._enter(self._states.content)
                return at
            case Action.SPAN:
                self._enter(self._states.spans[marker])
                return at
            case Action.SPAN_END:
                self._enter(self._states.opened)
            case _:  # it vanishes, and nothing changes
                pass
        return match.end()

    def _begin(self, state: State) -> None:
        self._is_beginning = True
        self._edge = False
        self._state = state
        self.field = state.field

    def _enter(self, state: State, *, edge: bool = False) -> None:
        self._is_beginning = False
        self._state = state
        self.field = state.field
        self._edge = edge and self._template

    def _find(self, text: str, pos: int) -> re.Match[str] | None:
        markers = self._state.markers
        match = markers.find(text, pos)
        if self._form.interrupt_at == "line_start":
            while match and self._is_quoted(text, match):
                match = markers.find(text, match.start() + 1)
        return match

    def _is_quoted(self, text: str, match: re.Match[str]) -> bool:
        """Whether it is a tool marker in the midst of a line. `text` is the end of what was taken in."""
        if self._state.actions[match.group()] is not Action.INTERRUPT:
            return False
        if match.start():
            return text[match.start() - 1] != "\n"
        back = len(text) + 1
        for chunk in reversed(self._taken):
            if back <= len(chunk):
                return chunk[-back] != "\n"
            back -= len(chunk)
        return False

    def _end(self, text: str, pos: int) -> int:
        """Where the output ends without its end token, or the half marker it was cut in."""
        markers = self._state.markers
        end = markers.without_end(text, pos)
        if end == len(text) and self._form.tail == "drop":
            tail = markers.tail(text, pos)
            return tail if end - tail >= _TOKEN_MIN else end
        return end


_TRIMMING: Final = frozenset((Action.CLOSE, Action.WRAP, Action.INTERRUPT))


def _emit(out: list[Piece], field: Field, text: str) -> None:
    if text:
        out.append(make_piece((field, text)))


def _before_newlines(text: str, pos: int, end: int) -> int:
    """Where the newlines that end text[pos:end] begin, looking back no further than `BLANKS_HELD`."""
    low = max(pos, end - BLANKS_HELD)
    while end > low and text[end - 1] == "\n":
        end -= 1
    return end
