"""What an alert rule is: data only. The generator turns it into PromQL, the monitor evaluates it over the store.

A rule is about *groups*: each combination of the labels in `by` (an agent and a model, say) fires and resolves by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from orchestrator.core.spec import Language


class Kind(StrEnum):
    """How the value of a group comes about.

    RATIO: sum of `over` / sum of `under` in the window. MEAN: of the values of `over`. INCREASE: sum of `over` in the window.
    GAUGE: the largest present value of `over`. ABSENCE: 1 where no `over` is above 0, else 0.
    """

    RATIO = "ratio"
    MEAN = "mean"
    INCREASE = "increase"
    GAUGE = "gauge"
    ABSENCE = "absence"


Comparison: TypeAlias = Literal["above", "below"]
Severity: TypeAlias = Literal["critical", "warning", "info"]
Unit: TypeAlias = Literal["percent", "ratio", "seconds", "count", "money"]
Group: TypeAlias = tuple[str, ...]
"""The values of a rule's `by` labels, in that order."""

DAY = 86_400.0
MINIMUM = 20


@dataclass(frozen=True, slots=True)
class Selector:
    """The samples of one metric whose labels have one of these values. `where` is sorted by label."""

    metric: str
    where: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Does a sample of this metric with these labels belong?"""
        return all(labels.get(label, "") in values for label, values in self.where)


@dataclass(frozen=True, slots=True)
class Rule:
    """One alert. Times are seconds, `title` and `says` are per language; `says` may hold {value}, {threshold} and labels.

    `resolve` is the value that ends a firing alert (hysteresis): at or within it, the alert resolves. With fewer than
    `minimum` samples there is no data: nothing fires, nothing resolves. `pending` is Prometheus' `for`. A firing alert
    without data for `hold` is closed: the agent that it was about is no longer there.
    """

    name: str
    kind: Kind
    over: Selector
    threshold: float
    resolve: float
    title: Mapping[Language, str]
    says: Mapping[Language, str]
    under: Selector | None = None
    by: tuple[str, ...] = ()
    comparison: Comparison = "above"
    window: float = 900.0
    minimum: int = MINIMUM
    pending: float = 0.0
    hold: float = DAY
    severity: Severity = "warning"
    unit: Unit = "count"

    @property
    def alert(self) -> str:
        """The name in Prometheus and Alertmanager: `thought_action_gap` is ThoughtActionGap."""
        return "".join(part.capitalize() for part in self.name.split("_"))

    def breached(self, value: float) -> bool:
        """Is the value beyond the threshold?"""
        return value > self.threshold if self.comparison == "above" else value < self.threshold

    def eased(self, value: float) -> bool:
        """Has the value come back far enough for a firing alert to resolve?"""
        return value <= self.resolve if self.comparison == "above" else value >= self.resolve

    def labels(self, group: Group) -> dict[str, str]:
        """The group's labels by name."""
        return dict(zip(self.by, group, strict=True))


def shown(value: float, unit: Unit) -> str:
    """The figure as people read it: `7.5 %`, `2.31`, `6 min 40 s`, `12`."""
    match unit:
        case "percent":
            return f"{value * 100:.4g} %"
        case "seconds":
            return _duration(value)
        case "ratio" | "count" | "money":
            return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "min"), (rest if not hours else 0, "s"))
    return " ".join(f"{count} {word}" for count, word in parts if count)
