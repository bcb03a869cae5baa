"""A virtual-time event loop: an hour of timeouts in a millisecond, and no test sleeps.

`loop.time()` is ours. When nothing is ready the loop does not wait: time jumps to the next deadline. What is real still works:
a file descriptor that is ready comes first; while sockets are open the loop gives them a short real moment before it
jumps; while a thread of the loop's executor works, time passes at its real pace. Threads that the loop did not start
(aiosqlite, a database driver's own) are invisible to it: test those on the real clock.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from typing import Any, TypeVar

T = TypeVar("T")
SOCKET_GRACE = 0.005  # real seconds that open sockets are given before time jumps


class _JumpingSelector(selectors.BaseSelector):
    """Polls the real selector; where it would have waited, moves `now` instead."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.now = 0.0
        self.threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None:
            return self._real.select(None)
        ready = self._real.select(self._real_moment(timeout))
        if not ready:
            self.now = max(self.now + timeout, math.nextafter(self.now, math.inf))
        return ready

    def _real_moment(self, timeout: float) -> float:
        if self.threads:
            return timeout
        only_the_self_pipe = len(self._real.get_map()) <= 1
        return 0.0 if only_the_self_pipe else min(timeout, SOCKET_GRACE)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()


class VirtualLoop(asyncio.SelectorEventLoop):
    """A selector loop whose seconds, counted from 0.0, pass only when nothing else can happen."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self._clock_resolution = 1e-6  # asyncio fires what is due within this; 1 ns vanishes in a float beyond 8e6 s

    def time(self) -> float:
        return self._jumping.now

    def advance(self, seconds: float) -> None:
        """Let time pass without giving way to other tasks, as a stalled loop does."""
        self._jumping.now += seconds

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        self._jumping.threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _: asyncio.Future[Any]) -> None:
        self._jumping.threads -= 1


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` on virtual time: for laws that hypothesis drives from a synchronous test."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
