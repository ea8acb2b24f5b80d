"""docs/configuration.md and docs/thinkgate.schema.json from the models; a test fails when they drift.

    python -m gateway.configdocs docs

writes both into a folder. In configuration.md all above the marker is written by hand and kept. No sentence about a
key is written here: it stands in the model.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from gateway.configschema import Schema, alternatives, bounds, json_schema, noun, tables

MARKER = "<!-- Below: made by `python -m gateway.configdocs docs`. Do not edit. -->"


def render_reference() -> str:
    return "\n".join(_table(name, schema) for name, schema in tables())


def render_schema() -> str:
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def write(folder: Path) -> None:
    page = folder / "configuration.md"
    by_hand = page.read_text(encoding="utf-8").partition(MARKER)[0]
    page.write_text(f"{by_hand}{MARKER}\n\n{render_reference()}", encoding="utf-8")
    (folder / "thinkgate.schema.json").write_text(render_schema(), encoding="utf-8")


def _table(name: str, schema: Schema) -> str:
    # The about line is a docstring: its line breaks are the editor's.
    about = " ".join(schema.get("description", "").split())
    rows = [
        "| "
        + " | ".join((f"`{key}`", _type(field), _default(key, field, schema), _range(field), _meaning(field)))
        + " |"
        for key, field in schema["properties"].items()
    ]
    head = [f"### {name}", "", *([about, ""] if about else [])]
    return "\n".join([*head, "| key | type | default | range | meaning |", "|---|---|---|---|---|", *rows, ""])


def _type(field: Schema) -> str:
    if "anyOf" in field:
        return " or ".join(_type(branch) for branch in field["anyOf"] if branch.get("type") != "null")
    if "items" in field:
        return f"a list of {_type(field['items'])}"
    if "patternProperties" in field:
        [child] = field["patternProperties"].values()
        return f"a mapping of names to {_type(child)}"
    [leaf] = alternatives(field)
    return f"[{leaf['title']}](#{leaf['title'].lower()})" if "properties" in leaf else noun(leaf)


def _range(field: Schema) -> str:
    return " ".join(found for leaf in alternatives(field.get("items", field)) if (found := bounds(leaf)))


def _default(key: str, field: Schema, schema: Schema) -> str:
    if key in schema.get("required", ()):
        return "**required**"
    if "patternProperties" in field:
        return "`{}`"
    if "default" not in field:
        return "as below"  # a model of its own: its defaults are in its table
    default: Any = field["default"]
    return "unset" if default is None else f"`{json.dumps(default, ensure_ascii=False)}`"


def _meaning(field: Schema) -> str:
    return field.get("description", "see above").replace("|", "\\|")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
