"""The observer of the entry stream: the samples of `measure`, added to collectors of a registry of their own.

An exemplar names the run (and its trace), so that a peak on a board leads to a run. The registry is rendered by whoever asks,
off the event loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import choose_encoder

from orchestrator.core.events import Decision, Entry, Observation, RunEnded, RunStarted
from orchestrator.core.measure import SERIES, Sample, measure
from orchestrator.core.run import Run
from orchestrator.core.spec import ToolSpec
from orchestrator.metrics.expected import expected
from orchestrator.metrics.incidents import Incidents
from orchestrator.metrics.worst import Worst
from orchestrator.settings import Settings
from orchestrator.traceparent import trace_id

APPEND: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
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
LONGEST_EXEMPLAR: Final = 60
"""Characters of a run id that fit beside a trace id into the 128 of an exemplar."""


class Metrics:
    """All metrics of one process. `observe` is an Observer of entries, `incidents.observe` one of policies.

    The `_created` series of prometheus-client are switched off for the process: a third more series that nobody reads.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._clock = clock
        self._collectors: dict[str, Counter | Histogram] = {name: self._collector(name) for name in SERIES}
        self._adders: dict[tuple[str, ...], Callable[..., None]] = {}
        self._append = Histogram(
            "orchestrator_append_seconds",
            "From the wish to append until the entry was durable.",
            buckets=APPEND,
            registry=self.registry,
        )
        self.incidents = Incidents(self.registry)
        self._worst = Worst(clock)
        self.registry.register(self._worst)
        ProcessCollector(registry=self.registry)

    def expect(self, settings: Settings, tools: Sequence[ToolSpec]) -> None:
        """Let the series of the configured agents and models and of these tools begin at 0: `rate` does not see a first event."""
        for sample in expected(settings, tools):
            self._adder(sample)(0.0) if SERIES[sample.series].kind == "counter" else self._adder(sample)
        self.incidents.expect(tuple(settings.models), tuple(spec.name for spec in tools))

    def observe(self, run: Run, entry: Entry) -> None:
        """The Observer: told of an entry that has become durable, with the run before it."""
        if _ours(run, entry):
            self._append.observe(max(0.0, self._clock() - entry.at))
        samples = measure(run, entry)
        if not samples:
            return
        self._worst.add(run, samples, entry.event if isinstance(entry.event, RunEnded) else None, entry.at)
        exemplar = _exemplar(run)
        for sample in samples:
            add = self._adder(sample)
            if sample.series in TELLING:
                add(sample.value, exemplar)
            else:
                add(sample.value)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The registry as the `Accept` header wants it, and its content type; exemplars are in OpenMetrics only."""
        encode, kind = choose_encoder(accept)
        return encode(self.registry), kind

    def _collector(self, name: str) -> Counter | Histogram:
        series = SERIES[name]
        if series.kind == "counter":
            return Counter(name.removesuffix("_total"), series.help, series.labels, registry=self.registry)
        return Histogram(name, series.help, series.labels, buckets=series.buckets, registry=self.registry)

    def _adder(self, sample: Sample) -> Callable[..., None]:
        """How to add to a sample's child; children are looked up once. The labels of a series stand in one order."""
        key = (sample.series, *sample.labels.values())
        found = self._adders.get(key)
        if found is None:
            child: Any = self._collectors[sample.series].labels(**sample.labels)
            found = self._adders[key] = child.inc if SERIES[sample.series].kind == "counter" else child.observe
        return found


def _ours(run: Run, entry: Entry) -> bool:
    """Was this appended by this process just now? What people and callbacks wrote is folded in later."""
    event = entry.event
    return not (isinstance(event, Decision) or (isinstance(event, Observation) and event.id in run.waiting))


def _exemplar(run: Run) -> dict[str, str] | None:
    if len(run.run_id) > LONGEST_EXEMPLAR or not isinstance(run.started, RunStarted):
        return None
    return {"run_id": run.run_id, "trace_id": trace_id(run.run_id, run.started.labels)}
