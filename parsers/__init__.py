"""Reasoning parsers: model text in, pieces of reasoning and content out.

Formats are data (`formats`), where an output starts is resolved once for each request (`start`), one streaming machine
runs every literal-marker format (`machine`), and a normaliser for each choice leaves alone what the engine has already
split (`choice`). Synchronous, deterministic, without I/O: the same text gives the same pieces under any chunking.
"""

from parsers.choice import ChoiceParser
from parsers.formats import FORMATS, NONE, Format, UnknownFormat, detect, lookup
from parsers.machine import BLANKS_HELD, Field, Machine, Piece, Whitespace
from parsers.reasoning_field import read_reasoning
from parsers.start import Start, resolve_start

__all__ = [
    "BLANKS_HELD",
    "FORMATS",
    "NONE",
    "ChoiceParser",
    "Field",
    "Format",
    "Machine",
    "Piece",
    "Start",
    "UnknownFormat",
    "Whitespace",
    "detect",
    "lookup",
    "read_reasoning",
    "resolve_start",
]
