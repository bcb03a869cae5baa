"""Where synchronous tools run: a bounded pool of daemon threads of their own.

Never on the event loop, never in its default executor, which others need. A thread cannot be stopped: one whose caller has
given up is *abandoned*, counted, and keeps its place until it ends. When all places are taken the pool refuses instead of
queueing behind the dead, and no thread holds up the end of the process.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from orchestrator.errors import ConfigError, Unavailable

T = TypeVar("T")
POOL_FULL = "POOL_FULL"
_WAITING = 32  # calls to a thread, at most, running and waiting
_ABANDONED: set[Future[Any]] = set()


def abandoned() -> int:
    """How many threads of this process still work for a caller that has given up."""
    return len(_ABANDONED)


class Threads(Executor):
    """At most `size` threads, started when needed; calls wait for one, within bounds of number and time."""

    def __init__(self, size: int = 32, patience: float = 5.0) -> None:
        """`patience` is how many seconds a call waits for a thread."""
        if size < 1:
            raise ConfigError(f"a pool of {size} threads can run nothing: write tool_threads >= 1")
        self.size, self.patience = size, patience
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._open = 0
        self._stuck: set[Future[Any]] = set()

    async def run(self, function: Callable[[], T]) -> T:
        """`function()` in a thread, in a copy of this task's context. Unavailable (POOL_FULL) when there is no place.

        When the caller is cancelled, a call that has not begun never will; one that has begun is abandoned.
        """
        inside = contextvars.copy_context()
        job: list[Future[Any]] = []
        future = asyncio.get_running_loop().run_in_executor(_Noting(self, job), inside.run, function)
        try:
            if self._open > self.size:
                await asyncio.wait((future,), timeout=self.patience)
                if job[0].cancel():
                    raise Unavailable(
                        POOL_FULL, f"none of {self.size} tool threads was free within {self.patience:g} s; try later"
                    )
            return await future
        except asyncio.CancelledError:
            if not job[0].cancel() and not job[0].done():
                self._abandon(job[0])
            raise
        finally:
            del future, job  # they hold the error, whose traceback holds this frame

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future of `fn(*args, **kwargs)`; Unavailable (POOL_FULL) at once when the pool is full."""
        future: Future[Any] = Future()
        with self._lock:
            if len(self._stuck) >= self.size or self._open >= _WAITING * self.size:
                raise Unavailable(
                    POOL_FULL,
                    f"all {self.size} tool threads are taken ({len(self._stuck)} by calls given up); try later",
                )
            self._open += 1
            if self._open > self._threads and self._threads < self.size:
                self._threads += 1
                threading.Thread(target=self._serve, name=f"tool-{self._threads}", daemon=True).start()
        future.add_done_callback(self._closed)
        self._work.put((future, lambda: fn(*args, **kwargs)))
        return future

    def _serve(self) -> None:
        while True:
            future, work = self._work.get()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - a thread outlives whatever a tool raises; the caller gets it
                future.set_exception(_bearable(error))
            else:
                future.set_result(result)
                del result
            del future, work

    def _abandon(self, future: Future[Any]) -> None:
        with self._lock:
            self._stuck.add(future)
            _ABANDONED.add(future)
        if future.done():
            self._forget(future)

    def _closed(self, future: Future[Any]) -> None:
        with self._lock:
            self._open -= 1
        self._forget(future)

    def _forget(self, future: Future[Any]) -> None:
        with self._lock:
            self._stuck.discard(future)
            _ABANDONED.discard(future)


def _bearable(error: BaseException) -> Exception:
    """What may be raised in a task: no StopIteration, which a future refuses, and nothing that ends the process."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"the tool raised {type(error).__name__}: {error}")


class _Noting(Executor):
    """Hands a call to the pool and notes its future, which asyncio keeps to itself."""

    def __init__(self, threads: Threads, job: list[Future[Any]]) -> None:
        self._threads, self._job = threads, job

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As the pool does."""
        future = self._threads.submit(fn, *args, **kwargs)
        self._job.append(future)
        return future
