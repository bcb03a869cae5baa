"""The labels of a worker's series and their values, and what of a query's cannot be: a typo there errs nowhere, it finds nothing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from orchestrator.metrics import Metrics
from orchestrator.worker.gauges import WorkerCollector
from orchestrator.worker.watch import Watchdog
from tests.dashboards.board import METRIC
from tests.metrics.test_live import busy, trouble, twenty_and_three
from tests.worker.station import station, working

CLOSED = frozenset({"outcome", "result", "kind", "type", "basis", "action", "state", "event"})
"""Labels with values of ours alone; the others hold the operator's names."""
SCRAPED = frozenset({"instance", "job"})
SELECTED = re.compile(METRIC.pattern + r"\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')
GROUPED = re.compile(r"\bby \(([^)]*)\)")

Exported = Mapping[str, Mapping[str, set[str]]]
"""The values of each label of each series."""


async def exported() -> Exported:
    """What a worker exports that has seen everything once."""
    settings, tools = twenty_and_three()
    metrics = Metrics(lambda: 1000.0)
    metrics.expect(settings, tools)
    busy(metrics, tools)
    trouble(metrics, tools)
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    async with station(()) as place, working(place) as worker, Watchdog() as dog:
        metrics.registry.register(WorkerCollector(worker, dog))
        await place.until(lambda: worker.depth is not None)
        for family in metrics.registry.collect():
            for sample in family.samples:
                for name, value in sample.labels.items():
                    found[sample.name][name].add(value)
    return found


def wrong_matchers(text: str, known: Exported) -> Iterator[str]:
    """The labels, and the values of closed ones, that no series has which is asked for by them."""
    for found in SELECTED.finditer(text):
        metric = found[0].partition("{")[0]
        for label, written in MATCHER.findall(found[1]):
            if label not in {*known.get(metric, {}), *SCRAPED}:
                yield f"{metric} has no label {label}"
            elif label in CLOSED:
                yield from (
                    f"{label} is never {each}" for each in written.split("|") if each not in known[metric][label]
                )


def wrong(expr: str, legend: str, known: Exported) -> Iterator[str]:
    """What of a query, and of the legend under its answer, cannot be."""
    yield from wrong_matchers(expr, known)
    labels = {label for metric in METRIC.findall(expr) for label in known.get(metric, {})} | {*SCRAPED, "le"}
    grouped = {label.strip() for group in GROUPED.findall(expr) for label in group.split(",")}
    yield from (f"nothing has the label {label}" for label in grouped - labels)
    yield from (
        f"the legend's {label} is not in the answer" for label in set(re.findall(r"\{\{(\w+)\}\}", legend)) - grouped
    )
