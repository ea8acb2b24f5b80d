"""Whatever a body says of thinking: an Intent or an IntentError, and a body cleaned of it and of nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from budgets import Intent, IntentError, Mode, read_intent, without_thinking_fields
from budgets import intent_values as values
from budgets.dialects import DIALECTS, WRAPPER
from budgets.intent import LEVELS, MOST_TOKENS, TOP_LEVEL_FIELDS

PATHS = [
    (tuple(f"{place}.{name}".strip(".").split(".")), field.read)
    for dialect in DIALECTS
    for place in dialect.places
    for field in dialect.fields
    for name in field.names
]
PATHS += [((WRAPPER, *path), read) for path, read in PATHS]
NAMES = sorted({name for path, _ in PATHS for name in path})

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.sampled_from([MOST_TOKENS, MOST_TOKENS + 1, 10**30]),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from([*LEVELS, "none", "ultra", "enabled", "disabled", "adaptive", "omitted", "auto"]),
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from([*NAMES, "mine"]), inner, max_size=3),
        st.dictionaries(st.text(max_size=2), inner, max_size=2),
    ),
    max_leaves=12,
)
_OF = {
    values.tokens: st.integers(-1, 3),
    values.thinking_type: st.sampled_from(["enabled", "disabled", "adaptive", "auto"]),
    values.display: st.sampled_from(["omitted", "summarized"]),
    values.summary: st.sampled_from(["auto", "detailed"]),
}
_LEVELS = st.sampled_from(["none", "ultra", *LEVELS])
_SENSIBLE = {read: _OF.get(read, _LEVELS if "level" in read.__name__ else st.booleans()) for _, read in PATHS}


def put(body: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    for name in path[:-1]:
        inner = body.get(name)
        if not isinstance(inner, dict):
            body[name] = inner = {}
        body = inner
    body[path[-1]] = value


@st.composite
def sensible(draw: st.DrawFn) -> dict[str, Any]:
    """A few fields of the table with values of their own kind, and something foreign in any object."""
    body: dict[str, Any] = {}
    for _ in range(draw(st.integers(0, 4))):
        path, read = draw(st.sampled_from(PATHS))
        put(body, path, draw(_SENSIBLE[read]))
    if draw(st.booleans()):
        put(body, (*draw(st.sampled_from(PATHS))[0][:-1], "mine"), draw(anything))
    return body


odd = st.dictionaries(st.sampled_from([*sorted(TOP_LEVEL_FIELDS), "mine"]), anything, max_size=4)
bodies = st.one_of(sensible(), odd)
headers = st.one_of(st.none(), st.text(max_size=6), st.sampled_from(["off", "on", "7", "low", "9" * 5000]))


def read(body: dict[str, Any], header: str | None = None) -> Intent | IntentError:
    try:
        return read_intent(body, header)
    except IntentError as error:
        return error


@settings(max_examples=500, deadline=None)
@given(bodies, headers)
def test_an_intent_or_an_intent_error(body: dict[str, Any], header: str | None) -> None:
    intent = read(body, header)
    if isinstance(intent, IntentError):
        assert f"`{intent.param}`" in intent.message
        assert intent.code in {"invalid_type", "invalid_value", "conflicting_thinking_params"}
        return
    assert intent.cap is None or (0 < intent.cap <= MOST_TOKENS and intent.mode is Mode.ON)
    assert intent.level is None or (intent.level in LEVELS and intent.mode is Mode.ON)
    assert not (intent.cap and intent.level)
    assert (intent.mode is Mode.AUTO) == (intent.source == "default")


TRAVELLING = {
    (*prefix, *place.split("."), name)
    for prefix in ((), (WRAPPER,))
    for dialect in DIALECTS
    for place in dialect.places
    for control in dialect.fields
    for name in control.names
    if control.travels
}
"""What is read and reaches the engine all the same."""
FIELD_PATHS = {path for path, _ in PATHS} - TRAVELLING
OBJECT_PATHS = {path[:depth] for path, _ in PATHS for depth in range(1, len(path))} | {(WRAPPER,)}


def foreign(body: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """What is in a body beside the table's fields and the objects that hold them."""
    for name, value in body.items():
        here = (*path, name)
        if here in OBJECT_PATHS and isinstance(value, Mapping):
            yield from foreign(value, here)
        elif here not in FIELD_PATHS and not (here in OBJECT_PATHS and value is None):
            yield here, value


@settings(max_examples=500, deadline=None)
@given(bodies)
def test_what_speaks_of_thinking_goes_and_all_else_stays(body: dict[str, Any]) -> None:
    before = repr(body)
    cleaned = without_thinking_fields(body)
    assert repr(body) == before
    assert repr(without_thinking_fields(cleaned)) == repr(cleaned)
    kept = list(foreign(cleaned))
    assert [path for path, _ in kept] == [path for path, _ in foreign(body)]
    assert all(one is other for (_, one), (_, other) in zip(kept, foreign(body), strict=True))
    assert not [path for path in FIELD_PATHS if holds(cleaned, path)]
    travels = any(holds(cleaned, path) for path in TRAVELLING)
    if not isinstance(read(body), IntentError) and not holds(cleaned, ("thinking",)) and not travels:
        thinking = [cleaned.get("thinking"), (cleaned.get(WRAPPER) or {}).get("thinking")]
        if thinking == [None, None]:  # what is left of a `thinking` with unknown keys lacks its type
            assert read(cleaned) == Intent()


def holds(body: object, path: tuple[str, ...]) -> bool:
    """Does a field stand there, other than as an object of foreign keys?"""
    for name in path[:-1]:
        body = body.get(name) if isinstance(body, Mapping) else None
    if not isinstance(body, Mapping) or path[-1] not in body:
        return False
    return not (path in OBJECT_PATHS and isinstance(body[path[-1]], Mapping))


def of_one_kind(kind: str) -> list[tuple[tuple[str, ...], object]]:
    """All ways of the table to say one thing."""
    says: dict[str, dict[Any, object]] = {
        "seven": {values.tokens: 7},
        "zero": {
            values.tokens: 0,
            values.level: "none",
            values.level_or_object: "disable",
            values.level_in_any_case: "NONE",
            values.switch: False,
            values.switch_or_object: False,
            values.switch_or_level: False,
            values.thinking_type: "disabled",
        },
        "low": {
            values.level: "low",
            values.level_or_object: "low",
            values.level_in_any_case: "Low",
            values.switch_or_level: "low",
        },
        "on": {
            values.switch: True,
            values.switch_or_object: True,
            values.switch_or_level: True,
            values.thinking_type: "enabled",
        },
    }
    return [(path, says[kind][read]) for path, read in PATHS if read in says[kind]]


SAYINGS = {kind: of_one_kind(kind) for kind in ("seven", "zero", "low", "on")}


def said(*sayings: tuple[tuple[str, ...], object]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for path, value in sayings:
        put(body, path, value)
        if path[-1] == "budget_tokens":
            put(body, (*path[:-1], "type"), "disabled" if value == 0 else "enabled")
    return body


@settings(max_examples=500, deadline=None)
@given(st.data(), st.sampled_from(sorted(SAYINGS)))
def test_two_dialects_that_agree_are_one(data: st.DataObject, kind: str) -> None:
    one, other = data.draw(st.sampled_from(SAYINGS[kind])), data.draw(st.sampled_from(SAYINGS[kind]))
    shorter, longer = sorted((one[0], other[0]), key=len)
    assume(one[0] == other[0] or longer[: len(shorter)] != shorter)  # one place cannot hold a value and an object
    assume(kind != "zero" or one[0][:-1] != other[0][:-1])  # a pair that an API wants apart, though it agrees
    alone, again, both = read(said(one)), read(said(other)), read(said(one, other))
    assert isinstance(alone, Intent)
    assert isinstance(again, Intent)
    assert isinstance(both, Intent)
    assert replace(both, source="") == replace(alone, source="") == replace(again, source="")
    assert both.source in {alone.source, again.source}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_number_and_an_off_never_agree(data: st.DataObject) -> None:
    one, other = data.draw(st.sampled_from(SAYINGS["seven"])), data.draw(st.sampled_from(SAYINGS["zero"]))
    shorter, longer = sorted((one[0], other[0]), key=len)
    assume(longer[: len(shorter)] != shorter)
    error = read({**said(one, other)})
    assert isinstance(error, IntentError)
    assert error.code == "conflicting_thinking_params"
