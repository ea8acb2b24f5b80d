"""What a client asked of thinking, read from any dialect into one Intent.

Pure: a mapping in, an Intent or an IntentError out. Here is what wins where several fields speak; which fields there
are is `dialects`' table. What will be enforced is `plan`'s business, and how an engine is told is the engine's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from budgets.dialects_walk import TOP_LEVEL_FIELDS, body_says, without
from budgets.intent_values import BUDGET_HEADER, LEVELS, MOST_TOKENS, IntentError, Said, conflict, header_says

__all__ = [
    "BUDGET_HEADER",
    "LEVELS",
    "MOST_TOKENS",
    "TOP_LEVEL_FIELDS",
    "Intent",
    "IntentError",
    "Mode",
    "read_intent",
    "without_thinking_fields",
]


class Mode(StrEnum):
    AUTO = "auto"
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Intent:
    """The client's wish.

    `cap` is in tokens, 1 to `MOST_TOKENS`; `level` is one of `LEVELS`; `visible` says whether the thoughts may be
    shown; `source` names the field that decided, `default` when the client said nothing.
    """

    mode: Mode = Mode.AUTO
    cap: int | None = None
    level: str | None = None
    visible: bool = True
    source: str = "default"


def read_intent(body: Mapping[str, Any], header: str | None = None) -> Intent:
    """The Intent of a request body, in any dialect of `dialects.DIALECTS`; `header` is `BUDGET_HEADER`'s value.

    Precedence: off beats a level, and contradicts a positive number and a bare "on"; a number beats a level; a level
    beats a bare switch; the header counts only where the body is silent, and "you choose" (-1, `adaptive`) is silence.
    The same said twice is said once. Raises IntentError on a wrong type, an unknown word, a number out of range, or two
    fields that contradict each other (`conflicting_thinking_params`).
    """
    told = list(body_says(body))
    visible = all(item.visible is not False for item in told)
    said = [item for item in told if item.visible is None]
    if not said and header is not None:
        said = [header_says(header)]

    off = next((item for item in said if item.is_off), None)
    on = next((item for item in said if item.switch), None)
    numbers = [item for item in said if item.number]
    levels = [item for item in said if item.level is not None and not item.is_off]
    if off is not None:
        if (against := numbers[0] if numbers else on) is not None:
            raise conflict(off.param, against.param)
        return Intent(Mode.OFF, visible=visible, source=off.param)
    if numbers:
        _agree(numbers)
        return Intent(Mode.ON, cap=numbers[0].number, visible=visible, source=numbers[0].param)
    if levels:
        _agree(levels)
        return Intent(Mode.ON, level=levels[0].level, visible=visible, source=levels[0].param)
    if on is not None:
        return Intent(Mode.ON, visible=visible, source=on.param)
    return Intent(visible=visible)


def without_thinking_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the body without the fields `read_intent` reads. Objects that hold more than these
    (`chat_template_kwargs`, `custom_params`, `extra_body`, …) keep the rest, and vanish where there is none."""
    return without(body)


def _agree(said: Sequence[Said]) -> None:
    first = said[0]
    for item in said:
        if (item.number, item.level) != (first.number, first.level):
            raise conflict(first.param, item.param)
