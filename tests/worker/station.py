"""A worker with everything around it in one process: the memory store and queue, a scripted model, real tools."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from orchestrator.core.decide import AskModel
from orchestrator.core.events import ModelTurn, RunEnded, RunStarted
from orchestrator.core.run import Run, replay
from orchestrator.core.spec import Limits
from orchestrator.dispatch import DispatchRules, Job, needs_of
from orchestrator.dispatch.memory import Board, MemoryDispatcher
from orchestrator.inbox import Inbox, callback_token
from orchestrator.runner import Ports
from orchestrator.stores.memory import MemoryStore
from orchestrator.tool import Tool, context, pending, tool
from orchestrator.toolbox import Toolbox
from orchestrator.worker import Ending, Worker, WorkerRules
from tests.build import ScriptedModel

KEY = b"a key for tests"
EFFECTS: Counter[str] = Counter()
TOKENS: dict[str, str] = {}

Script = Sequence[ModelTurn] | Callable[[Run, AskModel], ModelTurn]


@tool(repeatable=True)
async def look(q: str) -> str:
    """Looks."""
    return f"seen {q} {q}1 {q}2 {q}3"


@tool
async def pay(q: str, seconds: float = 0.0) -> str:
    """Pays, once, in so many seconds."""
    EFFECTS[context().key] += 1
    await asyncio.sleep(seconds)
    return f"paid {q} {q}1 {q}2 {q}3"


@tool
async def order(q: str, poll: float | None = None, deadline: float = 86_400.0) -> object:
    """Orders: the goods come by callback, or are there at the third poll."""
    about = context()
    EFFECTS[about.key] += 1
    TOKENS[about.run_id] = about.callback
    if poll is not None and EFFECTS[about.key] > 3:
        return f"delivered {q} under {about.token}"
    return pending(f"order-{q}", poll=poll, deadline=deadline)


@tool(requires_approval=True)
async def fire(q: str) -> str:
    """Fires, if a person agrees."""
    EFFECTS[context().key] += 1
    return f"fired {q} {q}1 {q}2"


@tool(approval=lambda amount: amount > 100)
async def spend(amount: int) -> str:
    """Spends; much only if a person agrees."""
    EFFECTS[context().key] += 1
    return f"spent {amount} a{amount} b{amount}"


@tool(timeout=3600.0)
async def stubborn(q: str) -> str:
    """Catches every cancellation and says ok."""
    while True:
        try:
            await asyncio.sleep(3000)
            return q
        except asyncio.CancelledError:
            pass


TOOLS: tuple[Tool, ...] = (look, pay, order, fire, spend, stubborn)
LONG = Limits(deadline=None)


@dataclass
class Station:
    """Store, queue and inbox, and as many workers as a test starts."""

    script: Script
    store: MemoryStore = field(default_factory=MemoryStore)
    board: Board = field(default_factory=Board)
    rules: DispatchRules = field(default_factory=DispatchRules)

    def __post_init__(self) -> None:
        self.model = ScriptedModel(self.script)
        self.toolbox = Toolbox(TOOLS, clock=clock)
        self.front = self.dispatcher()
        self.inbox = Inbox(self.store, self.front, key=KEY, clock=clock)

    def dispatcher(self) -> MemoryDispatcher:
        return MemoryDispatcher(self.store, self.rules, board=self.board)

    def ports(self, **more: Any) -> Ports:
        return Ports(
            self.store,
            more.pop("models", self.model),
            self.toolbox,
            clock=clock,
            callback=lambda run, action_id: callback_token(KEY, run, action_id),
            **more,
        )

    async def submit(
        self, *run_ids: str, limits: Limits = LONG, tenant: str = "", tools: Sequence[Tool] = TOOLS, **more: Any
    ) -> None:
        first = RunStarted("Who?", limits=limits, tools=tuple(each.spec for each in tools), tenant=tenant)
        for run_id in run_ids:
            job = Job(run_id, tenant, needs=needs_of(first), **more)
            await self.front.submit(job, first, now=clock())

    async def run(self, run_id: str = "r1") -> Run:
        return replay(await self.store.read(run_id))

    async def ended(self, *run_ids: str, within: float = 60.0) -> list[RunEnded]:
        """How these runs ended; TimeoutError if they do not."""
        async with asyncio.timeout(within):
            for run_id in run_ids:
                async for _ in self.store.follow(run_id):
                    pass
        found = [(await self.run(run_id)).ended for run_id in run_ids]
        return [each for each in found if each is not None]

    async def until(self, fact: Callable[[], bool], within: float = 60.0) -> None:
        async with asyncio.timeout(within):
            while not fact():  # noqa: ASYNC110  a fact has no event
                await asyncio.sleep(0.01)


def clock() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def station(script: Script, **more: Any) -> AsyncIterator[Station]:
    EFFECTS.clear()
    TOKENS.clear()
    found = Station(script, **more)
    await found.store.open()
    yield found


@asynccontextmanager
async def working(
    place: Station, rules: WorkerRules | None = None, *, models: Any = None, dispatcher: Any = None, has: Any = None
) -> AsyncIterator[Worker]:
    """A worker of the place while the block lasts; it must then drain."""
    more = {} if models is None else {"models": models}
    queue = dispatcher or place.dispatcher()
    await queue.open()
    needs = needs_of(RunStarted("", tools=place.toolbox.specs)) if has is None else has
    worker = Worker(queue, place.ports(**more), rules or WorkerRules(), has=needs)
    task = asyncio.create_task(worker.run())
    try:
        yield worker
        worker.stop()
        assert await task in set(Ending)
        await queue.close()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
