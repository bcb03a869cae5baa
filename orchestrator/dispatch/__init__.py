"""Who drives which run, and when: a narrow port, one contract suite, two engines.

The trace says how far a run has come; the dispatcher only says that somebody should go on with it. Losing what it knows
costs a delay, never a run: `reconcile` puts back what the trace says is neither ended nor waiting nor queued. A *slice* is
one stretch of driving: from the claim to the run's end, its next Wait, or the worker's drain. Each claim raises the run's
epoch in the store, so a worker that was frozen and thaws is fenced off by the store and not by a clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from orchestrator.core.events import RunStarted
from orchestrator.core.spec import ToolSpec

__all__ = ["Depth", "DispatchRules", "Dispatcher", "Job", "Slice", "Submitted", "needs_of"]


@dataclass(frozen=True, slots=True)
class Job:
    """A run to be driven. `at` is the earliest start in unix seconds (0: now); larger `priority` goes first.

    `key` de-duplicates: a second submission of (tenant, key) gives back the first run. `needs` are the agent and tool
    versions and the models ("agent:name@1", "tool:search@1", "model:main") that a worker must have to take it.
    """

    run_id: str
    tenant: str = ""
    priority: int = 0
    at: float = 0.0
    key: str | None = None
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of a submission: the run that stands for it, and whether it is a new one."""

    run_id: str
    fresh: bool


@dataclass(frozen=True, slots=True)
class Slice:
    """A claim on a run. `epoch` fences every append of its holder; `token` is the engine's own matter."""

    run_id: str
    epoch: int
    tenant: str = ""
    token: str = ""


@dataclass(frozen=True, slots=True)
class Depth:
    """The queue at one moment. `oldest` is the age in seconds of the longest-queued run that is due; counts are of runs.

    `queued` are due, `scheduled` not yet; of the `waiting` (parked) ones `approvals` wait for a person.
    """

    queued: int = 0
    oldest: float = 0.0
    scheduled: int = 0
    running: int = 0
    waiting: int = 0
    approvals: int = 0
    workers: int = 0


class Dispatcher(Protocol):
    """One engine, seen by one process. Every method raises StoreError when the engine cannot be reached.

    `worker` (a fresh id per process) heartbeats by `beat`; whoever calls `sweep` puts back the slices of workers that have not
    been heard of for `lease` seconds. A worker that missed its own lease must stop by itself: `beat` tells it.
    """

    worker: str

    async def open(self) -> None:
        """Connect and migrate; register nothing yet."""
        ...

    async def close(self) -> None:
        """Hand back what is still held, sign off, disconnect."""
        ...

    async def submit(self, job: Job, first: RunStarted, *, now: float) -> Submitted:
        """Append `first` and queue the run, in one transaction. The run exists once this returns, and will be driven."""
        ...

    async def take(self, most: int, *, now: float, has: frozenset[str], wait: float = 1.0) -> Sequence[Slice]:
        """Claim up to `most` due runs whose needs are within `has`; waits up to `wait` seconds for the first one.

        Order: priority, then age, with at most `tenant_limit` running per tenant over all workers.
        """
        ...

    async def done(self, taken: Slice) -> None:
        """The run has ended."""
        ...

    async def park(self, taken: Slice, until: float, *, approval: bool = False) -> None:
        """The run waits: queue it again at `until` (unix seconds), or sooner when woken. It holds nothing meanwhile.

        A wake that came while it was held counts: then it is queued at once. `approval`: it waits for a person.
        """
        ...

    async def release(self, taken: Slice) -> None:
        """Hand the run back: another worker may take it at once."""
        ...

    async def wake(self, run_id: str, *, now: float) -> None:
        """Somebody appended to the run's trace (a callback, a Decision, a cancel): drive it soon, or nudge its driver."""
        ...

    async def nudged(self, held: Sequence[str]) -> frozenset[str]:
        """Those of the held runs that were woken since the last time this was asked."""
        ...

    async def beat(self, *, now: float) -> bool:
        """Say that this worker lives. False: its lease ran out and its slices are others' by now; let go of them all."""
        ...

    async def sweep(self, *, now: float) -> int:
        """Put back the slices of dead workers; how many. Any process may call it, at any time."""
        ...

    async def reconcile(self, *, now: float) -> int:
        """Queue every run that the trace says is open, and that is neither queued, held nor waiting; how many."""
        ...

    async def lacks(self, run_id: str, *, now: float) -> frozenset[str] | None:
        """What this run needs and no live worker has, or the one that has most of it lacks; None: no worker is alive.

        Nothing where a worker may take it, and for a run that is not due.
        """
        ...

    async def depth(self, *, now: float) -> Depth:
        """The queue, for gauges and the monitor."""
        ...


@dataclass(frozen=True, slots=True)
class DispatchRules:
    """Seconds: a worker beats every `beat`, and is dead after `lease` without one. `tenant_limit`: runs at once per tenant."""

    beat: float = 2.0
    lease: float = 10.0
    tenant_limit: int | None = None
    tenant_limits: Mapping[str, int] = field(default_factory=dict)

    def limit(self, tenant: str) -> int | None:
        """How many runs of this tenant may be held at once; None: as many as there are."""
        return self.tenant_limits.get(tenant, self.tenant_limit)

    @property
    def limited(self) -> bool:
        """Is any tenant limited at all?"""
        return self.tenant_limit is not None or bool(self.tenant_limits)


def needs_of(first: RunStarted) -> frozenset[str]:
    """What a worker must have to drive this run, by its first event: the `needs` of its Job. Of a chain of models it is each one:
    a run is opened with all of them."""
    models = (f"model:{name}" for name in first.agent.models)
    return frozenset((f"agent:{first.agent.name}@{first.agent.version}", *models, *map(need_of, first.tools)))


def need_of(tool: ToolSpec) -> str:
    """What a worker must have for one tool. Of a tool of an MCP server: the server in its settings, whether it is up or not, for
    the run is told what it cannot call."""
    prefix, _, rest = tool.name.partition("__")
    server, mark, _ = rest.partition("__")
    return f"mcp:{server}" if prefix == "mcp" and mark else f"tool:{tool.name}@{tool.version}"
