"""What is so now and stands in no trace: the queue and its workers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from orchestrator.alerts import Gauge
from orchestrator.dispatch import Depth

GaugeSource: TypeAlias = Callable[[float], Awaitable[Iterable[Gauge]]]
"""Asked at unix time `now`. May raise StoreError: then these gauges are no data."""


async def unknown(now: float) -> Iterable[Gauge]:  # noqa: ARG001  as in GaugeSource
    """For a monitor that sees no queue: its rules have no data."""
    return ()


def of_depth(depth: Depth) -> tuple[Gauge, ...]:
    """The queue's gauges, under the names that a worker exports."""
    return (
        Gauge("orchestrator_queue_oldest_seconds", {}, depth.oldest),
        Gauge("orchestrator_workers", {}, float(depth.workers)),
    )
