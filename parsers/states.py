"""A format as a table of states: which markers count where, and what each does.

Built once for each (format, tools) and shared by every machine. What must not come in: text, and anything that
changes while an output is read.
"""

from collections.abc import Iterable
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from parsers.format import Format
from parsers.markers import Markers
from parsers.pieces import Field


class Action(Enum):
    OPEN = auto()
    """A reasoning block begins; what else opens it (repeated markers, the label) may follow."""
    LABEL = auto()
    """The label of the block just begun vanishes."""
    CLOSE = auto()
    """Reasoning ends."""
    VANISH = auto()
    """A late close marker vanishes from the answer, alone."""
    WRAP = auto()
    """The answer's wrapper vanishes, with the newlines beside it; reasoning ends if it has not."""
    INTERRUPT = auto()
    """Reasoning ends before a tool call."""
    SPAN = auto()
    """A tool call inside reasoning begins."""
    SPAN_END = auto()
    """It ends, and reasoning goes on."""


class State:
    """Where a stream stands, and the markers that count there."""

    __slots__ = ("_with_newline", "actions", "field", "markers", "trims")

    def __init__(
        self,
        field: Field,
        *actions: tuple[Iterable[str], Action],
        ends: tuple[str, ...] = (),
        trims: bool = False,
    ) -> None:
        """`trims`: newlines in front of a marker may belong to it. Of one marker's actions the first counts."""
        self.field: Final = field
        self.actions: Final = {marker: action for markers, action in reversed(actions) for marker in markers}
        self.markers: Final = Markers(self.actions, ends)
        self.trims: Final = trims
        self._with_newline = self.markers.firsts | {"\n"} if trims else self.markers.firsts

    def quick(self, template: bool) -> frozenset[str]:
        """A text without these characters holds nothing to look for. Empty: nothing ever is."""
        return self._with_newline if template else self.markers.firsts


class States:
    """The states of one format."""

    __slots__ = (
        "begin_block",
        "begin_closed",
        "begin_off",
        "begin_open",
        "content",
        "off",
        "opened",
        "prompted",
        "spans",
    )

    def __init__(self, form: Format, tools: bool) -> None:
        ends = form.end_tokens
        interrupts = form.interrupts if tools else ()
        label = (form.open_label,) if form.open_label else ()
        stub = form.open_label.rstrip()
        closed_label = tuple(stub + close for close in form.close) if stub else ()
        at_line_start = interrupts if form.interrupt_at == "line_start" else ()
        opens = (form.open, Action.OPEN)
        wraps = ((*form.content_open, *form.drop), Action.WRAP)

        # Where an output or a block begins: leading blanks are withheld until it is clear what stands there.
        self.begin_off: Final = State(Field.CONTENT, opens)
        stray = form.close if form.lead_close == "drop" else ()
        self.begin_closed: Final = State(Field.CONTENT, opens, (label, Action.OPEN), (stray, Action.CLOSE))
        block = (opens, (label, Action.LABEL), (closed_label, Action.CLOSE), (at_line_start, Action.INTERRUPT))
        self.begin_open: Final = State(Field.REASONING, *block)
        self.begin_block: Final = State(Field.REASONING, *block)

        inside = (
            (form.close, Action.CLOSE),
            (form.content_open, Action.WRAP),
            (interrupts, Action.INTERRUPT),
            ((begin for begin, _ in form.spans), Action.SPAN),
        )
        inside = tuple((tuple(markers), action) for markers, action in inside)
        self.opened: Final = State(Field.REASONING, *inside, ends=ends, trims=True)
        self.prompted: Final = State(Field.REASONING, *inside, opens, ends=ends, trims=True)
        self.spans: Final = {begin: State(Field.CONTENT, ((end,), Action.SPAN_END)) for begin, end in form.spans}

        late = form.close if form.late_close == "drop" else ()
        again = form.open if form.reopen else ()
        trims = bool(form.drop)
        self.content: Final = State(
            Field.CONTENT, (again, Action.OPEN), wraps, (late, Action.VANISH), ends=ends, trims=trims
        )
        self.off: Final = State(Field.CONTENT, wraps, ends=ends, trims=trims)


@lru_cache(maxsize=256)
def states_of(form: Format, tools: bool) -> States:
    return States(form, tools)
