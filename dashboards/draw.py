"""A board as a web page with drawings, from the answers of its own queries: what Grafana would show, where there is no Grafana.

It reads the committed JSON, so it cannot show what the board does not ask for.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import localtime, strftime
from typing import Any

COLUMN, LINE = 62, 33
PALETTE = (
    "#73bf69",
    "#5794f2",
    "#f2cc0c",
    "#ff9830",
    "#b877d9",
    "#8ab8ff",
    "#ff7383",
    "#37872d",
    "#c4162a",
    "#96d98d",
    "#e0b400",
    "#6ed0e0",
)
COLOURS = {"green": "#299c46", "red": "#d44a3a", "text": "#22252b"}
MOST_LINES = 7
STYLE = """
body { margin: 0; background: #111217; color: #ccccdc; font: 13px "DejaVu Sans", "Noto Sans CJK SC", sans-serif; }
h1 { font-size: 20px; margin: 14px 16px 2px; } .note { margin: 0 16px 6px; color: #8e8e9c; font-size: 12px; }
.board { position: relative; } .row { position: absolute; left: 12px; font-size: 15px; font-weight: bold; color: #d8d9e6; }
.panel { position: absolute; box-sizing: border-box; background: #181b1f; border: 1px solid #26282e; border-radius: 3px; overflow: hidden; }
.title { padding: 5px 8px 0; font-size: 13px; font-weight: bold; white-space: nowrap; } .big { text-align: center; color: #fff; }
.legend { position: absolute; left: 8px; right: 8px; bottom: 3px; font-size: 11px; line-height: 14px; max-height: 28px; overflow: hidden; }
.legend span { margin-right: 10px; white-space: nowrap; } .dot { display: inline-block; width: 9px; height: 9px; border-radius: 2px; margin-right: 4px; }
table { border-collapse: collapse; width: calc(100% - 16px); margin: 4px 8px; font-size: 12px; } td, th { text-align: left; padding: 3px 8px; border-bottom: 1px solid #26282e; }
th { color: #8ab8ff; } td.link { color: #6e9fff; font-family: "DejaVu Sans Mono", monospace; }
"""


@dataclass(frozen=True, slots=True)
class Line:
    """One series: its name on the board, and (unix seconds, value) points; of an instant query one point."""

    name: str
    points: Sequence[tuple[float, float]]
    labels: Mapping[str, str] = field(default_factory=dict)


def page(board: Mapping[str, Any], answers: Mapping[int, Sequence[Line]], start: float, end: float) -> str:
    """The whole page. `answers` are the lines of each panel by its id."""
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])
    body = "".join(_panel(panel, answers.get(panel["id"], ()), start, end) for panel in board["panels"])
    title = html.escape(board["title"])
    note = f"drawn from Prometheus with the queries of dashboards/{board['uid'].removeprefix('orch-')}.json by the repository's own drawing code; no Grafana server"
    return (
        f'<!DOCTYPE html><meta charset="utf-8"><style>{STYLE}</style><h1>{title}</h1><p class="note">{note}</p>'
        f'<div class="board" style="width:{24 * COLUMN + 16}px;height:{bottom * LINE + 10}px">{body}</div>'
    )


def size(board: Mapping[str, Any]) -> tuple[int, int]:
    """Width and height of its page in pixels."""
    return 24 * COLUMN + 16, max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in board["panels"]) * LINE + 78


def _panel(panel: Mapping[str, Any], lines: Sequence[Line], start: float, end: float) -> str:
    at = panel["gridPos"]
    left, top = 8 + at["x"] * COLUMN, at["y"] * LINE
    width, height = at["w"] * COLUMN - 6, at["h"] * LINE - 6
    title = html.escape(panel["title"])
    if panel["type"] == "row":
        return f'<div class="row" style="top:{top + 8}px">{title}</div>'
    kind = {"stat": _stat, "bargauge": _bars, "table": _table}.get(panel["type"])
    inside = kind(panel, lines, width, height) if kind else _chart(panel, lines, (width, height), (start, end))
    fill = _colour(panel, _last(lines)) if panel["type"] == "stat" else ""
    style = f"left:{left}px;top:{top}px;width:{width}px;height:{height}px;{f'background:{fill}' if fill else ''}"
    return f'<div class="panel" style="{style}"><div class="title">{title}</div>{inside}</div>'


def _last(lines: Sequence[Line]) -> float | None:
    values = [value for line in lines[:1] for _, value in line.points if not math.isnan(value)]
    return values[-1] if values else None


def _colour(panel: Mapping[str, Any], value: float | None) -> str:
    """The colour of the last threshold at or under the value, as Grafana has it."""
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    if value is None:
        return COLOURS["text"]
    passed = [step["color"] for step in steps if step.get("value") is None or value >= step["value"]]
    return COLOURS[passed[-1]]


def shown(value: float, panel: Mapping[str, Any]) -> str:
    """A value in its panel's unit."""
    defaults = panel["fieldConfig"]["defaults"]
    unit, decimals = defaults["unit"], defaults.get("decimals")
    if unit == "percentunit":
        return f"{value * 100:.{decimals or 0}f} %"
    if unit == "s" and not value:
        return "0 s"
    if unit == "s" and value < 1:
        return f"{value * 1000:.{0 if value >= 0.01 or not value else 1}f} ms"
    if unit == "s":
        return f"{value:.{min(decimals or 0, 1)}f} s" if value < 120 else f"{value / 60:.1f} min"
    if unit == "bytes":
        return f"{value / 2**20:.0f} MiB"
    return f"{value:.{decimals}f}" if decimals is not None and value < 10_000 else _short(value)


def _short(value: float) -> str:
    """Three digits: 8, 512, 1.5 K, 2.25 M."""
    for scale, letter in ((1e6, " M"), (1e3, " K")):
        if value >= scale:
            return f"{value / scale:.3g}{letter}"
    return f"{value:.3g}"


def _stat(panel: Mapping[str, Any], lines: Sequence[Line], width: int, height: int) -> str:
    value = _last(lines)
    text = "no data" if value is None else shown(value, panel)
    points = [point for line in lines[:1] for point in line.points if not math.isnan(point[1])]
    coloured = len(panel["fieldConfig"]["defaults"]["thresholds"]["steps"]) > 1
    area = _sparkline(points, width, 46) if coloured and len(points) > 1 else ""
    font = min(52, int(width / max(len(text), 4) * 1.25), height // 3)
    return f'<div class="big" style="font-size:{font}px;margin-top:{height // 2 - font - 8}px">{text}</div>{area}'


def _sparkline(points: Sequence[tuple[float, float]], width: int, height: int) -> str:
    low, high = min(value for _, value in points), max(value for _, value in points)
    first, span = points[0][0], (points[-1][0] - points[0][0]) or 1
    scale = (high - low) or 1
    path = " ".join(
        f"{(at - first) / span * width:.1f},{height - 4 - (value - low) / scale * (height - 10):.1f}"
        for at, value in points
    )
    return (
        f'<svg style="position:absolute;bottom:0;left:0" width="{width}" height="{height}">'
        f'<polygon points="0,{height} {path} {width},{height}" fill="#ffffff" opacity="0.18"/>'
        f'<polyline points="{path}" fill="none" stroke="#fff" stroke-width="1.5" opacity="0.8"/></svg>'
    )


def _bars(panel: Mapping[str, Any], lines: Sequence[Line], width: int, height: int) -> str:
    ranked = sorted(lines, key=lambda line: -line.points[-1][1])[:8]
    most = panel["fieldConfig"]["defaults"].get("max") or max((line.points[-1][1] for line in ranked), default=1) or 1
    step = min(30, (height - 40) / max(len(ranked), 1))
    drawn = []
    for index, line in enumerate(ranked):
        value, y = line.points[-1][1], 34 + index * step
        limited = len(panel["fieldConfig"]["defaults"]["thresholds"]["steps"]) > 1
        colour = _colour(panel, value) if limited else PALETTE[1]
        drawn.append(
            f'<text x="8" y="{y + step * 0.62:.0f}" fill="#ccccdc" font-size="12">{html.escape(line.name[:24])}</text>'
            f'<rect x="165" y="{y + 3:.0f}" width="{max(2.0, (width - 245) * value / most):.0f}" height="{step - 7:.0f}" fill="{colour}" rx="2"/>'
            f'<text x="{width - 8}" y="{y + step * 0.62:.0f}" fill="#fff" font-size="12" text-anchor="end">{shown(value, panel)}</text>'
        )
    return f'<svg style="position:absolute;left:0;top:0" width="{width}" height="{height}">{"".join(drawn)}</svg>'


def _table(panel: Mapping[str, Any], lines: Sequence[Line], _width: int, height: int) -> str:
    rows = sorted(lines, key=lambda line: -line.points[-1][1])[: (height - 60) // 24 + 1]
    body = "".join(
        f'<tr><td class="link">{html.escape(line.labels.get("run_id", ""))}</td><td>{html.escape(line.labels.get("agent", ""))}</td>'
        f"<td>{html.escape(line.labels.get('outcome', ''))}</td><td>{shown(line.points[-1][1], panel)}</td></tr>"
        for line in rows
    )
    return f"<table><tr><th>run</th><th>agent</th><th>outcome</th><th>trouble</th></tr>{body}</table>"


def _chart(panel: Mapping[str, Any], lines: Sequence[Line], extent: tuple[int, int], times: tuple[float, float]) -> str:
    stacked = panel["fieldConfig"]["defaults"]["custom"].get("stacking", {}).get("mode") == "normal"
    chosen = sorted(
        lines, key=lambda line: -max((value for _, value in line.points if not math.isnan(value)), default=0)
    )[:MOST_LINES]
    more = f"<span>and {len(lines) - MOST_LINES} more</span>" if len(lines) > MOST_LINES else ""
    limit = _limit(panel)
    plot = _Plot(extent, times, _top(panel, chosen, limit, stacked=stacked))
    legend = "".join(
        f'<span><i class="dot" style="background:{PALETTE[index]}"></i>{html.escape(line.name)}</span>'
        for index, line in enumerate(chosen)
    )
    marks = plot.threshold(limit, below=_below(panel)) if limit is not None and limit <= plot.top else ""
    curves = plot.stacked(chosen) if stacked else plot.lines(chosen)
    return (
        f'<svg style="position:absolute;left:0;top:0" width="{extent[0]}" height="{extent[1]}">'
        f'{plot.axes(panel)}{marks}{curves}</svg><div class="legend">{legend}{more}</div>'
    )


def _limit(panel: Mapping[str, Any]) -> float | None:
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    return float(steps[1]["value"]) if len(steps) > 1 else None


def _below(panel: Mapping[str, Any]) -> bool:
    return bool(panel["fieldConfig"]["defaults"]["thresholds"]["steps"][0]["color"] == "red")


def _top(panel: Mapping[str, Any], lines: Sequence[Line], limit: float | None, *, stacked: bool) -> float:
    """The upper end of the axis: a round number above all values; the threshold is in sight where it is near."""
    if stacked:
        sums: dict[float, float] = {}
        for line in lines:
            for at, value in line.points:
                sums[at] = sums.get(at, 0.0) + (0.0 if math.isnan(value) else value)
        most = max(sums.values(), default=1.0)
    else:
        most = max((value for line in lines for _, value in line.points if not math.isnan(value)), default=1.0)
    if limit is not None and limit < most * 20:
        most = max(most, limit * 1.25)
    fixed = panel["fieldConfig"]["defaults"].get("max")
    share = panel["fieldConfig"]["defaults"]["unit"] == "percentunit"
    return float(fixed) if fixed else min(_round(most or 1.0), 1.0 if share else math.inf)


def _round(value: float) -> float:
    size_of = 10.0 ** math.floor(math.log10(value * 1.05))
    return next(step * size_of for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if step * size_of >= value * 1.04)


class _Plot:
    """The plane of one chart: data to pixels."""

    def __init__(self, extent: tuple[int, int], times: tuple[float, float], top: float) -> None:
        self.top = top
        self._left, self._right = 58, extent[0] - 12
        self._upper, self._lower = 36, extent[1] - 56
        self._times = times

    def x(self, at: float) -> float:
        first, last = self._times
        return self._left + (at - first) / (last - first) * (self._right - self._left)

    def y(self, value: float) -> float:
        return self._lower - min(value / self.top, 1.05) * (self._lower - self._upper)

    def axes(self, panel: Mapping[str, Any]) -> str:
        """Four grid lines with their values, four times."""
        drawn = []
        for part in range(5):
            value, y = self.top * part / 4, self.y(self.top * part / 4)
            drawn.append(
                f'<line x1="{self._left}" x2="{self._right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#2c2f36"/>'
                f'<text x="{self._left - 6}" y="{y + 4:.1f}" fill="#9a9aa8" font-size="11" text-anchor="end">{_tick(value, panel, self.top)}</text>'
            )
        for part in range(4):
            at = self._times[0] + (self._times[1] - self._times[0]) * (part + 0.5) / 4
            text = strftime("%H:%M:%S", localtime(at))
            drawn.append(
                f'<text x="{self.x(at):.0f}" y="{self._lower + 16}" fill="#9a9aa8" font-size="11" text-anchor="middle">{text}</text>'
            )
        return "".join(drawn)

    def threshold(self, limit: float, *, below: bool) -> str:
        """The dashed line, and the red of its wrong side."""
        y = self.y(limit)
        upper, lower = (y, self._lower) if below else (self._upper, y)
        return (
            f'<rect x="{self._left}" y="{upper:.1f}" width="{self._right - self._left}" height="{max(0.0, lower - upper):.1f}" fill="#d44a3a" opacity="0.13"/>'
            f'<line x1="{self._left}" x2="{self._right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d44a3a" stroke-dasharray="6 4" stroke-width="1.5"/>'
        )

    def lines(self, lines: Sequence[Line]) -> str:
        drawn = []
        for index, line in enumerate(lines):
            path = " ".join(
                f"{self.x(at):.1f},{self.y(value):.1f}" for at, value in line.points if not math.isnan(value)
            )
            drawn.append(f'<polyline points="{path}" fill="none" stroke="{PALETTE[index]}" stroke-width="2"/>')
        return "".join(reversed(drawn))

    def stacked(self, lines: Sequence[Line]) -> str:
        times = sorted({at for line in lines for at, _ in line.points})
        base = dict.fromkeys(times, 0.0)
        drawn = []
        for index, line in enumerate(lines):
            values = {at: value for at, value in line.points if not math.isnan(value)}
            over = {at: base[at] + values.get(at, 0.0) for at in times}
            path = [f"{self.x(at):.1f},{self.y(over[at]):.1f}" for at in times]
            back = [f"{self.x(at):.1f},{self.y(base[at]):.1f}" for at in reversed(times)]
            drawn.append(f'<polygon points="{" ".join(path + back)}" fill="{PALETTE[index]}" opacity="0.75"/>')
            base = over
        return "".join(drawn)


def _tick(value: float, panel: Mapping[str, Any], top: float) -> str:
    unit = panel["fieldConfig"]["defaults"]["unit"]
    if unit == "percentunit":
        return f"{value * 100:.{0 if top >= 0.2 else 1}f} %"
    if unit == "s":
        return f"{value * 1000:.3g} ms" if top < 1 else f"{value:.3g} s"
    if unit == "bytes":
        return f"{value / 2**20:.0f} MiB"
    return _short(value)
