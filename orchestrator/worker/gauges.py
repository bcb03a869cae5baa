"""The worker's figures as Prometheus metrics: read when asked for, so nothing is counted twice."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from orchestrator.tool import abandoned
from orchestrator.toolbox.invoke import left_behind
from orchestrator.worker.watch import Watchdog
from orchestrator.worker.work import Worker

SLICES = ("taken", "ended", "parked", "released", "conflicts", "crashed", "aside")
STATES = ("scheduled", "running", "waiting", "approvals")


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
        for counted, text, count in (
            ("orchestrator_worker_leases_lost", "Times the lease ran out.", worker.figures.lost),
            ("orchestrator_worker_queue_failures", "Times that store or queue failed.", worker.figures.failures),
            ("orchestrator_worker_stalls", "Times the event loop stood still for over a second.", dog.stalls),
        ):
            yield CounterMetricFamily(counted, text, value=count)
        for gauge, text, value in (
            ("orchestrator_loop_lag_seconds", "Longest delay of the event loop of late.", dog.worst),
            ("orchestrator_worker_runs", "Runs being driven.", len(worker.held)),
            ("orchestrator_worker_concurrency", "Runs that may be driven at once.", worker.rules.concurrency),
            ("orchestrator_worker_ready", "1 when it may be given work.", worker.problem is None),
            ("orchestrator_tool_threads_abandoned", "Threads of calls given up.", abandoned()),
            ("orchestrator_tool_tasks_left_behind", "Tools that outlive a cancel.", left_behind()),
        ):
            yield GaugeMetricFamily(gauge, text, value)
        yield from self._queue()

    def _queue(self) -> Iterator[Metric]:
        """What this worker last saw of the queue that all workers share; nothing before its first look."""
        worker, depth = self._worker, self._worker.depth
        if depth is None:
            return
        runs = GaugeMetricFamily("orchestrator_queue_runs", "Runs that are not due, by state.", labels=("state",))
        for name in STATES:
            runs.add_metric((name,), getattr(depth, name))
        yield runs
        for gauge, text, value in (
            ("orchestrator_queue_depth", "Runs that are due and wait for a worker.", depth.queued),
            ("orchestrator_queue_oldest_seconds", "Age of the longest-queued run that is due.", depth.oldest),
            ("orchestrator_workers", "Workers that have been heard of within their lease.", depth.workers),
            ("orchestrator_approval_oldest_seconds", "Age of the oldest approval that waits.", worker.approval),
        ):
            yield GaugeMetricFamily(gauge, text, value)
