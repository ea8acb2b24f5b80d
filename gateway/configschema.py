"""The models of `config` as one JSON Schema, and questions about a place in it.

Error messages, the reference table and editors all ask the same things: which keys may stand here, what type, what
range, is it a secret? Answers come from the schema, so a new field in a model needs no word here. Nothing in this
file sees a value that a person wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, TypeAlias

from pydantic.json_schema import GenerateJsonSchema

from gateway.config import KEY_HASH_PATTERN, NAME_PATTERN, Config

Place = tuple[str | int, ...]
"""Where a value stands: ("pools", "reasoning", "workers", 0)."""

Schema = dict[str, Any]

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"
"""What YAML and JSON both have."""

NOUNS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
}
VARIABLE: Schema = {
    "title": "Variable",
    "description": "A value from the environment: `${VAR}` or `${VAR:-default}`.",
    "type": "string",
    "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}",
}


class _Untitled(GenerateJsonSchema):
    """A field's title would only repeat its name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema
        return False


@cache
def _models() -> Schema:
    return Config.model_json_schema(schema_generator=_Untitled)


def json_schema() -> Schema:
    """The schema of the file as written: wherever a model is strict, a `${VAR}` may stand for the value."""
    models = _models()
    definitions = {name: _with_variables(schema) for name, schema in models["$defs"].items()}
    root = _with_variables({key: value for key, value in models.items() if key != "$defs"})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **root,
        "title": "thinkgate.yaml",
        "$defs": {**definitions, "Variable": VARIABLE},
    }


def _with_variables(schema: Schema) -> Schema:
    narrow = schema.get("type") in {"integer", "number", "boolean"} or "enum" in schema or "pattern" in schema
    if narrow:
        constraints = {key: value for key, value in schema.items() if key not in {"title", "description", "default"}}
        notes = {key: value for key, value in schema.items() if key not in constraints}
        branches = [constraints, {"$ref": "#/$defs/Variable"}]
        if schema.get("pattern") == KEY_HASH_PATTERN:
            branches.append({"type": "string", "pattern": "^file:."})
        return {**notes, "anyOf": branches}
    opened = dict(schema)
    for key in ("properties", "patternProperties"):
        if key in schema:
            opened[key] = {name: _with_variables(child) for name, child in schema[key].items()}
    if "items" in schema:
        opened["items"] = _with_variables(schema["items"])
    if "anyOf" in schema:
        opened["anyOf"] = [_with_variables(branch) for branch in schema["anyOf"]]
    return opened


def tables() -> Iterator[tuple[str, Schema]]:
    """Every model with its schema, the root first, then in the order in which the file meets them."""
    definitions: dict[str, Schema] = _models()["$defs"]
    waiting: list[tuple[str, Schema]] = [("Config", _models())]
    seen: set[str] = set()
    while waiting:
        name, schema = waiting.pop(0)
        yield name, schema
        inner: list[tuple[str, Schema]] = []
        for field in schema["properties"].values():
            for child in _referenced(field):
                if child not in seen and "properties" in definitions[child]:
                    seen.add(child)
                    inner.append((child, definitions[child]))
        waiting = inner + waiting


def _referenced(schema: Schema) -> Iterator[str]:
    """Names of the definitions that a field leads to directly."""
    if "$ref" in schema:
        yield schema["$ref"].rsplit("/", 1)[1]
    for child in [*schema.get("anyOf", ()), *schema.get("patternProperties", {}).values()]:
        yield from _referenced(child)
    if "items" in schema:
        yield from _referenced(schema["items"])


def alternatives(schema: Schema) -> list[Schema]:
    """The plain schemas a value may follow: references and unions opened."""
    if "$ref" in schema:
        return alternatives(_models()["$defs"][schema["$ref"].rsplit("/", 1)[1]])
    if "anyOf" in schema:
        return [leaf for branch in schema["anyOf"] for leaf in alternatives(branch)]
    return [schema]


def at(place: Place) -> list[Schema]:
    """The plain schemas for one place; none for a place that does not exist."""
    found = [_models()]
    for step in place:
        children = [child for schema in found for child in _children(schema, step)]
        found = [leaf for child in children for leaf in alternatives(child)]
    return found


def _children(schema: Schema, step: str | int) -> list[Schema]:
    if isinstance(step, int):
        return [schema["items"]] if "items" in schema else []
    if step in schema.get("properties", {}):
        return [schema["properties"][step]]
    return list(schema.get("patternProperties", {}).values())


def keys_at(place: Place) -> dict[str, Schema]:
    """The keys a mapping at this place may have, with their schemas; names of pools and routes are free."""
    return {key: field for schema in at(place) for key, field in schema.get("properties", {}).items()}


def is_secret(place: Place) -> bool:
    return any(leaf.get("format") == "password" or leaf.get("pattern") == KEY_HASH_PATTERN for leaf in at(place))


def wants_text(place: Place) -> bool:
    """Text and no number or switch: `${TOKEN}` that happens to hold digits stays text here."""
    types = {leaf.get("type") for leaf in at(place)}
    return "string" in types and not types & {"integer", "number", "boolean"}


def phrase(leaves: Sequence[Schema]) -> str:
    """What may stand here, for a sentence: `a whole number, at least 0 and at most 65535`."""
    return " or ".join(noun(leaf) + bounds(leaf, before=", ") for leaf in leaves if leaf.get("type") != "null")


def noun(leaf: Schema) -> str:
    if "enum" in leaf:
        return "one of " + ", ".join(f"`{choice}`" for choice in leaf["enum"])
    if leaf.get("pattern") == KEY_HASH_PATTERN:
        return "`sha256:` and 64 hex digits"
    if leaf.get("pattern") == NAME_PATTERN:
        return "a name"
    if leaf.get("format") == "password":
        return "text (a secret)"
    return NOUNS[leaf["type"]]


def bounds(schema: Schema, before: str = "") -> str:
    """The range of a number, the letters of a name; empty where anything goes."""
    if schema.get("pattern") == NAME_PATTERN:
        return before + "of letters, digits and . _ : / -, at most 128, the first a letter or a digit"
    if "minProperties" in schema:
        return before + "not empty"
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    found = [f"{word} {_plain(schema[key])}" for key, word in words.items() if key in schema]
    return before + " and ".join(found) if found else ""


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)
