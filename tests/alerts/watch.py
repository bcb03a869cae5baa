"""A monitor over a store in memory, in virtual time, and receivers in memory that fail or hang as told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from orchestrator.alerts import Notification, Rule
from orchestrator.core.events import Event
from orchestrator.core.measure import measure
from orchestrator.hooks import Hook
from orchestrator.monitor import Book, Feed, GaugeSource, MemoryBook, Monitor, unknown
from orchestrator.policy import Ask, Rules
from orchestrator.stores.memory import MemoryStore
from tests.alerts.make import RULES
from tests.alerts.traffic import happen

START = 1_700_000_000.0
HEALTH = [RULES[name] for name in ("thought_action_gap", "error_propagation", "step_bloat")]


def clock() -> float:
    return START + asyncio.get_running_loop().time()


@dataclass
class Inbox:
    """A receiver in memory; `fails` is raised as often as it says, `hang` never answers."""

    notes: list[Notification] = field(default_factory=list)
    fails: list[Exception] = field(default_factory=list)
    hang: bool = False

    async def __call__(self, ask: Ask[Notification]) -> None:
        if self.hang:
            await asyncio.Event().wait()
        if self.fails:
            raise self.fails.pop(0)
        self.notes.append(ask.input)

    async def close(self) -> None:
        """Nothing to close."""

    def hook(self, name: str = "robot") -> Hook:
        return Hook(name, self, Rules(timeout=None, retry=None, breaker=None))

    def told(self) -> list[tuple[str, str]]:
        return [(each.rule, each.status) for each in self.notes]


async def monitored(
    store: MemoryStore,
    *hooks: Hook,
    rules: Sequence[Rule] = HEALTH,
    book: Book | None = None,
    gauges: GaugeSource = unknown,
) -> tuple[Monitor, asyncio.Task[None]]:
    monitor = Monitor(
        lambda: Feed(store, rules, measure), book or MemoryBook(), rules, hooks, clock=clock, gauges=gauges
    )
    task = asyncio.create_task(monitor.run())
    await asyncio.sleep(0)
    return monitor, task


async def ended(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def traffic(
    store: MemoryStore, kind: Callable[[], tuple[Event, ...]], times: int, every: float = 20.0
) -> list[str]:
    runs = []
    for _ in range(times):
        runs.append(await happen(store, kind(), clock()))
        await asyncio.sleep(every)
    return runs
