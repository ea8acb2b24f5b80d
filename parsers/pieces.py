"""The vocabulary of the room: what a parser is fed, what it gives back, and what every parser can be asked.

What must not come in: markers, families, behaviour.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Final, Literal, NamedTuple, Protocol

Whitespace = Literal["template", "verbatim"]
"""`template`: newlines beside a marker were written by the chat template and vanish with it. `verbatim` keeps them."""

BLANKS_HELD: Final = 32
"""How many blanks may be withheld. A model that loops on newlines must stay visible to client and loop detector."""


class Field(StrEnum):
    REASONING = "reasoning"
    CONTENT = "content"


class Piece(NamedTuple):
    """Text of one field, never empty."""

    field: Field
    text: str


make_piece: Final[Callable[[tuple[Field, str]], Piece]] = partial(tuple.__new__, Piece)  # pyright: ignore[reportUnknownMemberType]
"""The same as `Piece(field, text)` in half the time: one is made for every token."""

SHORT: Final = 64
"""Up to so many characters, looking at each is cheaper than a search."""


class Parser(Protocol):
    """One choice of one response. The same text gives the same split under any chunking, and nothing ever raises."""

    @property
    def field(self) -> Field:
        """Where the stream stands now. Withheld text may still move it."""
        ...

    @property
    def untouched(self) -> bool:
        """Whether the output began without a marker though nothing but one could have made it reasoning."""
        ...

    @property
    def consumed(self) -> str:
        """All text taken in, markers included: what a continuation must start from."""
        ...

    def feed(self, text: str) -> list[Piece]: ...

    def finish(self) -> list[Piece]:
        """The output is complete: what was withheld is text after all."""
        ...
