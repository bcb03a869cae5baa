"""Time limits. What comes after the limit is void, even where the callee swallowed its cancellation and answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from orchestrator.errors import ConfigError, Timeout
from orchestrator.policy.call import DEADLINE, Ask, Call, I, O, Policy

T = TypeVar("T")


def timeout(seconds: float, target: str = "the callee") -> Policy:
    """The whole call within `seconds`, and within the deadline of the Ask.

    Raises Timeout: TIMEOUT when the callee was slow, DEADLINE when the run had no time left. A callee that swallows its
    cancellation cannot turn it into a result.
    """
    if seconds <= 0:
        raise ConfigError(f"timeout of {target} is {seconds} s: write a number of seconds above 0")

    def policy(call: Call[Ask[I], O], /) -> Call[Ask[I], O]:
        async def timed(ask: Ask[I]) -> O:
            now = asyncio.get_running_loop().time()
            left = ask.deadline - now
            if left <= 0:
                raise Timeout(DEADLINE, f"no time left to ask {target}: the run's deadline has passed")
            if left < seconds:
                return await within(call(ask), ask.deadline, lambda: _no_time(target, left))
            return await within(call(ask), now + seconds, lambda: _slow(target, seconds))

        return timed

    return policy


def _no_time(target: str, left: float) -> Timeout:
    return Timeout(DEADLINE, f"{target} had not answered when the run's deadline passed ({left:.3g} s were left)")


def _slow(target: str, seconds: float) -> Timeout:
    return Timeout("TIMEOUT", f"{target} did not answer within {seconds:g} s; what it did is not known")


async def within(work: Awaitable[T], until: float, late: Callable[[], Timeout]) -> T:
    """The result of `work`, or the error that `late` makes once the loop's clock shows `until`. Neither timeout nor cancellation can be swallowed."""
    scope = Scope(until)
    try:
        with scope:
            result = await work
    except TimeoutError as error:
        if not scope.passed:
            raise _own(error) from error
    finally:
        if scope.cancelled:
            raise asyncio.CancelledError
        if scope.passed:
            raise late()
    return result


class Scope:
    """`with Scope(until)`: whatever is awaited inside is cancelled when the loop's clock shows `until`, and TimeoutError is raised.

    What `asyncio.timeout_at` does, for half of what it costs: four of them stand around every step of every run, and each of those
    awaits two coroutines. `passed`: the time was up. `cancelled`: somebody else has cancelled the task meanwhile.
    """

    __slots__ = ("_cancels", "_task", "_timer", "_until", "passed")

    def __init__(self, until: float) -> None:
        self._until = until
        self.passed = False

    def __enter__(self) -> Self:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is None:
            raise RuntimeError("a time limit needs a task that it can cancel")
        self._task = task
        self._cancels = task.cancelling()
        self._timer = loop.call_at(self._until, self._pass)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self.passed and self._task.uncancel() <= self._cancels and kind is asyncio.CancelledError:
            raise TimeoutError from error

    @property
    def cancelled(self) -> bool:
        """Has somebody else asked this task to stop since the beginning?"""
        return self._task.cancelling() > self._cancels

    def _pass(self) -> None:
        self.passed = True
        self._task.cancel()


def _own(error: TimeoutError) -> Timeout:
    return Timeout("TIMEOUT", f"the callee gave up by itself: {error or 'its own time limit'}")


async def paced(stream: AsyncIterator[T], first: float, between: float, target: str = "the model") -> AsyncIterator[T]:
    """The stream, with at most `first` seconds to its first item and `between` to each later one; else Timeout (TIMEOUT)."""
    loop = asyncio.get_running_loop()
    items, seconds, wait = 0, first, "to the first token"
    try:
        while True:
            late = partial(_silent, target, seconds, f"{wait} (token {items + 1})")
            item = await within(_next(stream), loop.time() + seconds, late)
            if isinstance(item, _End):
                return
            items, seconds, wait = items + 1, between, "between two tokens"
            yield item
    finally:
        close: Any = getattr(stream, "aclose", None)
        if close is not None:
            await close()


def _silent(target: str, seconds: float, where: str) -> Timeout:
    return Timeout("TIMEOUT", f"{target} let {seconds:g} s pass {where}")


class _End:
    """Stands for the end of a stream where a value is wanted."""


async def _next(stream: AsyncIterator[T]) -> T | _End:
    return await anext(stream, _End())
