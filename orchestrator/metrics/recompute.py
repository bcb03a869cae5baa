"""The metrics again, from stored traces: by the same function, so that they equal the live ones sample for sample."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.core.events import Trace
from orchestrator.core.measure import Sample, measure
from orchestrator.core.run import Run, evolve
from orchestrator.stores import Store

PAGE = 500


@dataclass(frozen=True, slots=True)
class Total:
    """All samples of one series and one set of labels: how many, and their sum."""

    series: str
    labels: Mapping[str, str]
    count: int
    sum: float


def samples(trace: Trace) -> Iterator[Sample]:
    """What a trace's entries measure. IllegalEvent for a damaged one."""
    run = Run()
    for entry in trace:
        yield from measure(run, entry)
        run = evolve(run, entry)


async def recompute(
    store: Store, *, since: float | None = None, runs: Sequence[str] = ()
) -> AsyncIterator[tuple[str, Trace]]:
    """The traces of these runs, each once, or of all that began at or after unix time `since`, newest first; with their ids. Of a
    run that is asked for and is not there the trace is empty."""
    for run_id in dict.fromkeys(runs):
        yield run_id, await store.read(run_id)
    if runs:
        return
    after: tuple[float, str] | None = None
    while page := await store.runs(since=since, after=after, limit=PAGE):
        for row in page:
            if trace := await store.read(row.run_id):  # else it was deleted meanwhile
                yield row.run_id, trace
        if len(page) < PAGE:
            return
        after = page[-1].key


def totals(found: Iterable[Sample]) -> tuple[Total, ...]:
    """Samples added up as Prometheus would have them, sorted by series and labels."""
    sums: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[int, float]] = {}
    for sample in found:
        key = sample.series, tuple(sorted(sample.labels.items()))
        count, total = sums.get(key, (0, 0.0))
        sums[key] = count + 1, total + sample.value
    return tuple(Total(series, dict(labels), *sums[series, labels]) for series, labels in sorted(sums))
