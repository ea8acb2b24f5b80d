"""Where one output starts: inside reasoning, before it, or with thinking off.

Nothing in the generated text tells an answer from a thought whose open marker stands in the prompt, so this is
decided before the first character. What must not come in: rendering of templates, and reading of request bodies
(the caller has already turned every dialect into one yes, no or not said).
"""

from enum import StrEnum
from typing import Final

from parsers.format import Format


class Start(StrEnum):
    OPEN = "open"
    """Inside reasoning: the prompt ends in the open marker."""

    CLOSED = "closed"
    """Outside: the model writes its own open marker, or answers at once."""

    OFF = "off"
    """Thinking was turned off: all is answer, unless the output itself begins with an open marker."""


# What chat templates write where the assistant's turn begins. Markers before it are someone else's text.
_TURN_BEGINS: Final = (
    "<|im_start|>assistant",
    "<|assistant|>",
    "<｜Assistant｜>",
    "<|im_assistant|>assistant",
    "<assistant>",
    "<SPECIAL_11>Assistant",
    "]~b]ai",
    "[|assistant|]",
    "[/INST]",
    "<|start|>assistant",
    "<|begin|>assistant",
    "<|message_model|>",
    "<|turn>model",
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
    "<|assistant_start|>",
    "<|start_of_role|>assistant<|end_of_role|>",
    "<seed:bos>assistant",
)


def resolve_start(
    format: Format,  # noqa: A002 - the field's word
    *,
    thinking: bool | None,
    pinned: Start | None = None,
    prompt_tail: str | None = None,
) -> Start:
    """Decide in this order: the request, the operator's pin, the rendered prompt's tail, the record.

    The request only says *whether* to think. A no is final where the family has a switch; where it has none the
    template ignores the no, and so do we. A yes overrules a pin or a default that says off, and leaves *where the
    output starts* to the rest: the pin knows this deployment, the tail knows this prompt, the record the family.
    """
    if not format.open or (thinking is False and format.switch):
        return Start.OFF
    if pinned is not None and not (pinned is Start.OFF and thinking):
        return pinned
    if prompt_tail is not None:
        seen = _read_tail(format, prompt_tail)
        if seen is not None:
            return seen
    if thinking or format.default_on or not format.switch:
        return Start(format.start if thinking else format.start_unasked or format.start)
    return Start.OFF


def _read_tail(format: Format, tail: str) -> Start | None:  # noqa: A002
    """What the assistant's turn, as far as the prompt holds it, says; None when it holds no marker.

    Where the beginning of the turn is not in sight, only a marker at the very end counts: one further up may be
    quoted by the user. A close marker means CLOSED and not OFF: the template may have closed an empty block.
    """
    closers = format.close + format.content_open
    turn_at = max((at + len(mark) for mark in _TURN_BEGINS if (at := tail.rfind(mark)) != -1), default=-1)
    if turn_at == -1:
        tail = tail.rstrip()
        if tail.endswith(tuple(marker.rstrip() for marker in format.open)):
            return Start.OPEN
        return Start.CLOSED if tail.endswith(tuple(marker.rstrip() for marker in closers)) else None
    opened = max(tail.rfind(marker, turn_at) for marker in format.open)
    closed = max(tail.rfind(marker, turn_at) for marker in closers)
    if opened == closed == -1:
        return None
    return Start.OPEN if opened > closed else Start.CLOSED
