"""A seed becomes a world: a disk, a queue, some workers, some runs, people, and what goes wrong with all of them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from orchestrator.core.events import Entry, RunStarted, Trace
from orchestrator.core.run import Run
from orchestrator.core.spec import Limits
from orchestrator.dispatch import DispatchRules, needs_of
from orchestrator.dispatch.memory import Board
from orchestrator.errors import StoreError
from orchestrator.inbox import callback_token
from orchestrator.runner import Ports
from orchestrator.stores import Store
from orchestrator.toolbox import Toolbox
from orchestrator.worker import Worker, WorkerRules
from tests.sim.cast import STAGE, TOOLS, SimulatedModel, Stage
from tests.sim.chaos import Chaos
from tests.sim.network import Disk, Link, LinkedDispatcher, LinkedStore, outside
from tests.sim.people import KEY, People
from tests.sim.process import Process, number_tasks

EPOCH = 1_700_000_000.0
CHAOS_SECONDS = 75.0
LONGEST_DEADLINE = 120.0
LARGEST_SKEW = 40.0
BOUND = CHAOS_SECONDS + LONGEST_DEADLINE + 2 * LARGEST_SKEW + 150.0
"""Virtual seconds in which every run must have ended: what is left after the chaos is a lease, a reconciler's round, a deadline."""

RULES = DispatchRules(beat=2.0, lease=10.0)
WORKER = WorkerRules(concurrency=6, batch=3, grace=8.0, beat=2.0, lease=10.0, look=1.0, sweep=2.0, reconcile=30.0)


@dataclass(frozen=True, slots=True)
class Mutation:
    """How a world differs from the product: its disk, and what stands between a worker and its store."""

    disk: Callable[[], Disk] = Disk
    store: Callable[[Store, Process], Store] = lambda store, _process: store


@dataclass(slots=True)
class World:
    """Everything of one seed, and what the laws need to know of what happened."""

    seed: int
    runs: int
    mutation: Mutation = field(default_factory=Mutation)
    acknowledged: list[Trace] = field(default_factory=list)
    folded: dict[tuple[str, str], tuple[Run, Entry]] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    ended_at: float | None = None
    rng: random.Random = field(init=False)
    chaos: Chaos = field(init=False)
    disk: Disk = field(init=False)
    board: Board = field(init=False)
    stage: Stage = field(init=False)
    people: People = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        random.seed(self.seed)
        self.chaos = Chaos.drawn(self.rng)
        self.disk = self.mutation.disk()
        self.board = Board()

    def now(self) -> float:
        """The right time, in unix seconds."""
        return EPOCH + asyncio.get_running_loop().time()

    async def play(self) -> None:
        """From the first submission until every run has ended, or the time is up."""
        loop = asyncio.get_running_loop()
        number_tasks(loop)
        await self.disk.open()
        link = Link(self.chaos)
        self.links.append(link)
        store = LinkedStore(self.disk, link, self.acknowledged.append)
        self.people = People(
            self.chaos, store, LinkedDispatcher(self.disk, self.board, link, "people", RULES), self.now
        )
        self.stage = Stage(self.chaos, self.disk, self.rng, self.people.call_back)
        self.disk.watchers.append(self.people.watch)
        STAGE.set(self.stage)
        submitting = [outside(self._submit(number)) for number in range(self.runs)]
        for number in range(self.rng.choice((2, 2, 3))):
            outside(self._machine(number))
        outside(self._heal())
        for each in submitting:
            await each
        while not self.all_ended() and loop.time() < BOUND:  # noqa: ASYNC110  time is virtual
            await asyncio.sleep(1.0)
        self.ended_at = loop.time() if self.all_ended() else None
        for process in self.processes:
            process.crash()
            process.bury()

    def all_ended(self) -> bool:
        """Has every run that somebody was promised come to its end?"""
        return set(self.people.promised.values()) <= self.disk.ended

    async def _submit(self, number: int) -> None:
        rng = self.rng
        await asyncio.sleep(rng.random() * 40)
        limits = Limits(
            max_steps=rng.choice((2, 4, 6)),
            deadline=rng.choice((20.0, 60.0, LONGEST_DEADLINE)),
            tool_errors=rng.choice((3, 99)),
            stall_end=99,
        )
        first = RunStarted(f"question {number}", limits=limits, tools=Toolbox(TOOLS).specs, tenant=rng.choice("ab"))
        key = f"key-{number}"
        tries = 1 + self.chaos.strikes("duplicate_submit")
        await asyncio.gather(*(self.people.submit(key, first, rng.choice((0, 0, 5))) for _ in range(tries)))
        if self.chaos.strikes("cancel"):
            outside(self.people.cancel(self.people.promised[key], rng.random() * 40))

    async def _machine(self, number: int) -> None:
        """A place for one worker at a time: when it has died, another is started."""
        incarnation = 0
        while True:
            incarnation += 1
            process = Process(f"w{number}.{incarnation}", self.now)
            self.processes.append(process)
            link = Link(self.chaos, process)
            self.links.append(link)
            if self.chaos.on and self.rng.random() < self.chaos.chances.get("crash", 0.0) * 4:
                process.crash_at = int(self.rng.expovariate(1 / 800)) + 1
            worker = self._worker(process, link)
            main = process.start(_life(worker))
            troubles = outside(self._trouble(process, link, worker))
            await asyncio.wait([main, outside(process.died.wait())], return_when=asyncio.FIRST_COMPLETED)
            if process.dead and process.crash_at is not None and process.steps >= process.crash_at:
                self.chaos.note("crash")
            troubles.cancel()
            if main.done() and not main.cancelled() and (error := main.exception()) is not None:
                self.broken.append(f"worker {process.name} broke: {error!r}")
            process.crash()
            process.bury()
            await asyncio.sleep(self.rng.random() * 8)

    def _worker(self, process: Process, link: Link) -> Worker:
        store = self.mutation.store(LinkedStore(self.disk, link, self.acknowledged.append), process)

        def remember(before: Run, entry: Entry) -> None:
            self.folded[process.name, entry.run_id] = before, entry

        ports = Ports(
            store,
            SimulatedModel(self.stage),
            Toolbox(TOOLS, clock=process.clock),
            (remember,),
            clock=process.clock,
            callback=lambda run, action_id: callback_token(KEY, run, action_id),
        )
        dispatcher = LinkedDispatcher(self.disk, self.board, link, process.name, RULES)
        return Worker(dispatcher, ports, WORKER, has=needs_of(RunStarted("", tools=ports.toolbox.specs)))

    async def _trouble(self, process: Process, link: Link, worker: Worker) -> None:
        """What befalls a process at a moment."""
        rng, chaos = self.rng, self.chaos
        faults: dict[str, Callable[[], Awaitable[None]]] = {
            "crash": lambda: self._kill(process),
            "freeze": lambda: self._freeze(process),
            "partition": lambda: self._part(link),
            "clock_jump": lambda: self._jump(process),
            "amnesia": self._forget,
            "drain": lambda: self._drain(worker),
        }
        while chaos.on:
            await asyncio.sleep(rng.expovariate(1 / 6))
            for kind, befall in faults.items():
                if chaos.strikes(kind):
                    await befall()
                    break

    async def _kill(self, process: Process) -> None:
        process.crash()

    async def _freeze(self, process: Process) -> None:
        process.freeze()
        await asyncio.sleep(self.rng.choice((1.0, 6.0, 25.0)) * self.rng.random())
        process.thaw()

    async def _part(self, link: Link) -> None:
        link.cut = True
        await asyncio.sleep(self.rng.choice((2.0, 8.0, 30.0)) * self.rng.random())
        link.cut = False

    async def _jump(self, process: Process) -> None:
        process.skew = self.rng.uniform(-LARGEST_SKEW, LARGEST_SKEW)

    async def _forget(self) -> None:
        if self.board.tickets:
            del self.board.tickets[self.rng.choice(sorted(self.board.tickets))]

    async def _drain(self, worker: Worker) -> None:
        worker.stop()
        await asyncio.sleep(self.rng.random() * 10)
        if self.rng.random() < 0.5:
            worker.stop()

    async def _heal(self) -> None:
        """After a while nothing new goes wrong; what has gone wrong must then come right."""
        await asyncio.sleep(CHAOS_SECONDS)
        self.chaos.on = False
        await asyncio.sleep(30.0)
        for process in self.processes:
            process.thaw()
        for link in self.links:
            link.cut = False


async def _life(worker: Worker) -> None:
    """What a worker's process does from its start to its end."""
    await worker.dispatcher.open()
    await worker.run()
    with suppress(StoreError):
        await worker.dispatcher.close()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a world. `digest` is equal for equal worlds."""

    seed: int
    runs: int
    violations: tuple[str, ...]
    faults: Counter[str]
    outcomes: Counter[str]
    seconds: float
    digest: str
