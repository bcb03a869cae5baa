"""Deliberate faults, each of which the simulation must find: otherwise it proves nothing.

They stand between a worker and its store, or in the store's place; nothing of the product is patched.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence

from orchestrator.core.events import ActionStarted, Entry, Event, Trace
from orchestrator.errors import Conflict, StoreError
from orchestrator.stores import Statement, Store
from tests.sim.network import Disk, LinkedStore
from tests.sim.process import Process
from tests.sim.world import Mutation


class Passing(LinkedStore):
    """A store seen through a store: what a mutant does not change."""

    def __init__(self, inner: LinkedStore, process: Process) -> None:
        super().__init__(inner._disk, inner._link, inner._acknowledged)
        self.process = process


class BeginsAfterTheEffect(Passing):
    """ActionStarted is written with the Observation, not before the tool runs."""

    def __init__(self, inner: LinkedStore, process: Process) -> None:
        super().__init__(inner, process)
        self._kept: dict[str, tuple[Event, ...]] = {}

    async def append(
        self,
        run_id: str,
        seq: int,
        events: Sequence[Event],
        *,
        at: float,
        epoch: int = 0,
        blobs: Mapping[str, bytes] = {},
        enlist: Sequence[Statement] = (),
    ) -> Trace:
        kept = self._kept.pop(run_id, ())
        first = seq - len(kept)
        begun = [event for event in events if isinstance(event, ActionStarted)]
        if begun:
            before = [event for event in events if not isinstance(event, ActionStarted)]
            if kept or before:
                await super().append(run_id, first, (*kept, *before), at=at, epoch=epoch, blobs=blobs, enlist=enlist)
            self._kept[run_id] = tuple(begun)
            return _entries(run_id, seq, events, at)
        written = await super().append(run_id, first, (*kept, *events), at=at, epoch=epoch, blobs=blobs, enlist=enlist)
        return written[len(kept) :]


class NoFence(Disk):
    """Takes every append, whoever sends it and whatever he has seen."""

    async def append(
        self,
        run_id: str,
        seq: int,
        events: Sequence[Event],
        *,
        at: float,
        epoch: int = 0,
        blobs: Mapping[str, bytes] = {},
        enlist: Sequence[Statement] = (),
    ) -> Trace:
        anyone = 2**62
        if seq == 0:
            return await super().append(run_id, seq, events, at=at, epoch=epoch, blobs=blobs, enlist=enlist)
        written = await super().append(run_id, self.length(run_id), events, at=at, epoch=anyone, blobs=blobs)
        return _entries(run_id, seq, [entry.event for entry in written], at)


class AnswersBeforeTheCommit(Passing):
    """Says that it is written, and writes it a moment later, if the process is still there."""

    def __init__(self, inner: LinkedStore, process: Process) -> None:
        super().__init__(inner, process)
        self._behind: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._writing: set[asyncio.Task[None]] = set()

    async def append(
        self,
        run_id: str,
        seq: int,
        events: Sequence[Event],
        *,
        at: float,
        epoch: int = 0,
        blobs: Mapping[str, bytes] = {},
        enlist: Sequence[Statement] = (),
    ) -> Trace:
        entries = _entries(run_id, seq, events, at)

        async def later() -> None:
            async with self._behind[run_id]:
                await asyncio.sleep(0.2)
                try:
                    await LinkedStore.append(self, run_id, seq, events, at=at, epoch=epoch, blobs=blobs, enlist=enlist)
                except (Conflict, StoreError):
                    return

        task = asyncio.create_task(later())
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        self._acknowledged(entries)
        return entries


def _entries(run_id: str, seq: int, events: Sequence[Event], at: float) -> Trace:
    return tuple(Entry(run_id, seq + number, at, event) for number, event in enumerate(events, 1))


def _behind(kind: type[Passing], store: Store, process: Process) -> Store:
    assert isinstance(store, LinkedStore)
    return kind(store, process)


MUTANTS: dict[str, Mutation] = {
    "no ActionStarted before the effect": Mutation(
        store=lambda store, process: _behind(BeginsAfterTheEffect, store, process)
    ),
    "no fence": Mutation(disk=NoFence),
    "acknowledgement before the commit": Mutation(
        store=lambda store, process: _behind(AnswersBeforeTheCommit, store, process)
    ),
}
