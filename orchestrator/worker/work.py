"""The worker: take, drive, let go. One task a run that is being driven; a run that waits holds nothing here.

It never decides what a run does next (the trace does) nor who owns a run (the store's epoch does): so it may be killed, frozen
and thawed at any line of this file.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import structlog

from orchestrator.core.decide import Wait, decide
from orchestrator.core.events import Decision
from orchestrator.core.run import Run
from orchestrator.dispatch import Depth, Dispatcher, Slice
from orchestrator.errors import Conflict, StoreError
from orchestrator.runner import Ports, drive
from orchestrator.worker.keep import NO_BEAT, keepers
from orchestrator.worker.rules import Ending, Figures, WorkerRules, spread

REMEMBERED = 10_000
"""Runs whose unforeseen failures are counted; the oldest are forgotten first."""
LAST_WORDS = 2.0
"""Seconds that cancelled runs have to put their things away, and their release to reach the queue."""

Settle: TypeAlias = Callable[[], Awaitable[None]]
_log = structlog.stdlib.get_logger("orchestrator.worker")


@dataclass(slots=True, eq=False)
class Held:
    """A slice in this worker's hands. `stopped`: its run was cancelled by somebody, once; `nudged`: its task is to feel that now.
    `lost`: it is another's by now, not a word about it. `unsure`: it may be, so it is let go of, and the queue is told once it answers."""

    taken: Slice
    task: asyncio.Task[None] | None = None
    driving: bool = False
    stopped: bool = False
    nudged: bool = False
    lost: bool = False
    unsure: bool = False


class Worker:
    """One process's worker. `await run()` takes runs until `stop()` is called, which a signal handler may do."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        ports: Ports,
        rules: WorkerRules | None = None,
        *,
        has: frozenset[str] = frozenset(),
    ) -> None:
        """`dispatcher` and the ports are the caller's to open and close. `has`: the agent and tool versions at hand."""
        self.dispatcher = dispatcher
        self.ports = replace(ports, stopping=self._is_stopping)
        self.rules = rules or WorkerRules()
        self.has = has
        self.held: dict[str, Held] = {}
        self.figures = Figures()
        self.problem: str | None = "not started"
        self.depth: Depth | None = None
        self.approval = 0.0
        self._stop, self._force, self._room = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._crashes: OrderedDict[str, int] = OrderedDict()

    @property
    def in_hand(self) -> tuple[str, ...]:
        """The runs that are being driven."""
        return tuple(self.held)

    def stop(self) -> None:
        """Drain: take no more, let calls under way end within the grace, hand the rest back. A second time: at once."""
        (self._force if self._stop.is_set() else self._stop).set()
        self._room.set()

    async def run(self) -> Ending:
        """Until told to stop. Raises only what is a fault of the worker itself, in an ExceptionGroup."""
        try:
            async with asyncio.TaskGroup() as group:
                keeping = [group.create_task(each) for each in keepers(self)]
                self.problem = None
                await self._taking()
                ending = await self._drained()
                for each in keeping:
                    each.cancel()
        finally:
            self.problem = "stopped"
            for held in self.held.values():
                _cancel(held)
        return ending

    def lose(self) -> None:
        """The lease is over: every run in hand is another's. Nothing more is appended or performed for them."""
        self.figures.lost += 1
        _log.warning("lease_lost", worker=self.dispatcher.worker, runs=len(self.held))
        for held in tuple(self.held.values()):
            held.lost = True
            _cancel(held)

    def doubt(self) -> None:
        """The queue has been silent for too long to count on the lease: as `lose`, but should the lease hold after all, the runs
        must not stay with us; so each is released, for as long as it takes."""
        self.figures.lost += 1
        _log.warning("lease_in_doubt", worker=self.dispatcher.worker, runs=len(self.held))
        for held in tuple(self.held.values()):
            held.unsure = True
            if held.driving:
                _cancel(held)

    async def nudge(self, run_id: str) -> None:
        """Somebody wrote into this run's trace. A cancel ends what it is doing; anything else is folded in at its next append."""
        held = self.held.get(run_id)
        if held is None or not held.driving or held.stopped:
            return
        trace = await self.ports.store.read(run_id)
        cancelled = any(isinstance(entry.event, Decision) and entry.event.verdict == "cancel" for entry in trace)
        if cancelled and held.driving and not held.stopped:
            held.stopped = held.nudged = True
            _cancel(held)

    def _is_stopping(self) -> bool:
        return self._stop.is_set()

    async def _taking(self) -> None:
        failures = 0
        while not self._stop.is_set():
            self._room.clear()
            room = min(self.rules.concurrency - len(self.held), self.rules.batch)
            if room <= 0:
                await self._room.wait()
                continue
            if self.problem == NO_BEAT:
                await self._pause(self.rules.beat / 4)
                continue
            try:
                slices = await self.dispatcher.take(room, now=self.ports.clock(), has=self.has, wait=1.0)
            except StoreError as error:
                failures += 1
                self.figures.failures += 1
                _log.warning("queue_unreachable", error=str(error), failures=failures)
                self._room.clear()
                await self._pause(spread(self.rules.back_off, failures, 10.0))
            else:
                failures = 0
                for taken in slices:
                    self._begin(taken)

    async def _pause(self, seconds: float) -> None:
        """Wait, but not once told to stop."""
        stopping = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait((stopping,), timeout=seconds)
        stopping.cancel()

    def _begin(self, taken: Slice) -> None:
        stale = self.held.get(taken.run_id)
        if stale is not None:
            stale.lost = True
            _cancel(stale)
        held = self.held[taken.run_id] = Held(taken)
        self.figures.taken += 1
        held.task = asyncio.create_task(self._hold(held), name=f"run {taken.run_id}")
        held.task.add_done_callback(lambda _task: self._gone(held))

    def _gone(self, held: Held) -> None:
        if self.held.get(held.taken.run_id) is held:
            del self.held[held.taken.run_id]
        self._room.set()

    async def _hold(self, held: Held) -> None:
        """The job border: whatever becomes of this run, the worker and its other runs go on."""
        try:
            settle = await self._driven(held)
        except asyncio.CancelledError:
            if held.lost or not held.unsure or not _taken_back(all_of_it=True):
                raise
            settle = partial(self.dispatcher.release, held.taken)
        except StoreError as error:
            settle = self._let_go(held, error)
        except Exception:  # noqa: BLE001  a bug met by one run is that run's trouble: logged, counted, tried again later
            settle = self._crashed(held)
        finally:
            held.driving = False
        await self._settled(held, settle)

    async def _driven(self, held: Held) -> Settle:
        """Drive the run as far as it goes; what to tell the dispatcher then."""
        taken, dispatcher = held.taken, self.dispatcher
        held.driving = True
        while True:
            try:
                run = await drive(taken.run_id, self.ports, epoch=taken.epoch)
            except asyncio.CancelledError:
                if not held.nudged or not _taken_back():
                    raise
                held.nudged = False
                continue
            if run.ended is not None:
                self.figures.ended += 1
                self._crashes.pop(taken.run_id, None)
                return lambda: dispatcher.done(taken)
            if self._stop.is_set():
                self.figures.released += 1
                return lambda: dispatcher.release(taken)
            command = decide(run, self.ports.clock())
            if isinstance(command, Wait):
                return self._parked(taken, run, command.until)

    def _parked(self, taken: Slice, run: Run, until: float) -> Settle:
        self.figures.parked += 1
        approval = any(wait.reason == "approval" for wait in run.waiting.values())
        return lambda: self.dispatcher.park(taken, until, approval=approval)

    def _let_go(self, held: Held, error: StoreError) -> Settle:
        """The trace could not be read or written, or is being written by another: no word in it, and no hurry."""
        if isinstance(error, Conflict):
            self.figures.conflicts += 1
        else:
            self.figures.failures += 1
        _log.warning("let_go", run=held.taken.run_id, error=str(error))
        until = self.ports.clock() + spread(self.rules.back_off, 1, self.rules.back_off)
        return lambda: self.dispatcher.park(held.taken, until)

    def _crashed(self, held: Held) -> Settle:
        run_id, rules = held.taken.run_id, self.rules
        count = self._crashes[run_id] = self._crashes.pop(run_id, 0) + 1
        if len(self._crashes) > REMEMBERED:
            self._crashes.popitem(last=False)
        self.figures.crashed += 1
        aside = count >= rules.crashes
        self.figures.aside += aside
        _log.error("run_put_aside" if aside else "run_crashed", run=run_id, times=count, exc_info=True)
        pause = rules.aside if aside else spread(rules.back_off, count, rules.aside)
        until = self.ports.clock() + pause
        return lambda: self.dispatcher.park(held.taken, until)

    async def _settled(self, held: Held, settle: Settle) -> None:
        """Tell the dispatcher, again and again: while this worker lives nobody else would ever free the claim."""
        tries = 0
        while not held.lost:
            try:
                await settle()
                return
            except Exception as error:  # noqa: BLE001  whatever the engine met, the claim must not stay with us
                tries += 1
                self.figures.failures += 1
                _log.warning("queue_unreachable", run=held.taken.run_id, error=repr(error), failures=tries)
            await asyncio.sleep(spread(0.2, tries, 5.0))

    async def _drained(self) -> Ending:
        """Let calls under way end; after the grace, or when forced, cancel them and hand their runs back."""
        self.problem = "draining"
        _log.warning("draining", runs=len(self.held), grace=self.rules.grace)
        forced = asyncio.ensure_future(self._force.wait())
        tasks = asyncio.ensure_future(self._empty())
        await asyncio.wait((forced, tasks), timeout=self.rules.grace, return_when=asyncio.FIRST_COMPLETED)
        for each in (forced, tasks):
            each.cancel()
        left = tuple(self.held.values())
        self.figures.released += len(left)
        for held in left:
            _cancel(held)
        running = [held.task for held in left if held.task is not None]
        if running:
            await asyncio.wait(running, timeout=LAST_WORDS)
        await self._handed_back(left)
        _log.warning("drained", handed_back=len(left), forced=self._force.is_set())
        return Ending.FORCED if self._force.is_set() else Ending.DRAINED

    async def _empty(self) -> None:
        while self.held:
            self._room.clear()
            await self._room.wait()

    async def _handed_back(self, left: tuple[Held, ...]) -> None:
        """Release what was cut off, so that another worker takes it at once. What cannot be told is swept later."""
        releases = [asyncio.ensure_future(self.dispatcher.release(held.taken)) for held in left if not held.lost]
        if not releases:
            return
        done, late = await asyncio.wait(releases, timeout=LAST_WORDS)
        for each in late:
            each.cancel()
        untold = len(late) + sum(each.exception() is not None for each in done)
        if untold:
            _log.warning("not_handed_back", runs=untold)


def _cancel(held: Held) -> None:
    if held.task is not None:
        held.task.cancel()


def _taken_back(*, all_of_it: bool = False) -> bool:
    """Was this task cancelled by us alone, once (or as often as it was)? Then it goes on."""
    task = asyncio.current_task()
    while all_of_it and task is not None and task.cancelling() > 1:
        task.uncancel()
    return task is not None and task.uncancel() == 0
