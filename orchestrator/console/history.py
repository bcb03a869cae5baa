"""The three health metrics over time, as points of a small plot. The numbers are the API's; here they only become places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.api.look import health
from orchestrator.api.words import Health, Rate
from orchestrator.stores import Store

INTERVALS = 24
MOST = 200
"""Runs of an interval that are looked at."""
HOUR = 3600.0
WIDTH, HEIGHT = 480.0, 120.0

LIMITS = {"gap": 0.05, "errors": 0.80, "bloat": 2.0}
"""The thresholds as alerts/rules.toml has them."""


@dataclass(frozen=True, slots=True)
class Plot:
    """`points` are (x, y) of the intervals with samples; `limit` is the y of the threshold; `title` says the latest value."""

    name: str
    latest: str
    limit: str
    limit_y: float
    points: Sequence[tuple[float, float]]
    samples: int

    @property
    def line(self) -> str:
        """The points as SVG has them."""
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in self.points)


async def history(store: Store, tenant: str | None, now: float, hours: int) -> dict[str, Any]:
    """What the page shows of the last hours."""
    since, step = now - hours * HOUR, hours * HOUR / INTERVALS
    found = [
        await health(store, since + index * step, since + (index + 1) * step, tenant, None, most=MOST)
        for index in range(INTERVALS)
    ]
    outcomes: Counter[str] = Counter()
    for each in found:
        outcomes.update(each.outcomes)
    plots = (
        plot("gap", [each.thought_action_gap for each in found], percent=True),
        plot("errors", [each.error_propagation for each in found], percent=True),
        plot("bloat", [each.step_bloat for each in found], percent=False),
    )
    return {
        "plots": plots,
        "outcomes": outcomes.most_common(),
        "complete": _complete(found),
        "since": since,
        "until": now,
    }


def plot(name: str, rates: Sequence[Rate], *, percent: bool) -> Plot:
    """One metric."""
    values = [(index, rate.value) for index, rate in enumerate(rates) if rate.value is not None]
    top = 1.0 if percent else max([2.5, *(value for _, value in values)])
    limit = LIMITS[name]
    points = [((index + 0.5) / INTERVALS * WIDTH, _y(value, top)) for index, value in values]
    latest = _said(values[-1][1], percent=percent) if values else "-"
    return Plot(name, latest, _said(limit, percent=percent), _y(limit, top), points, sum(rate.of for rate in rates))


def _y(value: float, top: float) -> float:
    return HEIGHT - value / top * (HEIGHT - 10)


def _said(value: float, *, percent: bool) -> str:
    return f"{value * 100:.1f} %" if percent else f"{value:.2f}"


def _complete(found: Sequence[Health]) -> bool:
    return all(each.complete for each in found)
