"""The schema of the chart's values: its own keys from chart.schema.json, and under `config` all of thinkgate.yaml.

So Helm refuses what the gateway would refuse, before anything starts, and names the key. No key of thinkgate.yaml is
described here: they come from the models. What is added is only what the chart knows better: the socket is its own,
others can reach it, and a pool has workers, unless its engine is in the image (if that was built with `embedded`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gateway.configschema import json_schema

HERE = Path(__file__).parent
FILE = HERE / "thinkgate" / "values.schema.json"
OWN = HERE / "chart.schema.json"
SOCKET = ("host", "port")
"""Keys of `server` that the chart sets itself, since its Service and probes depend on them."""


def render() -> str:
    """The text of values.schema.json."""
    schema: dict[str, Any] = json.loads(OWN.read_text(encoding="utf-8"))
    config = json_schema()
    definitions: dict[str, Any] = config.pop("$defs")
    for key in ("$schema", "title"):
        config.pop(key)
    for key in SOCKET:
        del definitions["Server"]["properties"][key]
    drain = definitions["Server"]["properties"]["drain"]
    drain |= drain.pop("anyOf")[0]  # a number: a variable would tell Kubernetes nothing about its grace period
    definitions["Pool"]["anyOf"] = [
        {"required": ["workers"], "properties": {"workers": {"minItems": 1}}},
        {"required": ["discover"]},
        {"required": ["engine"], "properties": {"engine": {"const": "embedded"}}},
    ]
    is_open = {"allow_open": {"not": {"const": False}}}
    config["anyOf"] = [
        {"required": ["keys"], "properties": {"keys": {"minItems": 1}}},
        {"required": ["server"], "properties": {"server": {"required": ["allow_open"], "properties": is_open}}},
    ]
    schema["properties"]["config"] = config
    schema["$defs"] |= definitions
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
