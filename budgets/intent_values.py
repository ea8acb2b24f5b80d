"""What one value of a thinking control means: a number of tokens, a level, a switch, or whether thoughts are shown.

One reader a kind of value. A reader gets what the client sent and the field's full name; it gives a `Said`, None where
the value says "you choose", or raises IntentError with that name. Which field has which reader is `dialects`' table;
what wins where several speak is `intent`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

LEVELS = ("minimal", "low", "medium", "high", "xhigh", "max")
"""Effort words, weakest first. OpenAI's set up to `xhigh`; `max` is DeepSeek's and Anthropic's."""

SYNONYMS = {"ultra": "max", "disable": "none"}
"""Words of one API for a level that has a common name: DeepSeek's most, LiteLLM's off."""

MOST_TOKENS = 10_000_000
"""A larger number is a mistake (bytes, a time stamp, a sentinel of some other API), not a budget."""

BUDGET_HEADER = "x-thinking-budget"


class IntentError(ValueError):
    """A control that cannot be honoured as written: a 400 for the client, with the field it is about."""

    def __init__(self, message: str, *, param: str, code: str) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


@dataclass(frozen=True, slots=True)
class Said:
    """One thing the client said: a number of tokens, a level (or `none`), a switch, or whether thoughts are shown."""

    param: str
    number: int | None = None
    level: str | None = None
    switch: bool | None = None
    visible: bool | None = None

    @property
    def is_off(self) -> bool:
        return self.switch is False or self.number == 0 or self.level == "none"


Reader = Callable[[object, str], Said | None]


def tokens(value: object, param: str) -> Said | None:
    """Zero switches thinking off; -1 is how vLLM, Gemini and llama.cpp say "no number"."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise IntentError(f"`{param}` must be an integer number of tokens", param=param, code="invalid_type")
    if value < -1:
        raise IntentError(f"`{param}` must be -1, 0 or a positive number of tokens", param=param, code="invalid_value")
    if value > MOST_TOKENS:
        raise IntentError(f"`{param}` must be at most {MOST_TOKENS} tokens", param=param, code="invalid_value")
    return Said(param, number=value) if value >= 0 else None


def level(value: object, param: str) -> Said:
    if not isinstance(value, str):
        raise IntentError(f"`{param}` must be a string", param=param, code="invalid_type")
    word = SYNONYMS.get(value, value)
    if word != "none" and word not in LEVELS:
        choices = ", ".join(("none", *LEVELS))
        raise IntentError(f"`{param}` must be one of {choices}", param=param, code="invalid_value")
    return Said(param, level=word)


def level_in_any_case(value: object, param: str) -> Said | None:
    """Gemini's: documents say `low`, its SDKs send `LOW`."""
    word = value.lower() if isinstance(value, str) else value
    return None if word == "thinking_level_unspecified" else level(word, param)


def level_if_known(value: object, param: str) -> Said | None:
    """A template's argument: it may have words of its own (`no_think`), and values that are no words."""
    word = SYNONYMS.get(value, value) if isinstance(value, str) else None
    return level(word, param) if word == "none" or word in LEVELS else None


def level_or_object(value: object, param: str) -> Said | None:
    return None if isinstance(value, Mapping) else level(value, param)


def switch(value: object, param: str) -> Said:
    return Said(param, switch=_boolean(value, param))


def switch_or_object(value: object, param: str) -> Said | None:
    if isinstance(value, bool):
        return Said(param, switch=value)
    if isinstance(value, Mapping):
        return None
    raise IntentError(f"`{param}` must be an object, true or false", param=param, code="invalid_type")


def switch_or_level(value: object, param: str) -> Said:
    if isinstance(value, bool):
        return Said(param, switch=value)
    if isinstance(value, str):
        return level(value, param)
    raise IntentError(f"`{param}` must be true, false or a level", param=param, code="invalid_type")


def thinking_type(value: object, param: str) -> Said | None:
    """Also called on an object without the field: an Anthropic `thinking` always says its type."""
    if value not in ("enabled", "disabled", "adaptive", "auto"):  # a tuple: what a client sends may not be hashable
        message = f"`{param}` must be `enabled`, `disabled` or `adaptive`"
        raise IntentError(message, param=param, code="invalid_value")
    return Said(param, switch=value == "enabled") if value in ("enabled", "disabled") else None


def shown(value: object, param: str) -> Said:
    return Said(param, visible=_boolean(value, param))


def hidden(value: object, param: str) -> Said:
    return Said(param, visible=not _boolean(value, param))


def display(value: object, param: str) -> Said:
    if value not in ("summarized", "omitted"):
        raise IntentError(f"`{param}` must be `summarized` or `omitted`", param=param, code="invalid_value")
    return Said(param, visible=value == "summarized")


def summary(value: object, param: str) -> None:
    """How a hosted API should sum its thoughts up. Here they are told as they are, so the word changes nothing."""
    if value not in ("auto", "concise", "detailed", "none"):
        message = f"`{param}` must be `auto`, `concise`, `detailed` or `none`"
        raise IntentError(message, param=param, code="invalid_value")


def header_says(header: str) -> Said:
    """The header `x-thinking-budget`: a number, a level, `on` or `off`, in any case and with space around it."""
    word = header.strip().lower()
    if word.isascii() and word.isdigit():
        # Python refuses to read thousands of digits; what is longer than the most is too much, whatever it says.
        return Said(BUDGET_HEADER, number=_bounded(word.lstrip("0") or "0"))
    if word in {"on", "off"}:
        return Said(BUDGET_HEADER, switch=word == "on")
    if (word := SYNONYMS.get(word, word)) == "none" or word in LEVELS:
        return Said(BUDGET_HEADER, level=word)
    message = f"`{BUDGET_HEADER}` must be a number of tokens, on, off or one of {', '.join(('none', *LEVELS))}"
    raise IntentError(message, param=BUDGET_HEADER, code="invalid_value")


def conflict(one: str, other: str) -> IntentError:
    return IntentError(
        f"`{one}` and `{other}` contradict each other; send one of them", param=one, code="conflicting_thinking_params"
    )


def _bounded(digits: str) -> int:
    if len(digits) > len(str(MOST_TOKENS)) or int(digits) > MOST_TOKENS:
        message = f"`{BUDGET_HEADER}` must be at most {MOST_TOKENS} tokens"
        raise IntentError(message, param=BUDGET_HEADER, code="invalid_value")
    return int(digits)


def _boolean(value: object, param: str) -> bool:
    if not isinstance(value, bool):
        raise IntentError(f"`{param}` must be true or false", param=param, code="invalid_type")
    return value
