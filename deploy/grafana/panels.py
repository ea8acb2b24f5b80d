"""What all boards have in common: variables, links, sizes, colours, and the shapes of their queries.

A panel is a title, a sentence that names its series, a unit and one query a line. Which there are, the boards say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, statetimeline, timeseries
from grafana_foundation_sdk.models import common as shapes
from grafana_foundation_sdk.models import dashboard as model

TAG: Final = "thinkgate"
SOURCE: Final = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
SELECT: Final = 'job=~"$job", pool=~"$pool"'
JOB: Final = 'job=~"$job"'
"""For series that know no pool."""
WIDTH: Final = 24
STATS_A_ROW, STAT_HEIGHT = 6, 4
PANELS_A_ROW, PANEL_HEIGHT = 3, 8

GREEN, YELLOW, RED, BLUE = "green", "yellow", "red", "blue"
OUTCOMES: Final = {
    "answered": "green",
    "cut_answered": "dark-green",
    "loop_rescued": "blue",
    "migrated": "light-blue",
    "length": "yellow",
    "loop": "orange",
    "rejected": "purple",
    "client_gone": "gray",
    "failed": "red",
}
Steps = tuple[tuple[float | None, str], ...]
PLAIN: Final[Steps] = ((None, BLUE),)
ERRORS: Final[Steps] = ((None, GREEN), (0.001, YELLOW), (0.01, RED))
"""As on vLLM's own board: a thousandth and a hundredth."""


@dataclass(frozen=True)
class Query:
    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Stat:
    """One number now."""

    title: str
    about: str
    unit: str
    query: Query
    steps: Steps = PLAIN
    decimals: int | None = None
    none: str = "no traffic"


@dataclass(frozen=True)
class Graph:
    """Lines over time; `stacked` where they add up; `limit` draws a line that is not to be passed."""

    title: str
    about: str
    unit: str
    queries: tuple[Query, ...]
    stacked: bool = False
    ceiling: float | None = None
    limit: float | None = None
    colors: dict[str, str] = field(default_factory=dict[str, str])
    """By the name in the legend, where a name has a meaning."""


@dataclass(frozen=True)
class Timeline:
    """Which state each one is in."""

    title: str
    about: str
    query: Query
    states: dict[int, tuple[str, str]]
    """(word, colour) by value."""


@dataclass(frozen=True)
class Row:
    title: str
    panels: tuple[Graph | Timeline, ...]


@dataclass(frozen=True)
class Board:
    uid: str
    title: str
    about: str
    stats: tuple[Stat, ...]
    rows: tuple[Row, ...] = field(default_factory=tuple)


def rate(series: str, by: str = "", *, select: str = SELECT, **labels: str) -> str:
    """Per second, added up over all but `by`. A label's value is a regular expression."""
    more = "".join(f', {name}=~"{value}"' for name, value in labels.items())
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} (rate({series}{{{select}{more}}}[$__rate_interval]))"


def now(series: str, how: str = "sum", by: str = "", *, select: str = SELECT, **labels: str) -> str:
    """A gauge as it stands."""
    more = "".join(f', {name}=~"{value}"' for name, value in labels.items())
    grouped = f" by ({by})" if by else ""
    return f"{how}{grouped} ({series}{{{select}{more}}})"


def ratio(part: str, whole: str) -> str:
    """None where there is no traffic, rather than not a number."""
    return f"{part} / ({whole} > 0)"


def quantile(part: float, series: str, by: str = "", *, select: str = SELECT) -> str:
    grouped = f"le, {by}" if by else "le"
    return f"histogram_quantile({part}, {rate(f'{series}_bucket', grouped, select=select)})"


def quantiles(series: str, by: str, *parts: float, select: str = SELECT) -> tuple[Query, ...]:
    """One query a quantile, for each of `by`."""
    legend = f" {{{{{by}}}}}" if by else ""
    return tuple(Query(quantile(part, series, by, select=select), f"p{part * 100:g}{legend}") for part in parts)


def build(board: Board) -> model.Dashboard:
    """Stats on top, then rows of three panels."""
    made = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.about)
        .tags([TAG])
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("Other boards")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(include_vars=True)
            .keep_time(keep_time=True)
        )
        .with_variable(dashboard.DatasourceVariable("datasource").type("prometheus").label("Data source"))
        .with_variable(_variable("job", "label_values(thinkgate_flights_in_flight, job)", "Gateway"))
        .with_variable(_variable("pool", 'label_values(thinkgate_flights_in_flight{job=~"$job"}, pool)', "Pool"))
    )
    number, y = 1, 0
    for place, one in enumerate(board.stats):
        width = WIDTH // STATS_A_ROW
        at = model.GridPos(h=STAT_HEIGHT, w=width, x=place % STATS_A_ROW * width, y=place // STATS_A_ROW * STAT_HEIGHT)
        made.with_panel(_stat(one).id(number).grid_pos(at))
        number += 1
    y = -(-len(board.stats) // STATS_A_ROW) * STAT_HEIGHT
    for row in board.rows:
        made.with_row(dashboard.Row(row.title).id(number).grid_pos(model.GridPos(h=1, w=WIDTH, x=0, y=y)))
        number, y = number + 1, y + 1
        width = WIDTH // PANELS_A_ROW
        for place, one in enumerate(row.panels):
            at = model.GridPos(
                h=PANEL_HEIGHT, w=width, x=place % PANELS_A_ROW * width, y=y + place // PANELS_A_ROW * PANEL_HEIGHT
            )
            panel = _graph(one) if isinstance(one, Graph) else _timeline(one)
            made.with_panel(panel.id(number).grid_pos(at))
            number += 1
        y += -(-len(row.panels) // PANELS_A_ROW) * PANEL_HEIGHT
    return made.build()


def _variable(name: str, query: str, label: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .query(query)
        .datasource(SOURCE)
        .multi(multi=True)
        .include_all(include_all=True)
        .all_value(".*")
        .current(model.VariableOption(selected=True, text="All", value="$__all"))
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
    )


def _target(query: Query, place: int) -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(chr(ord("A") + place))


def _steps(steps: Steps) -> dashboard.ThresholdsConfig:
    found = [model.Threshold(value=value, color=color) for value, color in steps]
    return dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(found)


def _stat(one: Stat) -> stat.Panel:
    panel = (
        stat.Panel()
        .title(one.title)
        .description(one.about)
        .datasource(SOURCE)
        .unit(one.unit)
        .no_value(one.none)
        .thresholds(_steps(one.steps))
        .color_mode(shapes.BigValueColorMode.VALUE)
        .graph_mode(shapes.BigValueGraphMode.AREA)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .with_target(_target(one.query, 0))
    )
    return panel if one.decimals is None else panel.decimals(one.decimals)


def _graph(one: Graph) -> timeseries.Panel:
    panel = (
        timeseries.Panel()
        .title(one.title)
        .description(one.about)
        .datasource(SOURCE)
        .unit(one.unit)
        .min(0)
        .no_value("no traffic")
        .line_width(1)
        .fill_opacity(30 if one.stacked else 8)
        .show_points(shapes.VisibilityMode.NEVER)
        .legend(
            common.VizLegendOptions()
            .display_mode(shapes.LegendDisplayMode.LIST)
            .placement(shapes.LegendPlacement.BOTTOM)
            .show_legend(show_legend=True)
        )
        .tooltip(common.VizTooltipOptions().mode(shapes.TooltipDisplayMode.MULTI).sort(shapes.SortOrder.DESCENDING))
    )
    if one.stacked:
        panel.stacking(common.StackingConfig().mode(shapes.StackingMode.NORMAL))
    if one.ceiling is not None:
        panel.max(one.ceiling)
    if one.limit is not None:
        panel.thresholds(_steps(((None, GREEN), (one.limit, RED))))
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(shapes.GraphThresholdsStyleMode.LINE))
    for name, color in one.colors.items():
        fixed = model.DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": color})
        panel.override_by_name(name, [fixed])
    for place, query in enumerate(one.queries):
        panel.with_target(_target(query, place))
    return panel


def _timeline(one: Timeline) -> statetimeline.Panel:
    words = {
        str(value): model.ValueMappingResult(text=word, color=color, index=value)
        for value, (word, color) in one.states.items()
    }
    return (
        statetimeline.Panel()
        .title(one.title)
        .description(one.about)
        .datasource(SOURCE)
        .no_value("no workers")
        .merge_values(merge_values=True)
        .show_value(shapes.VisibilityMode.NEVER)
        .mappings([model.ValueMap(options=words)])
        .with_target(_target(one.query, 0))
    )
