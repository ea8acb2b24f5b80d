"""Reads a log of requests: one JSON object a line. Fields: `messages` or `text`, and any of `label`, `weak`, `strong`.

`label`: 1 or "reasoning", 0 or "simple"; `weak` and `strong`: was each model's answer right (true or false, or a grade
0..1). What a line does not say stays None. Nothing is fitted here.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from router.ask import Ask, read_ask

_LABELS: Final = {"1": 1, "reasoning": 1, "true": 1, "0": 0, "simple": 0, "standard": 0, "false": 0}


@dataclass(frozen=True, slots=True)
class LogRow:
    ask: Ask
    label: int | None = None
    weak: float | None = None
    strong: float | None = None


def read_log(path: Path) -> list[LogRow]:
    """Raises ValueError naming the line that is no JSON object, OSError when there is no such file."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        return list(read_rows(lines))


def read_rows(lines: Iterable[str]) -> Iterator[LogRow]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields: object = json.loads(line)
        except ValueError as error:
            raise ValueError(f"line {number} is no JSON: {error}") from error
        if not isinstance(fields, dict):
            raise ValueError(f"line {number} is no JSON object")
        record = cast("dict[str, Any]", fields)
        yield LogRow(
            ask_of(record), _label(record.get("label")), _grade(record.get("weak")), _grade(record.get("strong"))
        )


def ask_of(record: dict[str, Any]) -> Ask:
    """The ask of one line, whatever its shape; nothing readable is an empty ask."""
    messages: object = record.get("messages")
    if not isinstance(messages, list):
        messages = [*_list(record.get("history")), {"role": "user", "content": record.get("text")}]
    return read_ask(cast("list[dict[str, Any]]", messages), has_tools=bool(record.get("tools")))


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _label(value: object) -> int | None:
    return _LABELS.get(str(value).lower())


def _grade(value: object) -> float | None:
    return float(value) if isinstance(value, bool | int | float) else None
