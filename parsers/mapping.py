"""A format from plain data, as it stands in a YAML file or in a checkpoint's response template.

Every problem is said in one sentence that names the key and what would be right. What must not come in: files, and
defaults of its own (a key left out has the record's default, or the base record's).
"""

import difflib
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Final, cast

from parsers.format import EFFORTS, Format
from parsers.names import UnknownFormat, lookup

_FIELDS: Final = {field.name for field in fields(Format)} - {"framing"}
_MARKERS: Final = ("open", "close", "interrupts", "content_open", "drop", "end_tokens")
_TUPLES: Final = (*_MARKERS, "aliases", "switch", "efforts")
_FLAGS: Final = {"default_on", "reopen", "needs_special_tokens"}
_VALUES: Final = {"switch_on", "switch_off"}
_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "start": ("open", "closed"),
    "start_unasked": ("open", "closed"),
    "interrupt_at": ("anywhere", "line_start"),
    "late_close": ("keep", "drop"),
    "lead_close": ("keep", "drop"),
    "whitespace": ("template", "verbatim"),
    "on_no_close": ("reasoning", "content"),
    "tail": ("emit", "drop"),
}
_OWN_KEYS: Final = ("base", "response_template")


class BadFormat(ValueError):
    """The data does not describe a format; the message says which key, and what would be right."""


def format_from_mapping(data: Mapping[str, object]) -> Format:
    """A record from its fields by name. `base` names a record to start from; `response_template` declares patterns.

    A response template is the mapping that checkpoints ship: the fields `thinking`, `content` and `tool_calls`, each
    with what opens and closes it. Its patterns are taken as literal text.
    """
    for key in data:
        if key not in _FIELDS and key not in _OWN_KEYS:
            near = difflib.get_close_matches(str(key), (*_FIELDS, *_OWN_KEYS), n=1)
            raise BadFormat(f"unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    name = data.get("id")
    if not isinstance(name, str) or not name.strip():
        raise BadFormat("'id' must be a name")
    values: dict[str, object] = {}
    if "response_template" in data:
        values |= _read_template(data["response_template"])
    values |= {key: _read(key, value) for key, value in data.items() if key in _FIELDS}
    record = replace(_base(data), **values)  # pyright: ignore[reportArgumentType] - _read has checked each by name
    _check(record)
    return record


def _base(data: Mapping[str, object]) -> Format:
    base = data.get("base")
    if base is None:
        if "open" not in data and "response_template" not in data:
            raise BadFormat("'open' and 'close' are needed, or a 'base' record to take them from")
        return Format(id="")
    if not isinstance(base, str):
        raise BadFormat("'base' must be the name of a format")
    try:
        return replace(lookup(base), aliases=(), models="")
    except UnknownFormat as error:
        raise BadFormat(f"'base': {error}") from None


def _read(key: str, value: object) -> object:
    if key in _TUPLES:
        return _strings(key, value)
    if key in _FLAGS:
        if not isinstance(value, bool):
            raise BadFormat(f"{key!r} must be true or false, not {value!r}")
        return value
    if key in _VALUES:
        if not isinstance(value, bool | int | str):
            raise BadFormat(f"{key!r} must be true, false, a number or a word, not {value!r}")
        return value
    if key in _CHOICES:
        if value not in _CHOICES[key]:
            raise BadFormat(f"{key!r} must be {' or '.join(_CHOICES[key])}, not {value!r}")
        return value
    if key == "spans":
        pairs = cast("list[object]", value) if isinstance(value, list | tuple) else []
        spans = tuple(_strings(key, pair) for pair in pairs)
        if not spans or any(len(pair) != 2 for pair in spans):
            raise BadFormat("'spans' must be a list of pairs of markers")
        return spans
    if not isinstance(value, str):
        raise BadFormat(f"{key!r} must be text, not {value!r}")
    return value


def _strings(key: str, value: object) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise BadFormat(f"{key!r} must be text or a list of texts, not {value!r}")
    for item in cast("list[object]", items):
        if not isinstance(item, str):
            raise BadFormat(f"{key!r} must hold texts only, not {item!r}")
        if not item.strip():
            raise BadFormat(f"{key!r} holds a marker without a visible character")
    return tuple(cast("list[str]", items))


def _read_template(template: object) -> dict[str, object]:
    if not isinstance(template, Mapping):
        raise BadFormat("'response_template' must be a mapping of fields")
    declared = cast("Mapping[str, object]", template)
    values: dict[str, object] = {}
    for field, side, key in (
        ("thinking", "open", "open"),
        ("thinking", "close", "close"),
        ("content", "open", "content_open"),
        ("content", "close", "drop"),
        ("tool_calls", "open", "interrupts"),
    ):
        part = declared.get(field, {})
        if not isinstance(part, Mapping):
            raise BadFormat(f"'response_template.{field}' must be a mapping with 'open' and 'close'")
        value = cast("Mapping[str, object]", part).get(side)
        if value is not None:
            values[key] = _strings(f"response_template.{field}.{side}", value)
        elif field == "thinking":
            raise BadFormat(f"'response_template.thinking.{side}' is needed")
    return values


def _check(record: Format) -> None:
    """What no single key can get wrong."""
    if bool(record.open) != bool(record.close):
        raise BadFormat("'open' and 'close' are needed both, or neither")
    if list(record.efforts) != [word for word in EFFORTS if word in record.efforts]:
        raise BadFormat(f"'efforts' must be some of {', '.join(EFFORTS)}, weakest first")
    seen: dict[str, str] = {}
    for key in _MARKERS:
        for marker in cast("tuple[str, ...]", getattr(record, key)):
            if seen.setdefault(marker, key) != key:
                raise BadFormat(f"the marker {marker!r} stands in both {seen[marker]!r} and {key!r}")
