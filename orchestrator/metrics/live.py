"""The observer of the entry stream: the samples of `measure`, added to the cells of a registry of their own.

An exemplar names the run (and its trace), so that a peak on a board leads to a run. The registry is rendered by whoever asks,
off the event loop.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import choose_encoder

from orchestrator.core.events import Decision, Entry, ModelTurn, Observation, RunEnded
from orchestrator.core.measure import SERIES, Before, Series, measure
from orchestrator.core.run import Run
from orchestrator.core.spec import ToolSpec
from orchestrator.metrics.cells import LONGEST_EXEMPLAR, Cells, Seen, Spread
from orchestrator.metrics.expected import expected
from orchestrator.metrics.incidents import Incidents
from orchestrator.metrics.slow import SHARE
from orchestrator.metrics.worst import TROUBLING, Worst, trouble_of
from orchestrator.settings import Settings

APPEND: Final = "orchestrator_append_seconds"
OWN: Final = {
    APPEND: Series(
        "histogram",
        "From the wish to append until the entry was durable.",
        (),
        (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0),
    )
}
"""Series that no trace could say."""
TELLING: Final = frozenset(
    {
        "orchestrator_thought_actions_total",
        "orchestrator_error_observations_total",
        "orchestrator_step_bloat_ratio",
        "orchestrator_runs_total",
        "orchestrator_anomalies_total",
        "orchestrator_model_seconds",
        "orchestrator_tool_seconds",
        "orchestrator_tool_errors_total",
    }
)
"""Series of which one asks: which run was that?"""
MEASURED: Final = frozenset({ModelTurn, Observation, RunEnded})
"""Events that have samples."""
TOGETHER: Final = 512
"""Entries that are measured in one go, unless somebody looks before: between other work each takes twice as long (cold caches)."""
GO: Final = 0.004
"""Seconds after which such a go is broken off, so that long texts do not hold up the loop; the next entry takes it up again."""
LONG: Final = 32
"""Steps of an ended run that is not waited with: its slice alone takes as long as such a go, and two would hold up the loop."""


class Metrics:
    """All metrics of one process. `observe` is an Observer of entries, `incidents.observe` one of policies.

    The `_created` series of prometheus-client are switched off for the process: a third more series that nobody reads.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._clock = clock
        self._cells = Cells({**SERIES, **OWN}, self.settle)
        self.registry.register(self._cells)
        self._found: dict[tuple[str, ...], tuple[Callable[[float, Seen | None], None], bool, bool]] = {}
        self._append = self._cells.cell(APPEND, {})
        self._pending: deque[tuple[Before, Entry]] = deque()
        self._settling = threading.Lock()
        self.incidents = Incidents(self.registry)
        self._worst = Worst(clock)
        self.registry.register(self._worst)
        ProcessCollector(registry=self.registry)

    def expect(self, settings: Settings, tools: Sequence[ToolSpec]) -> None:
        """Let the series of the configured agents and models and of these tools begin at 0: `rate` does not see a first event."""
        for sample in expected(settings, tools):
            self._cells.cell(sample.series, sample.labels)
        self.incidents.expect(tuple(settings.models), tuple(spec.name for spec in tools))

    def observe(self, run: Run, entry: Entry) -> None:
        """The Observer: told of an entry that has become durable, with the run before it."""
        event = entry.event
        kind = type(event)
        if kind is not Decision and not (isinstance(event, Observation) and event.id in run.waiting):
            waited = self._clock() - entry.at  # what people and callbacks wrote was not appended here
            self._append.add(max(0.0, waited))
        if kind in MEASURED:
            self._pending.append((Before(run.start, run.steps, run.turn), entry))
            if len(self._pending) >= TOGETHER or (kind is RunEnded and len(run.steps) > LONG):
                self.settle(wait=False)

    def settle(self, *, wait: bool = True) -> None:
        """Measure what was observed and is not measured yet; the collectors ask for it before they say anything. From any thread.

        Without `wait` it is left to another thread that is at it.
        """
        if not self._settling.acquire(blocking=wait):
            return
        try:
            until = math.inf if wait else time.perf_counter() + GO
            while self._pending and time.perf_counter() < until:
                self._count(*self._pending.popleft())
        finally:
            self._settling.release()

    def _count(self, before: Before, entry: Entry) -> None:
        seen: Seen | None = None
        if len(entry.run_id) <= LONGEST_EXEMPLAR:
            seen = entry.run_id, before.start.labels, entry.at
        trouble, known = 0.0, self._found
        for series, labels, value in measure(before, entry):
            key = (series, *labels.values())  # the labels of a series stand in one order
            found = known.get(key)
            if found is None:
                found = known[key] = self._cells.cell(series, labels).add, series in TELLING, series in TROUBLING
            add, telling, troubling = found
            add(value, seen if telling else None)
            if troubling:
                trouble += trouble_of(series, labels, value)
        event = entry.event
        if trouble or isinstance(event, RunEnded):
            ended = event if isinstance(event, RunEnded) else None
            self._worst.add(entry.run_id, before.start.agent.name, trouble, ended, entry.at)

    def seconds_of(self, tool: str) -> tuple[int, float]:
        """How many calls of a tool were measured, and the seconds within which nearly all (SHARE) of them ended."""
        self.settle()
        cell = self._cells.cell("orchestrator_tool_seconds", {"tool": tool})
        return cell.within(SHARE) if isinstance(cell, Spread) else (0, 0.0)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The registry as the `Accept` header wants it, and its content type; exemplars are in OpenMetrics only."""
        encode, kind = choose_encoder(accept)
        return encode(self.registry), kind
