"""Every test that asks for `place` is run by each engine. `place()` is one more worker on the same queue and trace."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from orchestrator.core.events import RunStarted
from orchestrator.dispatch import Dispatcher, DispatchRules, Job, Slice, Submitted
from orchestrator.dispatch.memory import Board, MemoryDispatcher
from orchestrator.dispatch.procrastinate import ProcrastinateDispatcher
from orchestrator.dispatch.sqlite import SqliteDispatcher
from orchestrator.stores import Store
from orchestrator.stores.memory import MemoryStore
from orchestrator.stores.postgres import PostgresStore
from orchestrator.stores.sqlite import SqliteStore
from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

RULES = DispatchRules(beat=2.0, lease=10.0)


@dataclass
class Place:
    """One queue and its trace, as several workers see it. `now` is the clock that they are told; `pass_time` moves it."""

    engine: str
    make_store: Callable[[], Store]
    make: Callable[[Store, DispatchRules], Dispatcher]
    age: Callable[[Store, float], Awaitable[None]]
    lose: Callable[[Dispatcher, Store, str], Awaitable[None]]
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    now: float = field(default_factory=time.time)
    count: int = 0
    workers: list[Dispatcher] = field(default_factory=list)
    _store: Store | None = None

    async def store(self) -> Store:
        if self._store is None:
            self._store = await self.stack.enter_async_context(self.make_store())
        return self._store

    async def worker(self, rules: DispatchRules = RULES) -> Dispatcher:
        """One more worker; it is closed at the end of the test."""
        store = await self.store() if self.engine == "memory" else self.make_store()
        if self.engine != "memory":
            await self.stack.enter_async_context(store)
        await self.store()
        dispatcher = self.make(store, rules)
        await dispatcher.open()
        self.workers.append(dispatcher)
        self.stack.push_async_callback(dispatcher.close)
        return dispatcher

    async def pass_time(self, seconds: float, *, silent: Collection[Dispatcher] = ()) -> None:
        """For all workers, whoever keeps the clock; all but the silent ones beat meanwhile."""
        store = await self.store()
        while seconds > 0:
            step = min(seconds, 5.0)
            seconds -= step
            self.now += step
            await self.age(store, step)
            for worker in self.workers:
                assert worker in silent or await worker.beat(now=self.now)

    async def submit(self, dispatcher: Dispatcher, name: str = "", **job: object) -> Submitted:
        self.count += 1
        filled = Job(name or f"run-{self.count}", **job)  # type: ignore[arg-type]
        return await dispatcher.submit(
            filled, RunStarted(f"goal of {filled.run_id}", tenant=filled.tenant), now=self.now
        )

    async def take(
        self, dispatcher: Dispatcher, most: int = 1, *, has: frozenset[str] = frozenset(), wait: float = 0.0
    ) -> list[Slice]:
        return list(await dispatcher.take(most, now=self.now, has=has, wait=wait))

    async def names(self, dispatcher: Dispatcher, most: int = 10, *, has: frozenset[str] = frozenset()) -> list[str]:
        return [each.run_id for each in await self.take(dispatcher, most, has=has)]


def memory_place() -> Place:
    store, board = MemoryStore(), Board()

    async def age(_: Store, __: float) -> None:
        return None

    async def lose(_: Dispatcher, __: Store, run_id: str) -> None:
        board.drop(run_id)

    return Place("memory", lambda: store, lambda same, rules: MemoryDispatcher(same, rules, board), age, lose)


def sqlite_place(path: Path) -> Place:
    def made(store: Store, rules: DispatchRules) -> Dispatcher:
        assert isinstance(store, SqliteStore)
        return SqliteDispatcher(store, rules, look=0.05)

    async def age(_: Store, __: float) -> None:
        return None

    async def lose(_: Dispatcher, store: Store, run_id: str) -> None:
        assert isinstance(store, SqliteStore)
        await store.transaction(lambda db: db.execute("DELETE FROM queue WHERE run_id = ?", (run_id,)))

    return Place("sqlite", lambda: SqliteStore(path), made, age, lose)


def postgres_place(url: str) -> Place:
    def made(store: Store, rules: DispatchRules) -> Dispatcher:
        assert isinstance(store, PostgresStore)
        return ProcrastinateDispatcher(store, rules, look=0.05)

    async def age(store: Store, seconds: float) -> None:
        """The server keeps the clock: everything it remembers is that much older."""
        assert isinstance(store, PostgresStore)
        async with store.pool.connection() as connection:
            shift = f"interval '{seconds} seconds'".encode()
            await connection.execute(b"UPDATE procrastinate_workers SET last_heartbeat = last_heartbeat - " + shift)
            await connection.execute(b"UPDATE procrastinate_jobs SET scheduled_at = scheduled_at - " + shift)

    async def lose(_: Dispatcher, store: Store, run_id: str) -> None:
        assert isinstance(store, PostgresStore)
        async with store.pool.connection() as connection:
            await connection.execute("DELETE FROM procrastinate_jobs WHERE queueing_lock = %s", (run_id,))
            await connection.execute("DELETE FROM slices WHERE run_id = %s", (run_id,))

    return Place("postgres", lambda: PostgresStore(url), made, age, lose)


@pytest_asyncio.fixture(params=["memory", "sqlite", "postgres"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    if request.param == "memory":
        made = memory_place()
    elif request.param == "sqlite":
        made = sqlite_place(tmp_path / "trace.db")
    else:
        made = postgres_place(request.getfixturevalue("postgres_url"))
    async with made.stack:
        yield made
