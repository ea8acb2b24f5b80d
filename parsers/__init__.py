"""Reasoning parsers: model text in, pieces of reasoning and content out.

Formats are data (`format`, `records`, `records_tokens`; `mapping` reads a user's), names lead to them (`names`), where
an output starts is resolved once for each request (`start`), one streaming machine runs every literal-marker format
(`machine`) and one every message-framed format (`framed`), and a normaliser for each choice leaves alone what the
engine has already split (`choice`). Synchronous, deterministic, without I/O: the same text gives the same pieces under
any chunking.
"""

from parsers.choice import ChoiceParser
from parsers.engine_fields import read_content, read_reasoning
from parsers.format import Format, Framing
from parsers.framed import FramedMachine
from parsers.machine import Machine
from parsers.machines import machine_for
from parsers.mapping import BadFormat, format_from_mapping
from parsers.names import FORMATS, UnknownFormat, detect, lookup
from parsers.pieces import BLANKS_HELD, Field, Parser, Piece, Whitespace
from parsers.records import NONE
from parsers.start import Start, resolve_start

__all__ = [
    "BLANKS_HELD",
    "FORMATS",
    "NONE",
    "BadFormat",
    "ChoiceParser",
    "Field",
    "Format",
    "FramedMachine",
    "Framing",
    "Machine",
    "Parser",
    "Piece",
    "Start",
    "UnknownFormat",
    "Whitespace",
    "detect",
    "format_from_mapping",
    "lookup",
    "machine_for",
    "read_content",
    "read_reasoning",
    "resolve_start",
]
