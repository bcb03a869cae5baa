"""Counts of samples by time, as much of the past as the rules look at. What Prometheus' `increase` reads off counters.

Samples are put into grains of a few seconds, so memory depends on the number of series and grains, not on traffic. A window
is up to one grain longer than the rule says.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from orchestrator.alerts.evaluate import Reading
from orchestrator.alerts.rule import Group, Kind, Rule, Selector

GRAIN = 10.0
RUNS = 5
"""How many runs to look at a Notification names."""

LABEL = 200
"""Characters of a label's value."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """A value that is so now, of no run: the age of the queue, a breaker."""

    metric: str
    labels: Mapping[str, str]
    value: float


@dataclass(slots=True)
class _Grain:
    number: int
    total: float = 0.0
    count: int = 0
    worst: list[tuple[float, float, str]] = field(default_factory=list)


@dataclass(slots=True)
class _Tally:
    total: float = 0.0
    count: int = 0
    worst: list[tuple[float, float, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Series:
    labels: Mapping[str, str]
    grains: deque[_Grain]


class Window:
    """The samples that these rules count, of the longest of their windows."""

    def __init__(self, rules: Iterable[Rule], grain: float = GRAIN) -> None:
        counting = [rule for rule in rules if rule.kind in {Kind.RATIO, Kind.MEAN, Kind.INCREASE}]
        self.span = max((rule.window for rule in counting), default=0.0)
        self._grain = grain
        metrics = {each.metric for rule in counting for each in (rule.over, rule.under) if each}
        self._series: dict[str, dict[tuple[tuple[str, str], ...], _Series]] = {metric: {} for metric in metrics}

    def add(self, metric: str, labels: Mapping[str, str], value: float, *, at: float, run_id: str) -> None:
        """Count one sample of a run at unix time `at`. What no rule asks for is passed over; order does not matter much."""
        kept = self._series.get(metric)
        if kept is None or not math.isfinite(value):
            return
        key = tuple(sorted(labels.items()))
        series = kept.get(key)
        if series is None:
            series = kept[key] = _Series({name: _safe(each) for name, each in labels.items()}, deque())
        grain = self._at(series.grains, int(at // self._grain))
        grain.total += value
        grain.count += 1
        _keep(grain.worst, (value, at, run_id))

    def forget(self, now: float) -> None:
        """Drop what has left the longest window."""
        first = self._first(now, self.span)
        for kept in self._series.values():
            for key, series in list(kept.items()):
                while series.grains and series.grains[0].number < first:
                    series.grains.popleft()
                if not series.grains:
                    del kept[key]

    def read(self, rule: Rule, now: float) -> dict[Group, Reading]:
        """A counting rule's readings, of every group with a sample in its window."""
        over = self._tallies(rule.over, rule, now)
        if rule.kind is Kind.MEAN:
            return {group: Reading(each.total / each.count, each.count, _ids(each)) for group, each in over.items()}
        if rule.under is None:
            return {group: Reading(each.total, each.count, _ids(each)) for group, each in over.items()}
        under = self._tallies(rule.under, rule, now)
        runs = over if rule.comparison == "above" else self._rest(rule, now)
        return {
            group: Reading(
                over.get(group, _Tally()).total / whole.total if whole.total else None,
                whole.total,
                _ids(runs.get(group, _Tally())),
            )
            for group, whole in under.items()
        }

    def _rest(self, rule: Rule, now: float) -> dict[Group, _Tally]:
        """Of a ratio that must not fall: what is under and not over."""
        under = rule.under or rule.over
        return self._tallies(under, rule, now, besides=rule.over)

    def _tallies(
        self, selector: Selector, rule: Rule, now: float, besides: Selector | None = None
    ) -> dict[Group, _Tally]:
        first = self._first(now, rule.window)
        found: dict[Group, _Tally] = {}
        for series in self._series[selector.metric].values():
            if not selector.takes(series.labels) or (besides and besides.takes(series.labels)):
                continue
            for grain in series.grains:
                if grain.number >= first:
                    tally = found.setdefault(tuple(series.labels.get(label, "") for label in rule.by), _Tally())
                    tally.total += grain.total
                    tally.count += grain.count
                    for each in grain.worst:
                        _keep(tally.worst, each)
        return found

    def _first(self, now: float, span: float) -> int:
        return int((now - span) // self._grain) if span else int(now // self._grain)

    def _at(self, grains: deque[_Grain], number: int) -> _Grain:
        """The grain of this number; entries come nearly in order, so it is at or near the end."""
        index = len(grains)
        while index and grains[index - 1].number > number:
            index -= 1
        if not index or grains[index - 1].number != number:
            grains.insert(index, _Grain(number))
            return grains[index]
        return grains[index - 1]


def read_gauges(rule: Rule, gauges: Iterable[Gauge]) -> dict[Group, Reading]:
    """A gauge or absence rule's readings: per group the largest value. None there is no data, for an absence too.

    An absence reads 1 where no value is above 0. That nobody could look is not that nobody is there.
    """
    found: dict[Group, float] = {}
    for gauge in gauges:
        if gauge.metric == rule.over.metric and rule.over.takes(gauge.labels) and math.isfinite(gauge.value):
            group = tuple(_safe(gauge.labels.get(label, "")) for label in rule.by)
            found[group] = max(gauge.value, found.get(group, -math.inf))
    if rule.kind is Kind.ABSENCE:
        return {group: Reading(float(value <= 0)) for group, value in found.items()}
    return {group: Reading(value) for group, value in found.items()}


def _safe(label: str) -> str:
    """A label as any receiver and any database takes it: rows and models are not trusted with more."""
    return label[:LABEL].replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _keep(worst: list[tuple[float, float, str]], new: tuple[float, float, str]) -> None:
    """Keep the RUNS largest values, the newest among equals; one entry per run."""
    for index, (value, at, run_id) in enumerate(worst):
        if run_id == new[2]:
            worst[index] = max((value, at, run_id), new)
            heapq.heapify(worst)
            return
    if len(worst) < RUNS:
        heapq.heappush(worst, new)
    else:
        heapq.heappushpop(worst, new)


def _ids(tally: _Tally) -> tuple[str, ...]:
    return tuple(run_id for _, _, run_id in sorted(tally.worst, reverse=True))
