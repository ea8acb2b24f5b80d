"""Going through a body by the table of dialects: what it says of thinking, and the body without it.

Knows objects and paths; what a value means it leaves to the field's reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from budgets.dialects import DIALECTS, WRAPPER, Dialect
from budgets.intent_values import IntentError, Said, conflict


@dataclass(slots=True)
class _Node:
    """A name in a body: a control by itself, an object with controls inside, or both (`thinking`)."""

    is_field: bool = False
    inner: dict[str, _Node] = field(default_factory=dict[str, "_Node"])


def _tree() -> dict[str, _Node]:
    root: dict[str, _Node] = {}
    for dialect in DIALECTS:
        for place in dialect.places:
            inner = root
            for name in _steps(place):
                inner = inner.setdefault(name, _Node()).inner
            for control in dialect.fields:
                for name in control.names if not control.travels else ():
                    inner.setdefault(name, _Node()).is_field = True
    return {**root, WRAPPER: _Node(inner=root)}


def _steps(place: str) -> tuple[str, ...]:
    return tuple(place.split(".")) if place else ()


_TREE = _tree()

TOP_LEVEL_FIELDS = frozenset(_TREE)
"""Body fields that speak of thinking or may hold what does. What is read is re-told in the engine's own words, never
forwarded raw."""


def _routes() -> Iterator[tuple[frozenset[str], Dialect, str, tuple[str, ...]]]:
    for dialect in DIALECTS:
        for place in dialect.places:
            steps = _steps(place)
            names = steps[:1] or [name for control in dialect.fields for name in control.names]
            yield frozenset(names), dialect, place, steps


_ROUTES = tuple(_routes())
"""(names of which the body must have one, dialect, place, its steps): most bodies have none of most."""


def body_says(body: Mapping[str, Any]) -> Iterator[Said]:
    """All that a body says of thinking, in the table's order. Raises IntentError."""
    if TOP_LEVEL_FIELDS.isdisjoint(body):
        return
    yield from _says(body, "")
    if (wrapped := body.get(WRAPPER)) is not None:
        yield from _says(_object(wrapped, WRAPPER), f"{WRAPPER}.")


def without(body: Mapping[str, Any]) -> dict[str, Any]:
    """A copy without the fields of the table. Objects keep what else they have, and vanish with the last of it."""
    return dict(body) if TOP_LEVEL_FIELDS.isdisjoint(body) else _without(body, _TREE)


def _without(body: Mapping[str, Any], tree: Mapping[str, _Node]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in body.items():
        node = tree.get(name)
        if node is None:
            kept[name] = value
        elif node.inner and isinstance(value, Mapping):
            if rest := _without(cast("Mapping[str, Any]", value), node.inner):
                kept[name] = rest
        elif not node.is_field and value is not None:
            kept[name] = value  # no object, so there is no control in it
    return kept


def _says(body: Mapping[str, Any], prefix: str) -> Iterator[Said]:
    for names, dialect, place, steps in _ROUTES:
        if not names.isdisjoint(body) and (found := _at(body, steps, prefix)) is not None:
            yield from _dialect_says(dialect, found, f"{prefix}{place}." if place else prefix)


def _at(body: Mapping[str, Any], steps: tuple[str, ...], prefix: str) -> Mapping[str, Any] | None:
    """The object at a path; None where there is none."""
    tree, path = _TREE, prefix
    for name in steps:
        value = cast("object", body.get(name))
        if value is None:
            return None
        if tree[name].is_field and not isinstance(value, Mapping):
            return None  # a field that may be an object or a plain value is judged by its own reader
        body, tree, path = _object(cast("object", value), path + name), tree[name].inner, f"{path}{name}."
    return body


def _dialect_says(dialect: Dialect, found: Mapping[str, Any], prefix: str) -> Iterator[Said]:
    one, other = (next((n for n in found if n in names and found[n] is not None), None) for names in dialect.either)
    if one is not None and other is not None:
        raise conflict(prefix + one, prefix + other)
    for control in dialect.fields:
        for name in control.names:
            value = found.get(name)
            if (value is not None or control.required) and (said := control.read(value, prefix + name)) is not None:
                yield said


def _object(value: object, param: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise IntentError(f"`{param}` must be an object", param=param, code="invalid_type")
    return cast("Mapping[str, Any]", value)
