"""What a worker does by the clock: heartbeats, nudges, sweeps, reconciliation. Jittered, so that workers do not march in step."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import structlog

from orchestrator.dispatch import Depth, Dispatcher
from orchestrator.errors import StoreError
from orchestrator.runner import Ports
from orchestrator.worker.approvals import Approvals
from orchestrator.worker.rules import WorkerRules

_log = structlog.stdlib.get_logger("orchestrator.worker")


class Kept(Protocol):
    """The side of a worker that is seen from here."""

    dispatcher: Dispatcher
    ports: Ports
    rules: WorkerRules
    problem: str | None

    depth: Depth | None
    approval: float

    @property
    def in_hand(self) -> Sequence[str]:
        """The runs that are being driven."""
        ...

    def lose(self) -> None:
        """The lease is over."""
        ...

    def doubt(self) -> None:
        """The lease may be over: nobody answers."""
        ...

    async def nudge(self, run_id: str) -> None:
        """A run that is being driven was woken."""
        ...


def keepers(worker: Kept) -> tuple[Coroutine[Any, Any, None], ...]:
    """All of it, to be run side by side until cancelled."""
    rules, dispatcher, clock = worker.rules, worker.dispatcher, worker.ports.clock
    return (
        beating(worker),
        nudging(worker),
        every(rules.sweep, "sweep", lambda: dispatcher.sweep(now=clock())),
        gauging(worker),
        every(rules.reconcile, "reconcile", lambda: dispatcher.reconcile(now=clock())),
    )


async def beating(worker: Kept) -> None:
    """Heartbeats, each with a time limit of its own: a heartbeat that hangs must not outlive the lease it renews.

    When none got through for `rules.patience` the worker lets go by itself, before others take what it holds.
    """
    loop, rules = asyncio.get_running_loop(), worker.rules
    good = loop.time()
    while True:
        begun = loop.time()
        left = good + rules.patience - begun
        alive = await _beat(worker, min(rules.beat, max(left, 0.0)))
        if alive:
            good = begun
        elif alive is False:
            worker.lose()
            good = loop.time()
        elif loop.time() >= good + rules.patience:
            worker.doubt()
            good = loop.time()
        if worker.problem in {None, NO_BEAT}:
            worker.problem = None if alive else NO_BEAT
        pause = rules.beat * random.uniform(0.8, 1.0)  # nosec B311  # jitter
        await asyncio.sleep(min(pause, max(good + rules.patience - loop.time(), 0.05)) if alive is None else pause)


NO_BEAT = "the queue does not answer the heartbeat"


async def _beat(worker: Kept, limit: float) -> bool | None:
    """True: renewed; False: the lease is over; None: no answer."""
    try:
        async with asyncio.timeout(limit):
            return await worker.dispatcher.beat(now=worker.ports.clock())
    except (StoreError, TimeoutError) as error:
        _log.warning("no_heartbeat", worker=worker.dispatcher.worker, error=str(error) or f"no answer in {limit:g} s")
        return None


async def nudging(worker: Kept) -> None:
    """Look for runs in hand that somebody woke: a cancel is to be felt soon."""
    while True:
        await asyncio.sleep(worker.rules.look)
        held = worker.in_hand
        if not held:
            continue
        try:
            for run_id in await worker.dispatcher.nudged(held):
                await worker.nudge(run_id)
        except StoreError as error:
            _log.warning("no_nudges", error=str(error))
            await asyncio.sleep(worker.rules.beat)


async def gauging(worker: Kept) -> None:
    """Keep the depth of the queue, for whoever asks from another thread; None while it cannot be seen."""
    approvals = Approvals(worker.ports.store)
    while True:
        try:
            now = worker.ports.clock()
            depth = await worker.dispatcher.depth(now=now)
            worker.approval = await approvals.oldest(now) if depth.approvals else 0.0
            worker.depth = depth
        except StoreError as error:
            worker.depth = None
            _log.warning("no_depth", error=str(error))
        await asyncio.sleep(worker.rules.gauge * random.uniform(0.8, 1.2))  # nosec B311  # jitter


async def every(seconds: float, what: str, work: Callable[[], Coroutine[Any, Any, int]]) -> None:
    """Do `work` about every so many seconds; what it counts is logged when there is any."""
    while True:
        try:
            if found := await work():
                _log.warning(what, runs=found)
        except StoreError as error:
            _log.warning(f"no_{what}", error=str(error))
        await asyncio.sleep(seconds * random.uniform(0.8, 1.2))  # nosec B311  # jitter
