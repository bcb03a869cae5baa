"""What a worker goes by, what it counts, and how it ends: values only."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import IntEnum


class Ending(IntEnum):
    """How a worker's process ended, as its exit code. 2 is configuration, and a worker that began has none."""

    DRAINED = 0
    FORCED = 1


@dataclass(frozen=True, slots=True)
class WorkerRules:
    """All in seconds but the counts.

    `concurrency`: runs driven at once, `batch` of them claimed at a time. `grace`: what a drain leaves to the calls under way
    (Kubernetes gives a pod 30 s). `beat` and `lease` are those of the dispatcher's rules. `look`: between two looks for runs
    that were woken while they are driven. `sweep` and `reconcile`: between two looks for what dead workers left; `gauge`: at
    the queue's depth. A run that
    fails in an unforeseen way is tried again after `back_off`, doubled each time, and after `crashes` times put aside for
    `aside`.
    """

    concurrency: int = 1000
    batch: int = 100
    grace: float = 25.0
    beat: float = 2.0
    lease: float = 10.0
    look: float = 0.2
    sweep: float = 2.0
    reconcile: float = 60.0
    gauge: float = 10.0
    back_off: float = 1.0
    crashes: int = 5
    aside: float = 3600.0

    @property
    def patience(self) -> float:
        """How long after the last good heartbeat a worker still counts on its claims: a margin before others sweep them."""
        return self.lease * 0.8


@dataclass(slots=True)
class Figures:
    """What a worker has done since it began. Counts of slices, but for `lost`: leases."""

    taken: int = 0
    ended: int = 0
    parked: int = 0
    released: int = 0
    conflicts: int = 0
    failures: int = 0
    crashed: int = 0
    aside: int = 0
    lost: int = 0


def spread(base: float, tries: int, cap: float) -> float:
    """Seconds before the next try: doubling from `base` to `cap`, between half of it and all of it by chance."""
    return min(base * 2.0 ** min(tries - 1, 30), cap) * random.uniform(0.5, 1.0)  # nosec B311  # jitter
