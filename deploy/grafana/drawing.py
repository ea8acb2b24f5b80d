"""Draws a board as Grafana would, from the committed JSON and a Prometheus that answers: for people without a Grafana.

Only what these boards use: stats, lines, stacked areas, state timelines.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from time import gmtime, strftime
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator
from PIL import Image

mpl.use("Agg")

Series = tuple[dict[str, str], list[tuple[float, float]]]
Ask = Callable[[str], list[Series]]
"""From an expression to its series over the time that is drawn."""

PAGE, PANEL, TEXT, FAINT, GRID = "#111217", "#181b1f", "#ccccdc", "#8e8e9e", "#2c3038"
COLORS: Final = ("#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#705da0", "#37872d",
                 "#fade2a", "#447ebc", "#c15c17")  # fmt: skip
NAMED: Final = {
    "green": "#73bf69",
    "dark-green": "#37872d",
    "yellow": "#f2cc0c",
    "orange": "#ff780a",
    "red": "#f2495c",
    "blue": "#5794f2",
    "light-blue": "#8ab8ff",
    "purple": "#b877d9",
    "gray": "#808080",
    "white": "#ffffff",
}
"""Grafana's own."""
COLUMN, LINE = 0.75, 0.42
"""Inches of a grid unit."""
MARGIN = 0.1
MOST_NAMES: Final = 12


def draw(board: dict[str, Any], ask: Ask, path: Path) -> None:
    """Write the board as a PNG. `ask` gets expressions with their variables filled in."""
    panels: list[dict[str, Any]] = board["panels"]
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    width, height = 24 * COLUMN, (rows + 1.6) * LINE
    figure = Figure(figsize=(width, height), dpi=100, facecolor=PAGE)
    figure.text(0.01, 1 - 0.55 * LINE / height, board["title"], color=TEXT, size=16, weight="bold", va="center")
    figure.text(0.01, 1 - 1.2 * LINE / height, board["description"], color=FAINT, size=10, va="center")
    for panel in panels:
        at = panel["gridPos"]
        box = (
            (at["x"] * COLUMN + MARGIN) / width,
            1 - ((at["y"] + at["h"] + 1.6) * LINE - MARGIN) / height,
            (at["w"] * COLUMN - 2 * MARGIN) / width,
            (at["h"] * LINE - 2 * MARGIN) / height,
        )
        if panel["type"] == "row":
            figure.text(box[0], box[1] + box[3] / 2, f"▾ {panel['title']}", color=TEXT, size=11, va="center")
            continue
        frame = figure.add_axes(box, facecolor=PANEL)
        frame.set_xticks([])
        frame.set_yticks([])
        for spine in frame.spines.values():
            spine.set_color(GRID)
        is_stat = panel["type"] == "stat"
        title = {"color": TEXT, "size": 9.5, "ha": "center" if is_stat else "left", "va": "center"}
        frame.text(0.5 if is_stat else 0.02, 1 - 0.16 / (at["h"] * LINE), panel["title"], title)
        found = [(target, ask(filled(target["expr"]))) for target in panel["targets"]]
        _DRAW[panel["type"]](figure, box, panel, found)
    figure.savefig(path)
    with Image.open(path) as picture:  # a quarter of the size, and no eye sees it
        picture.convert("RGB").quantize(128).save(path, optimize=True)


def filled(expr: str, interval: str = "30s") -> str:
    """With every variable at its widest."""
    return expr.replace("$__rate_interval", interval).replace("$job", ".*").replace("$pool", ".*")


def named(legend: str, labels: dict[str, str]) -> str:
    """`{{pool}} {{worker}}` filled in."""
    for name, value in labels.items():
        legend = legend.replace("{{" + name + "}}", value)
    return legend or "value"


def shown(value: float, unit: str, decimals: int | None = None) -> str:
    """As Grafana writes it, roughly."""
    if unit == "percentunit":
        return f"{value * 100:.3g}%" if decimals is None else f"{value * 100:.{decimals}f}%"
    if unit == "s":
        if abs(value) < 1 and value:
            return f"{value * 1000:.3g} ms"
        return f"{value:.3g} s" if value < 120 else f"{value / 60:.1f} min"
    ending = {"reqps": " req/s", "ops": " /s"}.get(unit, "")
    for size, letter in ((1e6, " M"), (1e3, " K")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}{ending}"
    return f"{value:.3g}{ending}" if decimals is None else f"{value:.{decimals}f}{ending}"


def _stat(figure: Figure, box: tuple[float, ...], panel: dict[str, Any], found: list[Any]) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    series = [pairs for _, rows in found for _, pairs in rows]
    axes = _axes(figure, (box[0], box[1], box[2], box[3] * 0.45))
    axes.axis("off")
    if not series:
        figure.text(box[0] + box[2] / 2, box[1] + box[3] * 0.5, defaults["noValue"], color=FAINT, size=16, ha="center",
                    va="center")  # fmt: skip
        return
    times, values = zip(*series[0], strict=True)
    color = _color(values[-1], defaults["thresholds"]["steps"])
    axes.fill_between(times, values, color=color, alpha=0.25, lw=0)
    axes.plot(times, values, color=color, lw=1)
    axes.set_ylim(0, max(*values, 1e-9) * 1.15)
    axes.margins(x=0)
    text = shown(values[-1], defaults["unit"], defaults.get("decimals"))
    figure.text(box[0] + box[2] / 2, box[1] + box[3] * 0.56, text, color=color, size=21, ha="center", va="center")


def _timeseries(figure: Figure, box: tuple[float, ...], panel: dict[str, Any], found: list[Any]) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    custom = defaults.get("custom", {})
    is_stacked = custom.get("stacking", {}).get("mode") == "normal"
    axes = _axes(figure, (box[0] + box[2] * 0.11, box[1] + box[3] * 0.24, box[2] * 0.86, box[3] * 0.64))
    lines = [(named(target["legendFormat"], labels), pairs) for target, rows in found for labels, pairs in rows]
    lines.sort(key=lambda line: line[0])
    meant = {
        one["matcher"]["options"]: NAMED[one["properties"][0]["value"]["fixedColor"]]
        for one in panel["fieldConfig"]["overrides"]
    }
    if not lines:
        axes.text(0.5, 0.5, defaults["noValue"], color=FAINT, ha="center", va="center", transform=axes.transAxes)
    times = sorted({at for _, pairs in lines for at, _ in pairs})
    below = dict.fromkeys(times, 0.0)
    for place, (name, pairs) in enumerate(lines):
        color = meant.get(name, COLORS[place % len(COLORS)])
        values = dict(pairs)
        if is_stacked:
            above = {at: below[at] + values.get(at, 0.0) for at in times}
            axes.fill_between(times, list(below.values()), list(above.values()), color=color, alpha=0.35, lw=0)
            edge = list(above.values()) if any(values.values()) else [math.nan] * len(times)  # nothing has no edge
            axes.plot(times, edge, color=color, lw=1, label=name)
            below = above
        else:
            gapped = [values.get(at, math.nan) for at in times]
            axes.plot(times, gapped, color=color, lw=1.2, label=name, marker="." if len(pairs) < 3 else None)
            axes.fill_between(times, 0, gapped, color=color, alpha=0.06, lw=0)
    _finish(axes, defaults)
    if lines:
        axes.legend(*_some(axes), ncols=3 if max(len(name) for name, _ in lines) > 18 else 4, **_LEGEND)


_LEGEND: Final[dict[str, Any]] = {
    "loc": "upper left",
    "bbox_to_anchor": (-0.09, -0.12),
    "frameon": False,
    "fontsize": 7,
    "labelcolor": TEXT,
    "handlelength": 0.9,
    "columnspacing": 1,
    "borderpad": 0,
}


def _some(axes: Axes) -> tuple[list[Any], list[str]]:
    handles, names = axes.get_legend_handles_labels()
    if len(names) <= MOST_NAMES:
        return handles, names
    more = f"… {len(names) - MOST_NAMES + 1} more"
    return handles[:MOST_NAMES], [*names[: MOST_NAMES - 1], more]


def _finish(axes: Axes, defaults: dict[str, Any]) -> None:
    steps = [step["value"] for step in defaults.get("thresholds", {}).get("steps", []) if step["value"] is not None]
    top = defaults.get("max")
    _, high = axes.get_ylim()
    if defaults.get("custom", {}).get("thresholdsStyle", {}).get("mode") == "line":
        for step in steps:
            axes.axhline(step, color=NAMED["red"], lw=0.8, ls="--")
    axes.set_ylim(0, top if top is not None else max(high, *(step * 1.2 for step in steps), 1e-3) if high > 0 else 1)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, defaults["unit"])))
    _tell_time(axes)
    axes.margins(x=0)


def _timeline(figure: Figure, box: tuple[float, ...], panel: dict[str, Any], found: list[Any]) -> None:
    axes = _axes(figure, (box[0] + box[2] * 0.3, box[1] + box[3] * 0.2, box[2] * 0.67, box[3] * 0.65))
    words = panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
    lines = [(named(target["legendFormat"], labels), pairs) for target, rows in found for labels, pairs in rows]
    lines.sort(key=lambda line: line[0], reverse=True)
    for row, (_, pairs) in enumerate(lines):
        for (at, value), (until, _) in zip(pairs, [*pairs[1:], pairs[-1]], strict=True):
            color = NAMED[words[str(int(value))]["color"]]
            axes.barh(row, until - at, left=at, height=0.75, color=color, lw=0)
    axes.set_yticks(range(len(lines)), [name for name, _ in lines])
    _tell_time(axes)
    axes.grid(visible=False)
    axes.margins(x=0)
    for place, option in enumerate(words.values()):
        axes.text(
            0.3 * place, -0.24, f"■ {option['text']}", color=NAMED[option["color"]], size=7, transform=axes.transAxes
        )


def _axes(figure: Figure, box: tuple[float, ...]) -> Axes:
    axes = figure.add_axes((box[0], box[1], box[2], box[3]), facecolor="none")
    axes.tick_params(colors=FAINT, labelsize=7, length=0)
    axes.grid(color=GRID, lw=0.6)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return axes


MOST_TIMES: Final = 6
_STEPS: Final = (10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 86_400)
"""Seconds between two marks."""


def _tell_time(axes: Axes) -> None:
    begin, end = axes.get_xlim()
    step = next((step for step in _STEPS if (end - begin) / step <= MOST_TIMES), _STEPS[-1])
    axes.xaxis.set_major_locator(MultipleLocator(step))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: strftime("%H:%M:%S", gmtime(at))))


def _color(value: float, steps: list[dict[str, Any]]) -> str:
    color = steps[0]["color"]
    for step in steps[1:]:
        if value >= step["value"]:
            color = step["color"]
    return NAMED[color]


_DRAW: Final = {"stat": _stat, "timeseries": _timeseries, "state-timeline": _timeline}
