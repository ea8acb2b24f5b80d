"""The Helm chart, rendered by Helm's own engine: whoever imports this skips where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kube import objects

helm_python = pytest.importorskip("helm_python", reason="Helm's engine is only there for Linux on x86-64")

ROOT = Path(__file__).parents[1]
CHART = ROOT / "deploy" / "helm" / "thinkgate"
HASH = "sha256:" + "a" * 64
LEAST: dict[str, Any] = {
    "image": {"repository": "registry.example:5000/thinkgate"},
    "secret": {"values": {"team": HASH}},
    "config": {
        "keys": [{"alias": "team", "hash": "file:team"}],
        "pools": {"reasoning": {"model": "r1", "engine": "vllm", "workers": ["http://engine:8000"]}},
    },
}
"""Values that say only what has to be said."""


def files_of(values: dict[str, Any], name: str = "demo") -> dict[str, str]:
    """All that the chart makes, by the path of its template."""
    with helm_python.Chart.load(str(CHART)) as chart:
        return chart.render(values, name=name, namespace="llm")


def rendered(values: dict[str, Any], name: str = "demo") -> list[dict[str, Any]]:
    files = files_of(values, name)
    return [one for path, text in files.items() if path.endswith(".yaml") for one in objects(text)]


def one(kind: str, values: dict[str, Any], name: str = "demo") -> dict[str, Any]:
    (found,) = [thing for thing in rendered(values, name) if thing["kind"] == kind]
    return found
