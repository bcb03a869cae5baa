"""Counters and histograms that cost an addition a sample; prometheus-client's families are made of them when somebody asks.

prometheus-client's own children take a lock for each number and check each name of an exemplar at each sample, which came to a tenth of
a step's CPU. Here one thread adds at a time, and any thread may collect.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

from orchestrator.core.measure import Series
from orchestrator.traceparent import trace_id

LONGEST_EXEMPLAR: Final = 60
"""Characters of a run id that fit beside a trace id into the 128 of an exemplar."""

Seen: TypeAlias = tuple[str, Mapping[str, str], float]
"""The run a sample comes from: its id, its labels, and the unix time of the entry."""


class Sum:
    """The value of a counter, and the last sample that named its run."""

    __slots__ = ("last", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self.last: tuple[float, Seen] | None = None

    def add(self, value: float, seen: Seen | None = None) -> None:
        """Count a sample."""
        self.value += value
        if seen is not None:
            self.last = value, seen


class Spread:
    """The buckets of a histogram, each with the last sample that fell into it and named its run."""

    __slots__ = ("_bounds", "counts", "last", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.last: list[tuple[float, Seen] | None] = [None] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float, seen: Seen | None = None) -> None:
        """Count a sample."""
        at = bisect_left(self._bounds, value)
        self.counts[at] += 1
        self.sum += value
        if seen is not None:
            self.last[at] = value, seen

    def within(self, share: float) -> tuple[int, float]:
        """How many samples there are, and the value that `share` of them stays within: as `histogram_quantile` has it, straight
        lines inside the buckets."""
        counts = tuple(self.counts)
        wanted, under, lower = share * sum(counts), 0, 0.0
        for bound, count in zip(self._bounds, counts, strict=False):
            if count and under + count >= wanted:
                return sum(counts), lower + (bound - lower) * (wanted - under) / count
            under, lower = under + count, bound
        return sum(counts), self._bounds[-1] if sum(counts) else 0.0


class Cells(Collector):
    """The cells of these series by the values of their labels. `settle` is called before they are collected."""

    def __init__(self, series: Mapping[str, Series], settle: Callable[[], None]) -> None:
        self._series = series
        self._settle = settle
        self._cells: dict[str, dict[tuple[str, ...], Sum | Spread]] = {name: {} for name in series}

    def cell(self, series: str, labels: Mapping[str, str]) -> Sum | Spread:
        """The cell of these labels, at 0 if there was none. Its `add` is to be called by one thread at a time."""
        shape = self._series[series]
        key = tuple(labels[name] for name in shape.labels)
        cells = self._cells[series]
        if key not in cells:
            cells[key] = Sum() if shape.kind == "counter" else Spread(shape.buckets)
        return cells[key]

    def collect(self) -> Iterator[Metric]:
        """A family for each series."""
        self._settle()
        for name, shape in self._series.items():
            cells = tuple(self._cells[name].items())
            yield _counter(name, shape, cells) if shape.kind == "counter" else _histogram(name, shape, cells)


def _counter(name: str, shape: Series, cells: tuple[tuple[tuple[str, ...], Sum | Spread], ...]) -> Metric:
    family = CounterMetricFamily(name.removesuffix("_total"), shape.help, labels=shape.labels)
    for labels, cell in cells:
        if isinstance(cell, Sum):
            family.add_metric(labels, cell.value, exemplar=_exemplar(cell.last))
    return family


def _histogram(name: str, shape: Series, cells: tuple[tuple[tuple[str, ...], Sum | Spread], ...]) -> Metric:
    family = HistogramMetricFamily(name, shape.help, labels=shape.labels)
    bounds = (*map(floatToGoString, shape.buckets), "+Inf")
    for labels, cell in cells:
        if isinstance(cell, Spread):
            total = 0
            buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
            for bound, count, last in zip(bounds, tuple(cell.counts), tuple(cell.last), strict=True):
                total += count
                exemplar = _exemplar(last)
                buckets.append((bound, total) if exemplar is None else (bound, total, exemplar))
            family.add_metric(labels, buckets, cell.sum)
    return family


def _exemplar(last: tuple[float, Seen] | None) -> Exemplar | None:
    if last is None:
        return None
    value, (run_id, labels, at) = last
    return Exemplar({"run_id": run_id, "trace_id": trace_id(run_id, labels)}, value, at)
