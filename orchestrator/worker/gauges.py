"""The worker's figures as Prometheus metrics: read when asked for, so nothing is counted twice."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from orchestrator.dispatch import Depth
from orchestrator.tool import abandoned
from orchestrator.toolbox.invoke import left_behind
from orchestrator.worker.watch import Watchdog
from orchestrator.worker.work import Worker

SLICES = ("taken", "ended", "parked", "released", "conflicts", "crashed", "aside")
STATES = ("queued", "scheduled", "running", "waiting", "approvals", "workers")


class WorkerCollector(Collector):
    """Register it once per process. Called from the thread that serves `/metrics`."""

    def __init__(self, worker: Worker, watchdog: Watchdog) -> None:
        self._worker, self._watchdog = worker, watchdog

    def collect(self) -> Iterator[Metric]:
        """One pass over figures that are kept anyway."""
        worker, dog = self._worker, self._watchdog
        slices = CounterMetricFamily(
            "orchestrator_worker_slices", "Slices of runs, by what became of them.", labels=("event",)
        )
        for name in SLICES:
            slices.add_metric((name,), getattr(worker.figures, name))
        yield slices
        yield CounterMetricFamily(
            "orchestrator_worker_leases_lost", "Times the lease ran out.", value=worker.figures.lost
        )
        yield CounterMetricFamily(
            "orchestrator_worker_queue_failures", "Times that store or queue failed.", value=worker.figures.failures
        )
        yield CounterMetricFamily(
            "orchestrator_worker_stalls", "Times the event loop stood still for over a second.", value=dog.stalls
        )
        yield GaugeMetricFamily("orchestrator_worker_loop_lag_seconds", "Since the event loop last turned.", dog.lag)
        yield GaugeMetricFamily("orchestrator_worker_runs", "Runs being driven.", len(worker.held))
        yield GaugeMetricFamily("orchestrator_worker_ready", "1 when it may be given work.", worker.problem is None)
        yield GaugeMetricFamily("orchestrator_tool_threads_abandoned", "Threads of calls given up.", abandoned())
        yield GaugeMetricFamily("orchestrator_tool_tasks_left_behind", "Tools that outlive a cancel.", left_behind())
        yield from _queue(worker.depth)


def _queue(depth: Depth) -> Iterator[Metric]:
    runs = GaugeMetricFamily("orchestrator_queue_runs", "The queue, by state.", labels=("state",))
    for name in STATES:
        runs.add_metric((name,), getattr(depth, name))
    yield runs
    yield GaugeMetricFamily(
        "orchestrator_queue_oldest_seconds", "Age of the longest-queued run that is due.", depth.oldest
    )
