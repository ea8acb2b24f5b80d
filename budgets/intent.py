"""What a client asked of thinking, read from any dialect into one Intent.

Pure: a mapping in, an Intent or an IntentError out. What will be enforced is `plan`'s business, and how an engine is
told is the engine's; neither comes in here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

LEVELS = ("minimal", "low", "medium", "high", "xhigh", "max")
"""Effort words, weakest first. OpenAI's set up to `xhigh`; `max` is DeepSeek's and Anthropic's."""

TOP_LEVEL_FIELDS = frozenset(
    {
        "reasoning_effort",
        "reasoning",
        "thinking",
        "enable_thinking",
        "thinking_budget",
        "thinking_token_budget",
        "max_thinking_tokens",
        "include_reasoning",
    }
)
"""Body fields that speak of thinking. They are read here and re-told in the engine's own words, never forwarded raw."""

TEMPLATE_FIELDS = frozenset({"enable_thinking", "thinking", "thinking_budget"})
"""The same, inside `chat_template_kwargs`."""

BUDGET_HEADER = "x-thinking-budget"


class Mode(StrEnum):
    AUTO = "auto"
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Intent:
    """The client's wish.

    `cap` is in tokens and positive; `level` is one of `LEVELS`; `visible` says whether the thoughts may be shown;
    `source` names the field that decided, `default` when the client said nothing.
    """

    mode: Mode = Mode.AUTO
    cap: int | None = None
    level: str | None = None
    visible: bool = True
    source: str = "default"


class IntentError(ValueError):
    """A control that cannot be honoured as written: a 400 for the client, with the field it is about."""

    def __init__(self, message: str, *, param: str, code: str) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


@dataclass(slots=True)
class _Said:
    """One thing the client said: a number of tokens, a level, or a switch."""

    param: str
    number: int | None = None
    level: str | None = None
    switch: bool | None = None

    @property
    def is_off(self) -> bool:
        return self.switch is False or self.number == 0 or self.level == "none"


def read_intent(body: Mapping[str, Any], header: str | None = None) -> Intent:
    """The Intent of a request body (OpenAI chat, OpenRouter, Anthropic, Qwen/DashScope, DeepSeek, vLLM, NIM dialects).

    Precedence: off beats a level, and contradicts a positive number and a bare "on"; a number beats a level; a level
    beats a bare switch; the header counts only where the body is silent. Raises IntentError on a wrong type, an
    unknown word, or two fields that contradict each other (`conflicting_thinking_params`).
    """
    said = list(_body_says(body))
    if not said and header is not None:
        said = [_header_says(header)]
    visible = _visible(body)
    off = next((item for item in said if item.is_off), None)
    numbers = [item for item in said if item.number is not None and item.number > 0]
    levels = [item for item in said if item.level is not None and item.level != "none"]
    on = next((item for item in said if item.switch is True), None)

    if off is not None:
        if numbers or on is not None:
            other = numbers[0] if numbers else on
            assert other is not None
            raise _conflict(off.param, other.param)
        return Intent(Mode.OFF, visible=visible, source=off.param)
    if numbers:
        if len({item.number for item in numbers}) > 1:
            raise _conflict(numbers[0].param, next(i.param for i in numbers if i.number != numbers[0].number))
        return Intent(Mode.ON, cap=numbers[0].number, visible=visible, source=numbers[0].param)
    if levels:
        if len({item.level for item in levels}) > 1:
            raise _conflict(levels[0].param, next(i.param for i in levels if i.level != levels[0].level))
        return Intent(Mode.ON, level=levels[0].level, visible=visible, source=levels[0].param)
    if on is not None:
        return Intent(Mode.ON, visible=visible, source=on.param)
    return Intent(visible=visible)


def without_thinking_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the body without the fields `read_intent` reads; `chat_template_kwargs` keeps whatever else it has."""
    kept = {key: value for key, value in body.items() if key not in TOP_LEVEL_FIELDS}
    kwargs = kept.get("chat_template_kwargs")
    if isinstance(kwargs, dict):
        typed = cast("dict[str, Any]", kwargs)
        rest = {key: value for key, value in typed.items() if key not in TEMPLATE_FIELDS}
        if rest:
            kept["chat_template_kwargs"] = rest
        else:
            del kept["chat_template_kwargs"]
    return kept


def _body_says(body: Mapping[str, Any]) -> Iterator[_Said]:
    if (effort := body.get("reasoning_effort")) is not None:
        yield _Said("reasoning_effort", level=_level(effort, "reasoning_effort"))
    if (reasoning := body.get("reasoning")) is not None:
        yield from _reasoning_says(_mapping(reasoning, "reasoning"))
    if (thinking := body.get("thinking")) is not None:
        yield from _thinking_says(thinking)
    if (enable := body.get("enable_thinking")) is not None:
        yield _Said("enable_thinking", switch=_boolean(enable, "enable_thinking"))
    for field in ("thinking_budget", "thinking_token_budget", "max_thinking_tokens"):
        if (number := body.get(field)) is not None:
            yield from _number_says(number, field)
    if (kwargs := body.get("chat_template_kwargs")) is not None:
        inner = _mapping(kwargs, "chat_template_kwargs")
        for field in ("enable_thinking", "thinking"):
            if (switch := inner.get(field)) is not None:
                param = f"chat_template_kwargs.{field}"
                yield _Said(param, switch=_boolean(switch, param))
        if (number := inner.get("thinking_budget")) is not None:
            yield from _number_says(number, "chat_template_kwargs.thinking_budget")


def _reasoning_says(reasoning: Mapping[str, Any]) -> Iterator[_Said]:
    effort, number, enabled = reasoning.get("effort"), reasoning.get("max_tokens"), reasoning.get("enabled")
    if effort is not None and number is not None:
        raise _conflict("reasoning.effort", "reasoning.max_tokens")
    if effort is not None:
        yield _Said("reasoning.effort", level=_level(effort, "reasoning.effort"))
    if number is not None:
        yield from _number_says(number, "reasoning.max_tokens")
    if enabled is not None:
        yield _Said("reasoning.enabled", switch=_boolean(enabled, "reasoning.enabled"))


def _thinking_says(thinking: object) -> Iterator[_Said]:
    if isinstance(thinking, bool):
        yield _Said("thinking", switch=thinking)
        return
    fields = _mapping(thinking, "thinking")
    kind = fields.get("type")
    if kind not in ("enabled", "disabled", "adaptive", "auto"):  # a tuple: what a client sends may not be hashable
        raise IntentError(
            "`thinking.type` must be `enabled`, `disabled` or `adaptive`", param="thinking.type", code="invalid_value"
        )
    if kind in {"enabled", "disabled"}:
        yield _Said("thinking.type", switch=kind == "enabled")
    if (number := fields.get("budget_tokens")) is not None:
        yield from _number_says(number, "thinking.budget_tokens")


def _header_says(header: str) -> _Said:
    word = header.strip().lower()
    if word.isascii() and word.isdigit() and len(word) <= 9:
        return _Said(BUDGET_HEADER, number=int(word))
    if word in {"off", "none"}:
        return _Said(BUDGET_HEADER, switch=False)
    if word == "on":
        return _Said(BUDGET_HEADER, switch=True)
    return _Said(BUDGET_HEADER, level=_level(word, BUDGET_HEADER))


def _visible(body: Mapping[str, Any]) -> bool:
    reasoning = body.get("reasoning")
    if isinstance(reasoning, Mapping):
        exclude = cast("Mapping[str, Any]", reasoning).get("exclude")
        if exclude is not None and _boolean(exclude, "reasoning.exclude"):
            return False
    include = body.get("include_reasoning")
    return include is None or _boolean(include, "include_reasoning")


def _number_says(value: object, param: str) -> Iterator[_Said]:
    """Zero switches thinking off; -1 is how vLLM and Gemini say "no number"."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise IntentError(f"`{param}` must be an integer number of tokens", param=param, code="invalid_type")
    if value < -1:
        raise IntentError(f"`{param}` must be -1, 0 or a positive number of tokens", param=param, code="invalid_value")
    if value >= 0:
        yield _Said(param, number=value)


def _level(value: object, param: str) -> str:
    if not isinstance(value, str):
        raise IntentError(f"`{param}` must be a string", param=param, code="invalid_type")
    if value != "none" and value not in LEVELS:
        choices = ", ".join(("none", *LEVELS))
        raise IntentError(f"`{param}` must be one of {choices}", param=param, code="invalid_value")
    return value


def _boolean(value: object, param: str) -> bool:
    if not isinstance(value, bool):
        raise IntentError(f"`{param}` must be true or false", param=param, code="invalid_type")
    return value


def _mapping(value: object, param: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise IntentError(f"`{param}` must be an object", param=param, code="invalid_type")
    return cast("Mapping[str, Any]", value)


def _conflict(one: str, other: str) -> IntentError:
    return IntentError(
        f"`{one}` and `{other}` contradict each other; send one of them", param=one, code="conflicting_thinking_params"
    )
