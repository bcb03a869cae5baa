"""The store as the rules see it: what every worker appended since the last look, folded through `measure` into a Window.

Each look lists the runs that began since the last one and those that are open, and reads only the new entries of those that
moved. Folds of runs under way are kept, up to KEPT of them; a run beyond that is folded again from its start.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import structlog

from orchestrator.alerts import Gauge, Rule, Window
from orchestrator.core.events import Attempt, Entry, ModelTurn, RunEnded
from orchestrator.core.run import Run, evolve
from orchestrator.errors import IllegalEvent, StoreError
from orchestrator.stores import RunRow, Store

KEPT = 2000
PAGE = 500
OVERLAP = 120.0
"""Seconds that a look goes back before the last one: an append may become visible after a later one."""

LONGEST_RUN = 3600.0
"""Seconds before the window in which the first look still expects starts of runs that ended inside it."""

BETWEEN = 200
"""Runs folded between two calls of `between`."""

CIRCUIT_OPEN = "CIRCUIT_OPEN"
_log = structlog.stdlib.get_logger("orchestrator.monitor")


class Sampled(Protocol):
    """A sample, as core.measure makes them."""

    @property
    def series(self) -> str: ...  # noqa: D102
    @property
    def labels(self) -> Mapping[str, str]: ...  # noqa: D102
    @property
    def value(self) -> float: ...  # noqa: D102


Measure: TypeAlias = Callable[[Run, Entry], Iterable[Sampled]]


async def nothing() -> None:
    """The `between` that does nothing."""


class Feed:
    """A Window that follows a store."""

    def __init__(self, store: Store, rules: Iterable[Rule], measure: Measure) -> None:
        self._store = store
        self._measure = measure
        self.window = Window(rules)
        self._looked: float | None = None
        self._seen: dict[str, tuple[int, float]] = {}
        self._open: set[str] = set()
        self._folds: OrderedDict[str, Run] = OrderedDict()
        self._approvals: dict[str, float] = {}
        self._damaged: set[str] = set()
        self._refused: dict[str, float] = {}
        self._answered: dict[str, float] = {}

    async def look(self, now: float, between: Callable[[], Awaitable[None]] = nothing) -> None:
        """Take in what was appended since the last look. StoreError when the store cannot be read."""
        since = (now - self.window.span - LONGEST_RUN) if self._looked is None else self._looked - OVERLAP
        moved: dict[str, RunRow | None] = {}
        still: set[str] = set()
        async for row in self._rows(since=since):
            self._note(row, moved)
        async for row in self._rows(outcome="open"):
            still.add(row.run_id)
            self._note(row, moved)
        moved.update((run_id, None) for run_id in self._open - still if run_id not in moved)
        for count, run_id in enumerate(sorted(moved), 1):
            await self._fold(run_id, now)
            if not count % BETWEEN:
                await between()
        self._open = still
        self._looked = now
        self._seen = {
            run_id: seen for run_id, seen in self._seen.items() if run_id in still or seen[1] >= now - OVERLAP * 2
        }
        self._damaged &= self._seen.keys()
        self.window.forget(now)

    def gauges(self, now: float) -> Iterator[Gauge]:
        """What the traces say of the present: the oldest approval, and model endpoints whose breaker refused last."""
        oldest = min(self._approvals.values(), default=now)
        yield Gauge("orchestrator_approval_oldest_seconds", {}, max(0.0, now - oldest))
        for target in self._refused.keys() | self._answered.keys():
            refused = self._refused.get(target, -math.inf) > self._answered.get(target, -math.inf)
            yield Gauge("orchestrator_breaker_open", {"kind": "model", "target": target}, float(refused))

    def _note(self, row: RunRow, moved: dict[str, RunRow | None]) -> None:
        if row.last_seq > self._seen.get(row.run_id, (0, 0.0))[0]:
            moved[row.run_id] = row

    async def _rows(self, **filters: Any) -> AsyncIterator[RunRow]:
        after: tuple[float, str] | None = None
        while page := await self._store.runs(**filters, after=after, limit=PAGE):
            for row in page:
                yield row
            if len(page) < PAGE:
                return
            after = page[-1].key

    async def _fold(self, run_id: str, now: float) -> None:
        """Read and count the new entries of one run. A damaged trace is said once and left alone."""
        run = self._folds.pop(run_id, Run())
        counted, started = self._seen.get(run_id, (0, now))
        try:
            for entry in await self._store.read(run_id, run.seq):
                if entry.seq > counted:
                    self._count(run, entry)
                run = evolve(run, entry)
        except (IllegalEvent, StoreError) as error:
            if run_id not in self._damaged:
                _log.warning("trace_not_measured", run=run_id, error=str(error))
            self._damaged.add(run_id)
        self._seen[run_id] = (max(run.seq, counted), run.started_at or started)
        self._keep(run_id, run)
        await asyncio.sleep(0)

    def _count(self, run: Run, entry: Entry) -> None:
        for sample in self._measure(run, entry):
            self.window.add(sample.series, sample.labels, sample.value, at=entry.at, run_id=entry.run_id)
        match entry.event:
            case ModelTurn(model=model, attempts=attempts):
                self._answered[model] = max(entry.at, self._answered.get(model, 0.0))
                self._refusals(attempts, entry.at)
            case RunEnded(attempts=attempts):
                self._refusals(attempts, entry.at)

    def _refusals(self, attempts: Iterable[Attempt], at: float) -> None:
        for each in attempts:
            if each.code == CIRCUIT_OPEN:
                self._refused[each.target] = max(at, self._refused.get(each.target, 0.0))

    def _keep(self, run_id: str, run: Run) -> None:
        self._approvals.pop(run_id, None)
        if run.ended is not None or not run.seq:
            return
        if any(each.reason == "approval" for each in run.waiting.values()):
            self._approvals[run_id] = run.at
        self._folds[run_id] = run
        while len(self._folds) > KEPT:
            self._folds.popitem(last=False)
