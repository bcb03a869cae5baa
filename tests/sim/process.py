"""A worker process in the simulation: every one of its tasks is stepped by us, so it can die, or stand still, at any await.

A crash runs no `finally` and no `except`: the coroutines are never resumed. A freeze (SIGSTOP) leaves them where they are while
the world goes on; when it thaws they go on, with what was delivered meanwhile.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")
MOST_STEPS = 300_000
_CLAUSES = 20  # nested `finally` clauses that a coroutine may have
PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class Process:
    """One incarnation. `skew` is what its wall clock is wrong by, in seconds; `crash_at` the step at which it dies."""

    def __init__(self, name: str, now: Callable[[], float]) -> None:
        self.name = name
        self.dead = False
        self.frozen = False
        self.skew = 0.0
        self.steps = 0
        self.crash_at: int | None = None
        self.died = asyncio.Event()
        self._now = now
        self._thaws: list[asyncio.Future[None]] = []
        self._tasks: dict[asyncio.Task[Any], Coroutine[Any, Any, Any]] = {}
        self._bodies: dict[Coroutine[Any, Any, Any], None] = {}

    def clock(self) -> float:
        """Its wall clock, in unix seconds."""
        return self._now() + self.skew

    def start(self, main: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `main` inside this process: all tasks that come of it are its own."""
        context = copy_context()
        context.run(PROCESS.set, self)
        return asyncio.get_running_loop().create_task(main, context=context)

    def crash(self) -> None:
        """SIGKILL."""
        if not self.dead:
            self.dead = True
            self.died.set()
            self.thaw()
            for task in tuple(self._tasks):
                task.cancel()

    def freeze(self) -> None:
        """SIGSTOP."""
        self.frozen = True

    def thaw(self) -> None:
        """SIGCONT."""
        self.frozen = False
        thaws, self._thaws = self._thaws, []
        for each in thaws:
            if not each.done():
                each.set_result(None)

    def bury(self) -> None:
        """Free what the dead left behind. Nothing of it can touch the world any more: what its `finally` clauses begin is dead too."""
        bodies, self._bodies = self._bodies, {}
        context = copy_context()
        context.run(PROCESS.set, self)
        for body in bodies:
            for _ in range(_CLAUSES):
                with suppress(BaseException):
                    context.run(body.close)
                    break

    def adopt(self, task: asyncio.Task[Any], body: Coroutine[Any, Any, Any]) -> None:
        """A task of this process has begun."""
        self._tasks[task] = body
        self._bodies[body] = None
        task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[Any]) -> None:
        body = self._tasks.pop(task)
        if not self.dead:
            self._bodies.pop(body, None)

    def step(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise RuntimeError(f"{self.name} took {self.steps} steps: it spins without letting time pass")
        if self.crash_at is not None and self.steps >= self.crash_at:
            self.crash()
        if self.dead:
            raise asyncio.CancelledError

    def thawing(self) -> asyncio.Future[None]:
        """What a task of a frozen process waits for, as a coroutine would yield it."""
        future = asyncio.get_running_loop().create_future()
        future._asyncio_future_blocking = True
        self._thaws.append(future)
        return future


class Numbered(asyncio.Task[Any]):
    """A task whose place in a set is the same in every process that plays this world."""

    _count = itertools.count()

    def __init__(self, *args: Any, **more: Any) -> None:
        self._number = next(self._count)
        super().__init__(*args, **more)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class Stepped(Coroutine[Any, Any, Any]):
    """A coroutine of a process. The event loop resumes it through us."""

    __slots__ = ("_body", "_process", "_thrown")

    def __init__(self, body: Coroutine[Any, Any, Any], process: Process) -> None:
        self._body, self._process = body, process
        self._thrown: BaseException | None = None

    def send(self, value: Any) -> Any:
        process = self._process
        if process.frozen and not process.dead:
            return process.thawing()
        process.step()
        if self._thrown is not None:
            thrown, self._thrown = self._thrown, None
            return self._body.throw(thrown)
        return self._body.send(value)

    def throw(self, thrown: Any, *_: Any) -> Any:
        process = self._process
        if process.frozen and not process.dead:
            self._thrown = thrown
            return process.thawing()
        process.step()
        self._thrown = None
        return self._body.throw(thrown)

    def close(self) -> None:
        if not self._process.dead:
            self._body.close()

    def __await__(self) -> Any:
        raise NotImplementedError


def number_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """From here on tasks are made by us, and counted from 0."""
    Numbered._count = itertools.count()
    loop.set_task_factory(task_factory)


def task_factory(loop: asyncio.AbstractEventLoop, body: Any, *, context: Context | None = None) -> asyncio.Task[Any]:
    """Tasks begun inside a process belong to it; all others to the world."""
    process = PROCESS.get() if context is None else context.get(PROCESS)
    if process is None:
        return Numbered(body, loop=loop, context=context)
    task = Numbered(Stepped(body, process), loop=loop, context=context)
    process.adopt(task, body)
    return task
