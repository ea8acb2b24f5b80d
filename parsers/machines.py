"""Which machine runs a format. What must not come in: anything else."""

from parsers.format import Format
from parsers.framed import FramedMachine
from parsers.machine import Machine
from parsers.pieces import Parser, Whitespace
from parsers.start import Start


def machine_for(
    format: Format,  # noqa: A002 - the field's word
    start: Start,
    *,
    tools: bool = False,
    whitespace: Whitespace | None = None,
    structured: bool = False,
) -> Parser:
    """A parser for one choice. `whitespace` overrides the record's; `tools` and `structured` are the request's."""
    if format.framing is not None:
        return FramedMachine(format.framing, start, tools=tools)
    return Machine(format, start, tools=tools, whitespace=whitespace, structured=structured)
