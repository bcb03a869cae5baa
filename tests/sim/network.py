"""The link of a process to the store and the queue. A request is carried out in the world outside, whole or not at all: it
may still be carried out after the process that sent it has died."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from orchestrator.core.events import Entry, Event, RunEnded, RunStarted, Trace
from orchestrator.dispatch import DispatchRules, Job, Slice, Submitted
from orchestrator.dispatch.engine import Fate
from orchestrator.dispatch.memory import Board, MemoryDispatcher
from orchestrator.errors import Conflict, OrchestratorError, StoreError
from orchestrator.stores import Ended, Evidence, RunRow, Statement, Store
from orchestrator.stores.memory import MemoryStore
from tests.sim.chaos import Chaos
from tests.sim.process import PROCESS, Process

T = TypeVar("T")
_UNDER_WAY: set[asyncio.Task[Any]] = set()


def outside(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Let this happen in the world, whatever becomes of the process that caused it."""
    context = copy_context()
    context.run(PROCESS.set, None)
    task = asyncio.get_running_loop().create_task(coroutine, context=context)
    _UNDER_WAY.add(task)
    task.add_done_callback(_UNDER_WAY.discard)
    return task


class Disk(MemoryStore):
    """What is durable: the store's own rules, and a bell for people who watch what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.watchers: list[Callable[[Entry], None]] = []
        self.ended: set[str] = set()

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
        entries = await super().append(run_id, seq, events, at=at, epoch=epoch, blobs=blobs, enlist=enlist)
        for entry in entries:
            if isinstance(entry.event, RunEnded):
                self.ended.add(run_id)
            for watch in self.watchers:
                watch(entry)
        return entries

    def length(self, run_id: str) -> int:
        """How many entries of a run are durable at this moment."""
        return len(self._entries.get(run_id, ()))


class Link:
    """Requests go out, answers come back: late, out of order, not at all."""

    def __init__(self, chaos: Chaos, process: Process | None = None) -> None:
        self.chaos = chaos
        self.process = process
        self.cut = False
        self.told_twice: list[str] = []

    async def call(self, request: Callable[[], Awaitable[T]], *, writes: bool = False, twice: str = "") -> T:
        """What came of the request; StoreError when nobody can say. `twice` names what may be told twice."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        outside(self._carry(request, answer, writes, twice))
        return await answer

    async def _carry(
        self, request: Callable[[], Awaitable[T]], answer: asyncio.Future[T], writes: bool, twice: str
    ) -> None:
        chaos = self.chaos
        sent = chaos.sent()
        await asyncio.sleep(chaos.latency())
        if self.cut or chaos.strikes("lost_request"):
            await self._silence(answer)
            return
        if writes and chaos.strikes("disk_full"):
            _answer(answer, error=StoreError("the disk is full"))
            return
        chaos.arrived(sent)
        try:
            result = await request()
        except OrchestratorError as error:
            await asyncio.sleep(chaos.latency())
            _answer(answer, error=error)
            return
        if twice and chaos.strikes("duplicate_append"):
            outside(self._again(request, twice))
        if self.cut or chaos.strikes("lost_answer"):
            await self._silence(answer)
            return
        await asyncio.sleep(chaos.latency())
        if writes and self.process is not None and self.process.dead:
            chaos.note("acknowledgement_lost_in_crash")
        if not answer.done():
            answer.set_result(result)

    async def _silence(self, answer: asyncio.Future[T]) -> None:
        """Nobody answers; the driver gives up after a while."""
        await asyncio.sleep(self.chaos.rng.uniform(0.5, 4.0))
        _answer(answer, error=StoreError("no answer from the store"))

    async def _again(self, request: Callable[[], Awaitable[Any]], what: str) -> None:
        await asyncio.sleep(self.chaos.latency())
        try:
            await request()
        except Conflict:
            return
        self.told_twice.append(what)


def _answer(answer: asyncio.Future[Any], *, error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


class LinkedStore(Store):
    """The store as a process sees it. `acknowledged` is told of every append that was answered."""

    def __init__(self, disk: MemoryStore, link: Link, acknowledged: Callable[[Trace], None]) -> None:
        self._disk, self._link, self._acknowledged = disk, link, acknowledged

    async def open(self) -> None: ...

    async def close(self) -> None: ...

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
        request = partial(self._disk.append, run_id, seq, events, at=at, epoch=epoch, blobs=blobs, enlist=enlist)
        entries = await self._link.call(request, writes=True, twice=f"{run_id}#{seq}")
        self._acknowledged(entries)
        return entries

    async def read(self, run_id: str, after: int = 0) -> Trace:
        return await self._link.call(partial(self._disk.read, run_id, after))

    def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Entry]:
        return self._disk.follow(run_id, after)

    async def blob(self, digest: str) -> bytes | None:
        return await self._link.call(partial(self._disk.blob, digest))

    async def bump(self, run_id: str) -> int:
        return await self._link.call(partial(self._disk.bump, run_id), writes=True)

    async def row(self, run_id: str) -> RunRow | None:
        return await self._link.call(partial(self._disk.row, run_id))

    async def runs(
        self,
        *,
        since: float | None = None,
        until: float | None = None,
        outcome: Ended | None = None,
        agent: str | None = None,
        tenant: str | None = None,
        after: tuple[float, str] | None = None,
        limit: int = 50,
    ) -> tuple[RunRow, ...]:
        ask = partial(self._disk.runs, since=since, until=until, outcome=outcome, agent=agent, tenant=tenant)
        return await self._link.call(partial(ask, after=after, limit=limit))

    async def evidence(self, run_id: str, *, bodies: bool = False) -> Evidence:
        return await self._link.call(partial(self._disk.evidence, run_id, bodies=bodies))

    async def traced(self, since: float = 0.0) -> tuple[str, ...]:
        return await self._link.call(partial(self._disk.traced, since))

    async def purge(self, older_than: float) -> int:
        return await self._link.call(partial(self._disk.purge, older_than), writes=True)


class _News(asyncio.Event):
    """Its place in the board's set of listeners is the same in every process that plays this world."""

    def __init__(self, worker: str) -> None:
        super().__init__()
        self._worker = worker

    def __hash__(self) -> int:
        return hash(self._worker)

    def __eq__(self, other: object) -> bool:
        return self is other


class LinkedDispatcher(MemoryDispatcher):
    """The real dispatcher; each of its moves on the queue is one transaction at the far end of the link."""

    def __init__(self, disk: MemoryStore, board: Board, link: Link, worker: str, rules: DispatchRules) -> None:
        super().__init__(disk, rules, board)
        self.worker = worker
        self._link = link
        self._news = _News(worker)

    async def submit(self, job: Job, first: RunStarted, *, now: float) -> Submitted:
        return await self._link.call(partial(super().submit, job, first, now=now), writes=True)

    async def sweep(self, *, now: float) -> int:
        return await self._link.call(partial(super().sweep, now=now), writes=True)

    async def reconcile(self, *, now: float) -> int:
        return await self._link.call(partial(super().reconcile, now=now), writes=True)

    async def _claim(self, most: int, now: float, has: frozenset[str]) -> Sequence[Slice]:
        return await self._link.call(partial(super()._claim, most, now, has), writes=True)

    async def _let_go(self, taken: Slice, fate: Fate) -> None:
        await self._link.call(partial(super()._let_go, taken, fate), writes=True)

    async def _renew(self, now: float) -> bool:
        return await self._link.call(partial(super()._renew, now), writes=True)

    async def _forget(self, now: float) -> None:
        await self._link.call(partial(super()._forget, now), writes=True)

    async def _wake(self, run_id: str, now: float) -> None:
        if self._link.chaos.strikes("lost_wake"):
            return
        await self._link.call(partial(super()._wake, run_id, now), writes=True)

    async def _woken(self, held: Sequence[str]) -> frozenset[str]:
        return await self._link.call(partial(super()._woken, held))
