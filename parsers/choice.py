"""One choice of a response: text the engine has split is passed on, text it has not split is parsed.

Parsing a second time what an engine has split files clean answers as reasoning; not parsing what it has not split
shows thoughts to users. Which of the two it is, this file decides, once for each choice. What must not come in:
names of response fields (see `parsers.engine_fields`), and parsing itself.
"""

from typing import Final

from parsers.format import Format
from parsers.machines import machine_for
from parsers.pieces import Field, Piece, Whitespace, make_piece
from parsers.start import Start

# Looking a member up in its class costs as much as making a piece.
_REASONING: Final = Field.REASONING
_CONTENT: Final = Field.CONTENT


class ChoiceParser:
    """Turns (reasoning, content) as the engine sent them into pieces.

    `engine_splits` is what is known of the engine's own reasoning parser:

    * True: it has one. Content is content, even when the output starts inside reasoning and no reasoning ever comes;
      only content that begins with an explicit open marker, before any reasoning, shows that it is not at work.
    * False: it has none. Content always goes through the machine.
    * None: unknown. Content goes through the machine until the first non-empty reasoning. An engine that splits, starts
      inside, and answers without a thought is misread here: so find out, and say it.
    """

    __slots__ = ("_engine_splits", "_field", "_machine", "_passing")

    def __init__(
        self,
        format: Format,  # noqa: A002 - the field's word
        start: Start,
        *,
        tools: bool = False,
        whitespace: Whitespace | None = None,
        structured: bool = False,
        engine_splits: bool | None = None,
    ) -> None:
        self._engine_splits = engine_splits
        self._machine = machine_for(
            format,
            Start.OFF if engine_splits else start,
            tools=tools,
            whitespace=whitespace,
            structured=structured,
        )
        self._passing = False
        self._field = Field.CONTENT  # the last field the engine sent; read while passing only

    @property
    def passing(self) -> bool:
        """Whether the engine's own split is taken as it is."""
        return self._passing

    @property
    def field(self) -> Field:
        """Where the choice stands now."""
        return self._field if self._passing else self._machine.field

    @property
    def consumed(self) -> str | None:
        """The raw text taken in; None when the engine splits, and the raw text is therefore not known here."""
        return None if self._passing else self._machine.consumed

    def feed(self, *, reasoning: str | None = None, content: str | None = None) -> list[Piece]:
        """One delta or message. When it holds both fields, the reasoning came first."""
        if self._passing:
            return self._pass(reasoning, content)
        if reasoning and self._engine_splits is not False:
            pieces = self._machine.finish()
            self._passing = True
            return pieces + self._pass(reasoning, content)
        pieces = [Piece(Field.REASONING, reasoning)] if reasoning else []
        if content:
            pieces += self._machine.feed(content)
            if self._engine_splits and self._machine.untouched:
                self._passing = True
        return pieces

    def finish(self) -> list[Piece]:
        return [] if self._passing else self._machine.finish()

    def _pass(self, reasoning: str | None, content: str | None) -> list[Piece]:
        if content:
            self._field = _CONTENT
            piece = make_piece((_CONTENT, content))
            return [make_piece((_REASONING, reasoning)), piece] if reasoning else [piece]
        if reasoning:
            self._field = _REASONING
            return [make_piece((_REASONING, reasoning))]
        return []
