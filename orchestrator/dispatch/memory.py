"""Dispatch within one process: for tests, for the simulation, and for `store = "memory"`. The rules are those of ticket.py."""

# ruff: noqa: D102  Dispatcher says what each method does
from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Iterator, Sequence

from orchestrator.core.events import RunStarted
from orchestrator.dispatch import Depth, DispatchRules, Job, Slice, Submitted, needs_of
from orchestrator.dispatch.engine import Done, Engine, Fate, Parked
from orchestrator.dispatch.ticket import Ticket, admit, claimed, depth, due, full, lacking, parked, submitted, woken
from orchestrator.stores import Store

FOREVER = 3600.0
"""Seconds between looks when nothing is scheduled: there is no other process to wait for."""
DECIDED = "decision"
"""The last event of a run that waits although somebody has decided: the wake was lost."""


class Board:
    """The queue itself, which several dispatchers of one process may share as others share a database."""

    def __init__(self) -> None:
        self.tickets: dict[str, Ticket] = {}
        self.keys: dict[tuple[str, str], str] = {}
        self.submitting = asyncio.Lock()
        self.workers: dict[str, float] = {}
        self.abilities: dict[str, frozenset[str]] = {}
        self.listeners: set[asyncio.Event] = set()
        self._ready: list[tuple[int, int, str]] = []
        self._timed: list[tuple[float, str]] = []
        self._number = 0

    def next_number(self) -> int:
        """Counts submissions."""
        self._number += 1
        return self._number

    def put(self, ticket: Ticket) -> None:
        """Write the ticket, and tell who waits for one."""
        self.tickets[ticket.run_id] = ticket
        if ticket.state == "held":
            return
        if ticket.state == "queued":
            heapq.heappush(self._ready, (*ticket.rank, ticket.run_id))
        else:
            heapq.heappush(self._timed, (ticket.at, ticket.run_id))
        self.ring()

    def sign_off(self, worker: str) -> None:
        """This worker is no more."""
        self.workers.pop(worker, None)
        self.abilities.pop(worker, None)

    def drop(self, run_id: str) -> None:
        """The run has ended: its tenant has room for another."""
        self.tickets.pop(run_id, None)
        self.ring()

    def ring(self) -> None:
        """Let the waiting look again."""
        for listener in self.listeners:
            listener.set()

    def mature(self, now: float) -> None:
        """Queue what is due by now."""
        while self._timed and self._timed[0][0] <= now:
            at, run_id = heapq.heappop(self._timed)
            ticket = self.tickets.get(run_id)
            if ticket and ticket.at == at and ticket.state in {"later", "waiting"}:
                self.put(due(ticket, at))

    def next_time(self) -> float | None:
        """When `mature` may have something to do."""
        return self._timed[0][0] if self._timed else None

    def ready(self, has: frozenset[str], barred: frozenset[str]) -> Iterator[Ticket]:
        """The queued tickets, first to go first, that this worker may take. They stay in the queue."""
        seen: list[tuple[int, int, str]] = []
        try:
            while self._ready:
                entry = heapq.heappop(self._ready)
                ticket = self.tickets.get(entry[-1])
                if not ticket or ticket.state != "queued" or ticket.rank != entry[:2]:
                    continue
                if not seen or seen[-1] != entry:
                    seen.append(entry)
                    if ticket.needs <= has and ticket.tenant not in barred:
                        yield ticket
        finally:
            for entry in seen:
                heapq.heappush(self._ready, entry)

    def held(self) -> Counter[str]:
        """How many runs of each tenant are held."""
        return Counter(ticket.tenant for ticket in self.tickets.values() if ticket.state == "held")


class MemoryDispatcher(Engine):
    """Drives the runs of `store`. Dispatchers that share a `board` are as many workers."""

    def __init__(self, store: Store, rules: DispatchRules | None = None, board: Board | None = None) -> None:
        super().__init__(rules or DispatchRules(), FOREVER)
        self._store = store
        self.board = board or Board()

    async def open(self) -> None:
        await self._store.open()
        self.board.listeners.add(self._news)

    async def close(self) -> None:
        await self._hand_back()
        self.board.sign_off(self.worker)
        self.board.listeners.discard(self._news)

    async def submit(self, job: Job, first: RunStarted, *, now: float) -> Submitted:
        self._tick(now)
        if job.key is None:
            return await self._begin(job, first, now)
        async with self.board.submitting:
            known = self.board.keys.get((job.tenant, job.key))
            return Submitted(known, fresh=False) if known else await self._begin(job, first, now)

    async def _begin(self, job: Job, first: RunStarted, now: float) -> Submitted:
        """Append and queue: whatever happens to the caller meanwhile, both or neither."""
        writing = asyncio.ensure_future(self._store.append(job.run_id, 0, (first,), at=now))
        try:
            await asyncio.wait([writing])
        finally:
            if not writing.done():
                await asyncio.wait([writing])
            if not writing.cancelled() and not writing.exception():
                self.board.put(submitted(job, self.board.next_number(), now))
                if job.key is not None:
                    self.board.keys[job.tenant, job.key] = job.run_id
        writing.result()
        return Submitted(job.run_id, fresh=True)

    async def sweep(self, *, now: float) -> int:
        self._tick(now)
        live = {worker for worker, at in self.board.workers.items() if now - at <= self.rules.lease}
        lost = [each for each in self.board.tickets.values() if each.state == "held" and each.worker not in live]
        for worker in self.board.workers.keys() - live:
            self.board.sign_off(worker)
        for ticket in lost:
            await self._put_back(ticket, now)
        return len(lost)

    async def reconcile(self, *, now: float) -> int:
        self._tick(now)
        found, after = 0, None
        while page := await self._store.runs(outcome="open", after=after, limit=500):
            for row in page:
                ticket = self.board.tickets.get(row.run_id)
                if ticket and ticket.state == "waiting" and row.last_kind == DECIDED:
                    self.board.put(woken(ticket, now))
                    found += 1
                found += await self._queue_again(row.run_id, now)
            after = page[-1].key
        for run_id, ticket in tuple(self.board.tickets.items()):
            if ticket.state != "held" and not await self._is_open(run_id):
                self.board.drop(run_id)
        return found

    async def lacks(self, run_id: str, *, now: float) -> frozenset[str] | None:
        board = self.board
        ticket = board.tickets.get(run_id)
        if not ticket or ticket.state == "held" or (ticket.state != "queued" and ticket.at > now):
            return frozenset()
        live = (worker for worker, at in board.workers.items() if now - at <= self.rules.lease)
        return lacking(ticket.needs, (board.abilities[each] for each in live if each in board.abilities))

    async def depth(self, *, now: float) -> Depth:
        live = sum(now - at <= self.rules.lease for at in self.board.workers.values())
        return depth(self.board.tickets.values(), live, now)

    def _pause(self, now: float) -> float:
        at = self.board.next_time()
        return self._look if at is None else min(max(at - now, 0.0), self._look)

    async def _claim(self, most: int, now: float, has: frozenset[str]) -> Sequence[Slice]:
        if self._alive is None:
            self.board.workers[self.worker] = now
        if self.worker not in self.board.workers:
            return ()
        self.board.abilities[self.worker] = has
        self.board.mature(now)
        held = self.board.held() if self.rules.limited else Counter()
        chosen = admit(self.board.ready(has, full(held, self.rules)), most, held, self.rules)
        for ticket in chosen:
            self.board.put(claimed(ticket, self.worker, ticket.epoch))
        taken: list[Slice] = []
        try:
            for ticket in chosen:
                epoch = await self._store.bump(ticket.run_id)
                self.board.put(claimed(ticket, self.worker, epoch))
                taken.append(Slice(ticket.run_id, epoch, ticket.tenant))
        except BaseException:
            for ticket in chosen:
                self.board.put(ticket)
            raise
        return taken

    async def _let_go(self, taken: Slice, fate: Fate) -> None:
        ticket = self.board.tickets.get(taken.run_id)
        if not ticket or (ticket.state, ticket.worker, ticket.epoch) != ("held", self.worker, taken.epoch):
            return
        if isinstance(fate, Done):
            self.board.drop(taken.run_id)
        elif isinstance(fate, Parked):
            self.board.put(parked(ticket, fate.until, approval=fate.approval, now=self._now()))
        else:
            self.board.put(due(ticket, self._now()))

    async def _renew(self, now: float) -> bool:
        known = self.board.workers.get(self.worker)
        if self._alive is not None and known is None:
            return False
        self.board.workers[self.worker] = now
        return True

    async def _forget(self, now: float) -> None:
        self.board.sign_off(self.worker)
        await self._strays(now, frozenset())

    async def _strays(self, now: float, known: frozenset[str]) -> None:
        for ticket in tuple(self.board.tickets.values()):
            if ticket.state == "held" and ticket.worker == self.worker and ticket.run_id not in known:
                await self._put_back(ticket, now)

    async def _put_back(self, ticket: Ticket, now: float) -> None:
        """Fence off the holder, then queue the run."""
        await self._store.bump(ticket.run_id)
        if self.board.tickets.get(ticket.run_id) == ticket:
            self.board.put(due(ticket, now))

    async def _wake(self, run_id: str, now: float) -> None:
        ticket = self.board.tickets.get(run_id)
        if ticket:
            self.board.put(woken(ticket, now))
        else:
            await self._queue_again(run_id, now)

    async def _woken(self, held: Sequence[str]) -> frozenset[str]:
        tickets = (self.board.tickets.get(run_id) for run_id in held)
        heard = [each for each in tickets if each and each.woken and each.worker == self.worker]
        for ticket in heard:
            self.board.put(claimed(ticket, self.worker, ticket.epoch))
        return frozenset(ticket.run_id for ticket in heard)

    async def _queue_again(self, run_id: str, now: float) -> bool:
        """Make a ticket for an open run that has none."""
        if run_id in self.board.tickets or not await self._is_open(run_id):
            return False
        first = (await self._store.read(run_id))[0].event
        if run_id in self.board.tickets or not isinstance(first, RunStarted):
            return False
        job = Job(run_id, first.tenant, needs=needs_of(first))
        self.board.put(submitted(job, self.board.next_number(), now))
        return True

    async def _is_open(self, run_id: str) -> bool:
        row = await self._store.row(run_id)
        return row is not None and row.ended_at is None
