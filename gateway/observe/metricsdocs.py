"""The table of all series in docs/observability.md, from the code; a test fails when it drifts.

    python -m gateway.observe.metricsdocs docs

All above the marker is written by hand and kept. No sentence about a series is written here: it is its HELP.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from prometheus_client import Counter, Gauge, Histogram, Metric

from gateway.observe.metrics import Metrics

MARKER = "<!-- Below: made by `python -m gateway.observe.metricsdocs docs`. Do not edit. -->"

_UNITS = (
    ("_gpu_cost_total", "the currency of `gpu_hour_price`"),
    ("gpu_seconds", "GPU-seconds"),
    ("gpu_busy_seconds", "GPU-seconds"),
    ("gpu_pending_seconds", "GPU-seconds"),
    ("_seconds", "seconds"),
    ("_tokens", "tokens"),
    ("_ratio", "0 to 1, or more"),
    ("_ready", "0 or 1"),
    ("_state", "0 or 1"),
)
"""By what a name contains, the first that fits; all else is a number of things."""


def families() -> dict[str, Metric]:
    """All series of a process, by name as they are scraped."""
    return {_name(family): family for family in Metrics().registry.collect()}


def labels() -> dict[str, tuple[str, ...]]:
    """The labels of each series, by name."""
    found: dict[str, tuple[str, ...]] = {}
    for one in vars(Metrics()).values():
        if isinstance(one, Counter | Gauge | Histogram):
            [family] = one.describe()
            found[_name(family)] = tuple(vars(one)["_labelnames"])
    return found


def unit(name: str) -> str:
    return next((unit for part, unit in _UNITS if part in name), "a count")


def render() -> str:
    return "\n".join([*_rows(families(), labels()), ""])


def write(folder: Path) -> None:
    page = folder / "observability.md"
    by_hand = page.read_text(encoding="utf-8").partition(MARKER)[0]
    page.write_text(f"{by_hand}{MARKER}\n\n{render()}", encoding="utf-8")


def _rows(known: dict[str, Metric], named: dict[str, tuple[str, ...]]) -> Iterable[str]:
    yield "| series | type | labels | unit | meaning |"
    yield "|---|---|---|---|---|"
    for name in sorted(known):
        shown = ", ".join(f"`{label}`" for label in named[name])
        yield f"| `{name}` | {known[name].type} | {shown} | {unit(name)} | {known[name].documentation} |"


def _name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


if __name__ == "__main__":
    write(Path(sys.argv[1]))
