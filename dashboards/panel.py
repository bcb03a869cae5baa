"""What a panel is, in the few words that our boards need, and how it becomes one of Grafana's.

Colours come from the alert rules: a panel that is red is one whose alert fires, or is about to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from grafana_foundation_sdk.builders import bargauge, common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as words
from grafana_foundation_sdk.models import dashboard as models

from orchestrator.alerts import Rule

Kind: TypeAlias = Literal["stat", "lines", "stacked", "bars", "table"]
SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
GREEN, RED, GREY = "green", "red", "text"


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL, and what a line of it is called (`{{label}}` for the value of a label)."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `says` is what it shows and what to do when it is red. `limit` is where red begins; `below` if under it.

    `links` are (title, URL) of a table's rows. Sizes are in Grafana's grid of 24 columns.
    """

    title: str
    says: str
    queries: Sequence[Query]
    unit: str
    kind: Kind = "lines"
    width: int = 8
    height: int = 8
    limit: float | None = None
    below: bool = False
    decimals: int | None = None
    most: float | None = None
    links: Sequence[tuple[str, str]] = field(default=())

    def limited(self, rule: Rule) -> Panel:
        """The panel with the threshold of an alert."""
        return replace(self, limit=rule.threshold, below=rule.comparison == "below")


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a heading that asks the question they answer."""

    title: str
    panels: Sequence[Panel]


def build(panel: Panel, number: int) -> Builder[models.Panel]:
    """Grafana's panel of this number."""
    made = _made(panel)
    made.id(number).title(panel.title).description(panel.says).datasource(SOURCE).unit(panel.unit)
    made.span(panel.width).height(panel.height).thresholds(_thresholds(panel))
    for index, query in enumerate(panel.queries):
        made.with_target(_target(panel, query, "ABCDEFGH"[index]))
    if panel.decimals is not None:
        made.decimals(panel.decimals)
    if panel.unit == "percentunit" or panel.kind in {"stacked", "bars"}:
        made.min(0)
    if panel.most is not None:
        made.max(panel.most)
    if panel.links:
        made.data_links([dashboard.DashboardLink(title).url(url).target_blank(True) for title, url in panel.links])
    return made


Made: TypeAlias = stat.Panel | timeseries.Panel | bargauge.Panel | table.Panel


def _made(panel: Panel) -> Made:
    match panel.kind:
        case "stat":
            return (
                stat.Panel()
                .color_mode(
                    words.BigValueColorMode.BACKGROUND if panel.limit is not None else words.BigValueColorMode.NONE
                )
                .graph_mode(words.BigValueGraphMode.AREA if panel.limit is not None else words.BigValueGraphMode.NONE)
                .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
                .no_value("no data")
            )
        case "bars":
            return (
                bargauge.Panel()
                .orientation(words.VizOrientation.HORIZONTAL)
                .display_mode(words.BarGaugeDisplayMode.BASIC)
                .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
            )
        case "table":
            return table.Panel().transformations([models.DataTransformerConfig(id_val="organize", options=_COLUMNS)])
        case "lines" | "stacked":
            return _timeseries(panel)


_COLUMNS = {
    "excludeByName": {"Time": True, "instance": True, "job": True, "__name__": True},
    "renameByName": {"Value": "trouble", "run_id": "run"},
}


def _timeseries(panel: Panel) -> timeseries.Panel:
    style = words.GraphThresholdsStyleMode
    made = (
        timeseries.Panel()
        .line_width(2)
        .show_points(words.VisibilityMode.NEVER)
        .thresholds_style(
            common.GraphThresholdsStyleConfig().mode(style.OFF if panel.limit is None else style.DASHED_AND_AREA)
        )
        .legend(
            common.VizLegendOptions()
            .display_mode(words.LegendDisplayMode.LIST)
            .placement(words.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(common.VizTooltipOptions().mode(words.TooltipDisplayMode.MULTI).sort(words.SortOrder.DESCENDING))
    )
    if panel.kind == "stacked":
        made.fill_opacity(60).line_width(0).stacking(common.StackingConfig().mode(words.StackingMode.NORMAL))
    return made


def _thresholds(panel: Panel) -> dashboard.ThresholdsConfig:
    limit = panel.limit
    if limit is None:
        steps = [models.Threshold(color=GREY)]
    elif panel.below:
        steps = [models.Threshold(color=RED), models.Threshold(value=limit, color=GREEN)]
    else:  # an alert fires above its threshold, Grafana colours from it on: the next number up is the same for the eye
        steps = [models.Threshold(color=GREEN), models.Threshold(value=limit or 1e-9, color=RED)]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


def _target(panel: Panel, query: Query, ref: str) -> prometheus.Dataquery:
    made = (
        prometheus.Dataquery().expr(query.expr).legend_format(query.legend or "__auto").ref_id(ref).datasource(SOURCE)
    )
    if panel.kind in {"table", "bars"}:
        made.instant().format("table" if panel.kind == "table" else "time_series")  # type: ignore[arg-type]
    else:
        made.range().exemplar(panel.kind == "lines")
    return made
