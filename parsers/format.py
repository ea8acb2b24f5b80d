"""What a reasoning format is: one frozen record, read by the machines, the start resolver and the look-ups.

Everything a family does differently is a field here, so a new family is a new record (`parsers.records`) and never
new code. What must not come in: parsing, and the families themselves.
"""

from dataclasses import dataclass
from typing import Final, Literal

from parsers.pieces import Whitespace

SwitchValue = bool | int | str
EFFORTS: Final = ("minimal", "low", "medium", "high", "xhigh", "max")
"""All words for an effort, weakest first."""

_STRENGTH: Final = {word: rank for rank, word in enumerate(EFFORTS)}
Verdict = Literal["reasoning", "content", "tool"]


@dataclass(frozen=True)
class Framing:
    """A convention in which every message carries a header, and the header says whose it is.

    All strings but the three patterns are control tokens: they never reach the reader, wherever they stand.
    """

    begin: tuple[str, ...]
    """Tokens that begin a header. Inside a header they belong to it; in a message they end it."""

    bodies: tuple[tuple[str, Verdict | None], ...]
    """Tokens that end the header and begin the text, with what the text then is; None: the header decides."""

    end: tuple[str, ...]
    """Tokens that end a message."""

    inner: tuple[str, ...] = ()
    """Further tokens that may stand in a header."""

    reasoning: str = r"(?!)"
    """Pattern searched in a header: the message is reasoning."""

    tool: str = r"(?!)"
    """Pattern searched in a header, before `reasoning`: the message is a tool call."""

    header: str = r"\s*(?:assistant)*\s*"
    """Pattern of a well-formed header without its tokens. Other text there is shown, since it may be an answer."""

    implied: str = ""
    """How a header begins whose `begin` token the prompt holds; empty: not at all."""

    stripped: "Framing | None" = None
    """How the same convention reads once an engine has removed its special tokens."""

    stripped_lead: tuple[tuple[str, str, Verdict], ...] = ()
    """Words an output then begins with, a pattern of the character that must follow, and what the text is."""


@dataclass(frozen=True)
class Format:
    """One family's convention."""

    id: str
    models: str = ""
    """The models it is for, in words."""

    aliases: tuple[str, ...] = ()
    """Names of the same convention in engines (`--reasoning-parser`); compared without case, `-` equal to `_`."""

    open: tuple[str, ...] = ("<think>",)
    """Markers that begin reasoning, the usual one first. Empty: the model does not think; its text is untouched."""

    close: tuple[str, ...] = ("</think>",)
    """Markers that end reasoning, the usual one first."""

    open_label: str = ""
    """Text that may follow an open marker and goes with it; at the very beginning of an output it may stand for it."""

    start: Literal["open", "closed"] = "open"
    """Where the output starts while thinking is on: `open` when the chat template already wrote the open marker."""

    start_unasked: Literal["open", "closed"] | None = None
    """The same for a request that does not say whether to think; None: as `start`."""

    switch: tuple[str, ...] = ()
    """Template arguments that turn thinking on and off, the preferred one first. Empty: it cannot be turned off."""

    switch_on: SwitchValue = True
    """What the arguments are set to for thinking."""

    switch_off: SwitchValue = False
    """What the arguments are set to for no thinking."""

    efforts: tuple[str, ...] = ()
    """Words the family reads as `reasoning_effort`, weakest first. Empty: it heeds none."""

    default_on: bool = True
    """Whether the model thinks when a request does not say."""

    interrupts: tuple[str, ...] = ()
    """Tool-call markers that end reasoning and stay in the content. Only the outer wrapper of a call belongs here."""

    interrupt_at: Literal["anywhere", "line_start"] = "anywhere"
    """Where they count: `line_start` for models that quote them in their thoughts."""

    spans: tuple[tuple[str, str], ...] = ()
    """Pairs around tool calls inside reasoning: content, markers included, after which the reasoning goes on."""

    content_open: tuple[str, ...] = ()
    """Markers that begin the answer: they end reasoning and vanish."""

    drop: tuple[str, ...] = ()
    """Markers that vanish from the answer."""

    reopen: bool = False
    """Whether an open marker in the answer begins another reasoning block, or is text like any other."""

    late_close: Literal["keep", "drop"] = "keep"
    """What becomes of a close marker in the answer: `drop` where it cannot be quoted, or is known to be repeated."""

    lead_close: Literal["keep", "drop"] = "drop"
    """What becomes of a close marker that begins an output outside reasoning: `keep` where it may be prose."""

    whitespace: Whitespace = "template"
    """What becomes of newlines beside markers, unless a caller says otherwise."""

    on_no_close: Literal["reasoning", "content"] = "reasoning"
    """`content`: reasoning that never ended is given once more as content at the end, so that there is an answer."""

    tail: Literal["emit", "drop"] = "emit"
    """What becomes of half a marker at the end: `drop` for markers of several tokens, which are cut in the middle."""

    end_tokens: tuple[str, ...] = ()
    """Tokens that end a turn; one of them vanishes from the very end of the output."""

    needs_special_tokens: bool = False
    """Whether the engine must be told not to skip special tokens, or the markers never reach the text."""

    answer_open: str = "\n\n"
    """What stands between the close marker and the answer."""

    framing: Framing | None = None
    """For message-framed families; their markers above then serve only to read prompts and to continue thoughts."""

    @property
    def closing(self) -> str:
        """What to write after a thought to go on to its answer."""
        return self.close[0] + self.answer_open if self.close else ""

    def effort_for(self, level: str) -> str | None:
        """The family's word for an effort: the weakest that is no weaker, else its strongest; None if it heeds none."""
        asked = _STRENGTH.get(level, 0)
        strong = (word for word in self.efforts if _STRENGTH[word] >= asked)
        return next(strong, self.efforts[-1]) if self.efforts else None

    def switch_kwargs(self, on: bool) -> dict[str, SwitchValue]:
        """The template arguments that turn thinking on or off."""
        return dict.fromkeys(self.switch, self.switch_on if on else self.switch_off)
