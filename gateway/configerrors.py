"""What is wrong with a configuration, in words for the person who wrote it.

Every message names the place, the line and, if there is one, the likely intention. No message ever contains a value
from the file or the environment, only keys, names and what was expected: any value may turn out to be a secret in
the wrong place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gateway.configschema import Place, Schema, Value, alternatives, at, keys_at, phrase

_KINDS: dict[type, str] = {
    type(None): "nothing",
    bool: "true/false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping",
}
_JSON_TYPES: dict[type, set[str]] = {bool: {"boolean"}, int: {"integer", "number"}, float: {"number"}, str: {"string"}}
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_WORD = re.compile(r"'([^']+)'|([A-Za-z0-9_.:/-]*[A-Za-z0-9_])")


@dataclass(frozen=True, slots=True)
class Problem:
    path: str
    line: int | None
    message: str
    hint: str | None

    def __str__(self) -> str:
        text = self.message
        if self.path:
            text += f" at {self.path}"
        if self.line is not None:
            text += f", line {self.line}"
        return text + (f"; {self.hint}" if self.hint else "")


class ConfigError(Exception):
    """All that is wrong with one configuration; `str()` is the whole message, one line a problem."""

    def __init__(self, name: str, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(dict.fromkeys(problems), key=lambda problem: problem.line or 0))
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__("\n".join([f"{name}: {count}", *(f"  {problem}" for problem in self.problems)]))


def shown(text: str, limit: int = 60) -> str:
    """Text, mostly a key, as it may be printed: short and without control characters."""
    printable = "".join(char if char.isprintable() else "?" for char in text[: limit + 1])
    return printable if len(text) <= limit else printable[: limit - 1] + "…"


def path_of(place: Place) -> str:
    path = ""
    for step in place:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _BARE_KEY.fullmatch(step):
            path += f".{shown(step)}" if path else shown(step)
        else:
            path += f'["{shown(step)}"]'
    return path


def explain(error: ValidationError, value: Value, lines: Mapping[Place, int], spoiled: Set[Place]) -> list[Problem]:
    """pydantic's errors, reworded. What follows from a `spoiled` place has been reported already and is left out."""
    return _Explainer(value, lines, spoiled).explain(error)


class _Explainer:
    def __init__(self, value: Value, lines: Mapping[Place, int], spoiled: Set[Place]) -> None:
        self._value = value
        self._lines = lines
        self._spoiled = spoiled
        self._meant: set[Place] = set()  # keys that a misspelt key probably stands for

    def explain(self, error: ValidationError) -> list[Problem]:
        # Misspelt keys first: a key that one of them stands for is then not missed as well.
        details = sorted(error.errors(include_url=False), key=lambda detail: detail["type"] != "extra_forbidden")
        return list(self._problems(details))

    def _problems(self, details: Iterable[ErrorDetails]) -> Iterator[Problem]:
        for detail in details:
            place, value = self._find(detail["loc"])
            if any(place[:depth] in self._spoiled for depth in range(len(place) + 1)):
                continue
            match detail["type"]:
                case "extra_forbidden":
                    yield self._unknown_key(place)
                case "missing":
                    key = str(detail["loc"][-1])
                    if (*place, key) not in self._meant:
                        hint = f"it is {phrase(alternatives(keys_at(place)[key]))}"
                        yield self._problem(place, f"missing key `{key}`", hint)
                case "too_short":
                    yield self._problem(place, "empty; at least one entry is needed", None)
                case "value_error":
                    yield self._broken_rule(place, value, str(detail.get("ctx", {}).get("error")))
                case _ if detail["loc"][-1] == "[key]" and place == detail["loc"][:-1]:
                    yield self._problem(place, "not usable as a name", "use letters, digits and . _ : / - only")
                case _:
                    yield from self._wrong_value(place, value)

    def _find(self, loc: tuple[str | int, ...]) -> tuple[Place, Value]:
        """pydantic's location as a place in the file: labels of union branches and of missing keys fall out."""
        place: Place = ()
        here = self._value
        for step in loc:
            match here, step:
                case dict(), str() if step in here:
                    here = here[step]
                case list(), int():
                    here = here[step]
                case _:
                    continue
            place = (*place, step)
        return place, here

    def _problem(self, place: Place, message: str, hint: str | None, *, line_of: Place | None = None) -> Problem:
        marked = place if line_of is None else line_of
        line = next((self._lines[marked[:n]] for n in range(len(marked), -1, -1) if marked[:n] in self._lines), None)
        return Problem(path_of(place), line, message, hint)

    def _unknown_key(self, place: Place) -> Problem:
        parent, key = place[:-1], str(place[-1])
        known = keys_at(parent)
        hint = None
        if close := get_close_matches(key, known, n=1):
            self._meant.add((*parent, close[0]))
            hint = f"did you mean `{close[0]}`?"
        elif homes := [name for name in known if key in keys_at((*parent, name))]:
            hint = f"did you mean `{homes[0]}.{key}`?"
        elif known:
            hint = f"known keys: {', '.join(known)}"
        return self._problem(parent, f"unknown key `{shown(key)}`", hint, line_of=place)

    def _wrong_value(self, place: Place, value: Value) -> Iterator[Problem]:
        leaves = at(place)
        types = {leaf.get("type") for leaf in leaves}
        if isinstance(value, dict) and "object" in types:
            return  # the other branches of a union: what is wrong inside the mapping is told at its own place
        message = f"expected {phrase(leaves)}"
        if not _JSON_TYPES.get(type(value), set[str]()) & types:
            message += f", got {_KINDS[type(value)]}"
        yield self._problem(place, message, _hint(value, leaves, types))

    def _broken_rule(self, place: Place, value: Value, message: str) -> Problem:
        """A rule of our own models. Its words say what; where inside the mapping is found from the words."""
        if isinstance(value, str) and any(quoted in value for quoted in re.findall(r"'([^']+)'", message)):
            message = "this text cannot be used here"  # a library's message that quotes the value
        message = shown(message, limit=300)
        return self._problem(self._closest(place, value, message), message, None)

    def _closest(self, place: Place, value: Value, message: str) -> Place:
        """The place below this one whose keys and value the message mentions most; quoted words count double."""
        weights = {quoted or bare: 2 if quoted else 1 for quoted, bare in _WORD.findall(message)}
        best, best_score = place, 0
        for candidate, inner in _inside(place, value):
            words = {str(step) for step in candidate[len(place) :]}
            if isinstance(inner, str):
                words.add(inner)
            score = sum(weights.get(word, 0) for word in words)
            if score and (score, self._lines.get(candidate, 0)) >= (best_score, self._lines.get(best, 0)):
                best, best_score = candidate, score
        return best


def _inside(place: Place, value: Value) -> Iterator[tuple[Place, Value]]:
    yield place, value
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in children:
        yield from _inside((*place, step), child)


def _hint(value: Value, leaves: list[Schema], types: set[Any]) -> str | None:
    text_wanted = "string" in types
    if isinstance(value, bool) and text_wanted:
        return "YAML reads on, off, yes, no, true and false as true/false: put the word in quotes"
    if isinstance(value, int | float) and text_wanted:
        return "put it in quotes"
    if isinstance(value, str):
        choices = [choice for leaf in leaves for choice in leaf.get("enum", ())]
        if close := get_close_matches(value, choices, n=1):
            return f"did you mean `{close[0]}`?"
        if types & {"integer", "number", "boolean"}:
            return "if it stands in quotes, take them off"
    if "array" in types and not isinstance(value, list):
        return "write it as a list: one `- …` a line, or [ … ]"
    if value is None:
        return "give a value, or leave the key out"
    return None
