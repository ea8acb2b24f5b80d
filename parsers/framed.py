"""Message-framed outputs: every message has a header, and the header says whether it is a thought or an answer.

One machine for all such conventions, with the face of `parsers.machine.Machine`; the conventions are `Framing` data.
What must not come in: names of channels, recipients or tokens. The rules:

* Control tokens never reach the reader, wherever they stand. Text outside any message is content.
* A header that cannot be one (too long, or with other words in it) was text: its words are content.
* A message addressed to a tool stays, header and all, in the content if the request carries tools, for a tool parser;
  otherwise it is nobody's and not shown.
* An output that ends inside a header shows the header if there is nothing else, so that it is never empty.
* `Start.OPEN`: the first message is reasoning. `Start.OFF`: an output that does not begin with a token is untouched.
* Withheld is what may still become a token, and a header until its end, up to `HEADER_HELD`.
"""

import re
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from parsers.format import Framing, Verdict
from parsers.markers import Markers
from parsers.pieces import BLANKS_HELD, SHORT, Field, Piece, make_piece
from parsers.start import Start

HEADER_HELD: Final = 160
"""How long a header may be, tokens included."""

_INK: Final = re.compile(r"\S")


class _Kind(Enum):
    BEGIN = auto()
    BODY = auto()
    END = auto()
    INNER = auto()


class _State(Enum):
    LEAD = auto()  # nothing but blanks so far
    TEXT = auto()  # outside any message
    HEADER = auto()
    BODY = auto()
    FREE = auto()  # tokens are not looked for


class _Grammar:
    """A framing, compiled."""

    __slots__ = ("bodies", "framing", "header", "kinds", "markers", "reasoning", "tool")

    def __init__(self, framing: Framing) -> None:
        self.framing = framing
        self.bodies = dict(framing.bodies)
        self.kinds = {
            **dict.fromkeys(framing.inner, _Kind.INNER),
            **dict.fromkeys(framing.end, _Kind.END),
            **dict.fromkeys(framing.begin, _Kind.BEGIN),
            **dict.fromkeys(self.bodies, _Kind.BODY),
        }
        self.markers = Markers(self.kinds)
        self.header, self.reasoning, self.tool = (
            re.compile(pattern, re.DOTALL) for pattern in (framing.header, framing.reasoning, framing.tool)
        )

    def judge(self, header: str) -> Verdict:
        if self.tool.search(header):
            return "tool"
        return "reasoning" if self.reasoning.search(header) else "content"


@lru_cache(maxsize=64)
def _grammar(framing: Framing) -> _Grammar:
    return _Grammar(framing)


class FramedMachine:
    """One choice's parser."""

    __slots__ = (
        "_grammar",
        "_has_shown",
        "_header",
        "_held",
        "_is_off",
        "_quick",
        "_state",
        "_taken",
        "_tools",
        "_verdict",
        "_words",
        "field",
    )

    def __init__(self, framing: Framing, start: Start, *, tools: bool = False) -> None:
        self._grammar = _grammar(framing)
        self._tools = tools
        self._is_off = start is Start.OFF
        self._state = _State.BODY if start is Start.OPEN else _State.LEAD
        self._verdict: Verdict = "reasoning" if start is Start.OPEN else "content"
        self._header = ""  # as it came
        self._words = ""  # the same without tokens
        self._held = ""
        self._has_shown = False
        self._taken: list[str] = []
        self._quick: frozenset[str] | None = None  # a chunk without these characters flows through; None: no chunk does
        self.field = Field.REASONING if start is Start.OPEN else Field.CONTENT

    @property
    def untouched(self) -> bool:
        return self._state is _State.FREE

    @property
    def consumed(self) -> str:
        if len(self._taken) > 1:
            self._taken = ["".join(self._taken)]
        return self._taken[0] if self._taken else ""

    def feed(self, text: str) -> list[Piece]:
        if not text:
            return []
        self._taken.append(text)
        quick = self._quick
        if quick is not None and (not quick or (len(text) <= SHORT and quick.isdisjoint(text))):
            self._has_shown = True
            return [make_piece((self.field, text))]
        return self._scan(self._held + text, final=False)

    def finish(self) -> list[Piece]:
        return self._scan(self._held, final=True)

    def _scan(self, text: str, *, final: bool) -> list[Piece]:
        out: list[Piece] = []
        pos, end = 0, len(text)
        while pos < end:
            if self._state is _State.LEAD:
                after = self._lead(text, pos, final=final)
                if after is None:
                    break
                pos = after
                continue
            if self._state is _State.FREE:
                self._show(out, Field.CONTENT, text[pos:])
                pos = end
                break
            markers = self._grammar.markers
            match = markers.find(text, pos)
            keep = end if final else markers.tail(text, pos)
            if match and match.start() < keep:
                self._take_text(text[pos : match.start()], out)
                self._take_token(match.group(), out)
                pos = match.end()
                continue
            self._take_text(text[pos:keep], out)
            pos = keep
            break
        self._held = text[pos:]
        if final and self._state is _State.HEADER:
            if self._has_shown:
                self._leave_header(out)
            else:
                self._show(out, Field.CONTENT, self._header)
            self._state = _State.TEXT
        self._settle()
        return out

    def _settle(self) -> None:
        """Note where the stream stands, for the chunks that change nothing."""
        is_in_body = self._state is _State.BODY
        self.field = Field.REASONING if is_in_body and self._verdict == "reasoning" else Field.CONTENT
        if self._state is _State.FREE:
            self._quick = frozenset()
        elif not self._held and (self._state is _State.TEXT or (is_in_body and self._verdict != "tool")):
            self._quick = self._grammar.markers.firsts
        else:
            self._quick = None

    def _lead(self, text: str, pos: int, *, final: bool) -> int | None:
        """Where nothing has come yet: decide what begins, and say where to go on. None: more text is needed."""
        framing = self._grammar.framing
        ink = _INK.search(text, pos, pos + BLANKS_HELD + 1)
        if ink is None:
            if not final and len(text) - pos <= BLANKS_HELD:
                return None
            self._state = _State.FREE if self._is_off else _State.TEXT
            return pos
        at = ink.start()
        if not final and self._grammar.markers.may_grow(text, at):
            return None
        if self._grammar.markers.at(text, at):
            self._state = _State.TEXT
            return pos
        if self._is_off:
            self._state = _State.FREE
            return pos
        words = (framing.implied, *(word for word, _, _ in framing.stripped_lead))
        if not final and any(word.startswith(text[at:]) for word in words):
            return None
        if framing.implied and text.startswith(framing.implied, at):
            self._begin_header("")
            return pos
        if framing.stripped is not None:
            for word, following, verdict in framing.stripped_lead:
                if text.startswith(word, at) and re.compile(following).match(text, at + len(word)):
                    self._grammar = _grammar(framing.stripped)
                    self._state = _State.BODY
                    self._verdict = verdict
                    return at + len(word)
        self._state = _State.TEXT
        return pos

    def _take_text(self, text: str, out: list[Piece]) -> None:
        if self._state is _State.HEADER:
            self._header += text
            self._words += text
            self._bound_header(out)
        elif self._state is _State.TEXT or self._verdict == "content":
            self._show(out, Field.CONTENT, text)
        elif self._verdict == "reasoning":
            self._show(out, Field.REASONING, text)
        elif self._tools:
            self._show(out, Field.CONTENT, text)

    def _take_token(self, token: str, out: list[Piece]) -> None:
        match self._grammar.kinds[token]:
            case _Kind.BODY:
                self._take_body_token(token, out)
            case _Kind.END:
                if self._state is _State.HEADER:
                    self._leave_header(out)
                elif self._state is _State.BODY and self._verdict == "tool" and self._tools:
                    self._show(out, Field.CONTENT, token)
                self._state = _State.TEXT
            case _Kind.BEGIN if self._state is not _State.HEADER:
                self._begin_header(token)
            case _:
                if self._state is _State.HEADER:
                    self._header += token
                    self._bound_header(out)

    def _take_body_token(self, token: str, out: list[Piece]) -> None:
        verdict = self._grammar.bodies[token]
        header = ""
        if self._state is _State.HEADER:
            header = self._header
            verdict = verdict or self._grammar.judge(header)
        elif verdict is None:  # without a header: a token gone astray
            verdict = "content" if self._state is _State.TEXT else self._verdict
        if verdict == "tool" and self._tools:
            self._show(out, Field.CONTENT, header + token)
        elif self._state is _State.HEADER:
            self._leave_header(out)
        self._state = _State.BODY
        self._verdict = verdict

    def _begin_header(self, token: str) -> None:
        self._state = _State.HEADER
        self._header = token
        self._words = ""

    def _bound_header(self, out: list[Piece]) -> None:
        if len(self._header) > HEADER_HELD:
            self._show(out, Field.CONTENT, self._words)
            self._state = _State.TEXT

    def _leave_header(self, out: list[Piece]) -> None:
        if not self._grammar.header.fullmatch(self._words):
            self._show(out, Field.CONTENT, self._words)

    def _show(self, out: list[Piece], field: Field, text: str) -> None:
        if text:
            out.append(Piece(field, text))
            self._has_shown = True
