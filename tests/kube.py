"""Kubernetes objects, checked without a cluster: strictly, so that a field which does not exist is a mistake.

What Kubernetes itself defines is checked by its own schemas. Of the kinds that operators add, `kube_kinds.json` has the
fields that their definitions allow where ours use them, and nothing else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import jsonschema
import kubernetes_validate
import yaml

VERSIONS: Final = ("1.30", "1.37")
"""The oldest that the chart allows, and the newest whose schemas there are."""
OPERATORS_KINDS: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("kube_kinds.json").read_text())


def objects(text: str) -> list[dict[str, Any]]:
    """The objects of a manifest, each of which must be valid."""
    found = [one for one in yaml.safe_load_all(text) if one is not None]
    for one in found:
        check(one)
    return found


def check(thing: dict[str, Any]) -> None:
    """Raises jsonschema's ValidationError."""
    kind = f"{thing['apiVersion']}/{thing['kind']}"
    if kind in OPERATORS_KINDS["kinds"]:
        schema = {"$ref": f"#/kinds/{kind.replace('/', '~1')}", **OPERATORS_KINDS}
        jsonschema.Draft202012Validator(schema).validate(thing)
        return
    for version in VERSIONS:
        kubernetes_validate.validate(thing, version, strict=True)
