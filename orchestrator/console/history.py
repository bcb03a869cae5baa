"""The three health metrics over time, as points of a small plot. The numbers are the API's; here they only become places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.api.look import health
from orchestrator.api.words import Health, Rate
from orchestrator.stores import Store

INTERVALS = 24
MOST = 200
"""Runs of an interval that are looked at."""
HOUR = 3600.0
ROOM = 0.92
"""Share of a plot's height that its largest value takes."""

LIMITS = {"gap": 0.05, "errors": 0.80, "bloat": 2.0}
"""The thresholds as alerts/rules.toml has them."""
BELOW = frozenset({"errors"})
"""Where less is worse."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One interval with samples: its place in percent, its value in words, its samples, and its times."""

    x: float
    y: float
    said: str
    samples: int
    since: float
    until: float
    bad: bool


@dataclass(frozen=True, slots=True)
class Plot:
    """`limit_y` is the place of the threshold in percent from the top, `top` what the largest value in sight is, in words."""

    name: str
    limit: str
    limit_y: float
    top: str
    dots: Sequence[Dot]
    step: float

    @property
    def latest(self) -> Dot | None:
        """The newest."""
        return self.dots[-1] if self.dots else None

    @property
    def samples(self) -> int:
        """Of all intervals."""
        return sum(dot.samples for dot in self.dots)

    @property
    def lines(self) -> Iterator[str]:
        """The dots as SVG has them, a line for each stretch of neighbouring intervals."""
        line: list[Dot] = []
        for dot, after in zip(self.dots, (*self.dots[1:], None), strict=True):
            line.append(dot)
            if after is None or after.since - dot.since > 1.5 * self.step:
                yield " ".join(f"{each.x:.2f},{each.y:.2f}" for each in line)
                line = []


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
        plot("gap", [each.thought_action_gap for each in found], since, step, percent=True),
        plot("errors", [each.error_propagation for each in found], since, step, percent=True),
        plot("bloat", [each.step_bloat for each in found], since, step, percent=False),
    )
    return {
        "plots": plots,
        "outcomes": outcomes.most_common(),
        "runs": outcomes.total(),
        "complete": _complete(found),
        "since": since,
        "until": now,
    }


def plot(name: str, rates: Sequence[Rate], since: float, step: float, *, percent: bool) -> Plot:
    """One metric, its intervals `step` seconds long."""
    values = [(index, rate.value, rate.of) for index, rate in enumerate(rates) if rate.value is not None]
    top = 1.0 if name in BELOW else max([2 * LIMITS[name] if percent else 2.5, *(value for _, value, _ in values)])
    limit = LIMITS[name]
    dots = [
        Dot(
            (index + 0.5) / INTERVALS * 100,
            _y(value, top),
            _said(value, percent=percent),
            samples,
            since + index * step,
            since + (index + 1) * step,
            value < limit if name in BELOW else value > limit,
        )
        for index, value, samples in values
    ]
    return Plot(name, _said(limit, percent=percent), _y(limit, top), _said(top, percent=percent), dots, step)


def _y(value: float, top: float) -> float:
    return 100 - value / top * 100 * ROOM


def _said(value: float, *, percent: bool) -> str:
    return f"{value * 100:.1f} %" if percent else f"{value:.2f}"


def _complete(found: Sequence[Health]) -> bool:
    return all(each.complete for each in found)
