"""The worst recent runs, for the table of a board: which run to open first.

The one place where a run id is a label. So there are TEN series at most, and a run leaves them after an HOUR.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from orchestrator.core.events import Outcome, RunEnded

TEN: Final = 10
HOUR: Final = 3600.0
OPEN: Final = 20_000
"""Runs under way whose trouble is remembered."""
GOOD: Final = frozenset({Outcome.ANSWERED, Outcome.GAVE_UP, Outcome.CANCELLED})
_TROUBLE: Final = {
    ("orchestrator_thought_actions_total", "gap"): 1.0,
    ("orchestrator_thought_actions_total", "narrated"): 1.0,
    ("orchestrator_error_observations_total", "ignored"): 1.0,
    ("orchestrator_anomalies_total", "forged_observation"): 1.0,
}
_BLOAT: Final = "orchestrator_step_bloat_ratio"
TROUBLING: Final = frozenset({series for series, _ in _TROUBLE} | {_BLOAT})
_FAILED: Final = 3.0
_BLOATED: Final = 2.0


class _Bad(NamedTuple):
    trouble: float
    at: float
    run_id: str
    agent: str
    outcome: str


class Worst(Collector):
    """Adds up the trouble of each run: one a gap, an ignored error, a forged Observation; what bloat is above 2; 3 for a bad end."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: OrderedDict[str, float] = OrderedDict()
        self._ended: list[_Bad] = []
        self._lock = threading.Lock()

    def add(self, run_id: str, agent: str, trouble: float, ended: RunEnded | None, at: float) -> None:
        """Count the trouble that an entry told of; when the run has `ended`, it is ranked."""
        if ended is None:
            if trouble:
                self._open[run_id] = self._open.pop(run_id, 0.0) + trouble
                if len(self._open) > OPEN:
                    self._open.popitem(last=False)
            return
        trouble += self._open.pop(run_id, 0.0) + (0.0 if ended.outcome in GOOD else _FAILED)
        if trouble:
            found = _Bad(trouble, at, run_id, agent, ended.outcome.value)
            with self._lock:
                self._ended = sorted((*self._recent(), found), reverse=True)[:TEN]

    def collect(self) -> Iterator[Metric]:
        """At most TEN runs."""
        family = GaugeMetricFamily(
            "orchestrator_worst_run_trouble",
            "Trouble of the worst runs that ended within the hour.",
            labels=("run_id", "agent", "outcome"),
        )
        with self._lock:
            self._ended = self._recent()
            for each in self._ended:
                family.add_metric((each.run_id, each.agent, each.outcome), each.trouble)
        yield family

    def _recent(self) -> list[_Bad]:
        oldest = self._clock() - HOUR
        return [each for each in self._ended if each.at >= oldest]


def trouble_of(series: str, labels: Mapping[str, str], value: float) -> float:
    """The trouble that a sample of one of the TROUBLING series tells of."""
    if series == _BLOAT:
        return max(0.0, value - _BLOATED)
    kind = labels.get("result") or labels.get("kind")
    return _TROUBLE.get((series, kind or ""), 0.0)
