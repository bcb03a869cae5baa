"""Time limits. What comes after the limit is void, even where the callee swallowed its cancellation and answered."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from orchestrator.errors import ConfigError, Timeout
from orchestrator.policy.call import DEADLINE, Ask, Call, I, O, Policy

T = TypeVar("T")

_CLOSE = 0.05
"""Seconds: a limit that is sooner than its alarm by less than this waits for it. A run's deadline is read off two clocks, which never
quite agree."""


def timeout(seconds: float, target: str = "the callee") -> Policy:
    """The whole call within `seconds`, and within the deadline of the Ask.

    Raises Timeout: TIMEOUT when the callee was slow, DEADLINE when the run had no time left. A callee that swallows its
    cancellation cannot turn it into a result.
    """
    if seconds <= 0:
        raise ConfigError(f"timeout of {target} is {seconds} s: write a number of seconds above 0")
    slow = partial(_slow, target, seconds)

    def policy(call: Call[Ask[I], O], /) -> Call[Ask[I], O]:
        alarm: Alarm | None = None

        def timed(ask: Ask[I]) -> Awaitable[O]:
            nonlocal alarm
            loop = asyncio.get_running_loop()
            now = loop.time()
            left = ask.deadline - now
            if left <= 0:
                raise Timeout(DEADLINE, f"no time left to ask {target}: the run's deadline has passed")
            if left < seconds:
                return within(call(ask), ask.deadline, partial(_no_time, target, left))
            if alarm is None or alarm.loop is not loop:
                alarm = Alarm(loop)
            return within(call(ask), now + seconds, slow, alarm)

        return timed

    return policy


def _no_time(target: str, left: float) -> Timeout:
    return Timeout(DEADLINE, f"{target} had not answered when the run's deadline passed ({left:.3g} s were left)")


def _slow(target: str, seconds: float) -> Timeout:
    return Timeout("TIMEOUT", f"{target} did not answer within {seconds:g} s; what it did is not known")


async def within(work: Awaitable[T], until: float, late: Callable[[], Timeout], alarm: Alarm | None = None) -> T:
    """The result of `work`, or the error that `late` makes once the loop's clock shows `until`. Neither timeout nor cancellation can be swallowed."""
    alarm = alarm or Alarm(asyncio.get_running_loop())
    place, task = alarm.add(until)
    before = task.cancelling()
    try:
        return await work
    except TimeoutError as error:
        if place not in alarm.open:
            raise
        raise _own(error) from error
    finally:
        passed = alarm.leave(place)
        if passed:
            task.uncancel()
        if task.cancelling() > before:
            raise asyncio.CancelledError
        if passed:
            raise late()


class Alarm:
    """One timer of the loop for many limits: each task in `open` is cancelled, and taken out, when its time has come.

    The timer is set for the limit that passes first, and set anew when it has gone off. So a call that ends in time costs an entry in a
    dict, as long as limits pass in the order in which they begin, which all of one length do. Where nobody is in it there is no
    timer; one that is `held` keeps its timer until its holder stops it.
    """

    __slots__ = ("_at", "_held", "_in_order", "_last", "_places", "_timer", "loop", "open")

    def __init__(self, loop: asyncio.AbstractEventLoop, *, held: bool = False) -> None:
        self.loop = loop
        self.open: dict[int, tuple[float, asyncio.Task[Any]]] = {}
        self._held = held
        self._places = 0
        self._in_order, self._last = True, -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._at = math.inf

    def add(self, until: float) -> tuple[int, asyncio.Task[Any]]:
        """The place in `open` of this task, and the task."""
        task = asyncio.current_task(self.loop)
        if task is None:
            raise RuntimeError("a time limit needs a task that it can cancel")
        if until < self._last:
            self._in_order = False
        else:
            self._last = until
        self._places = place = self._places + 1
        self.open[place] = until, task
        if until < self._at - _CLOSE:
            self.stop()
            self._set(until)
        return place, task

    def leave(self, place: int) -> bool:
        """Whoever is done takes himself out. True: the alarm has gone off for him."""
        gone = self.open.pop(place, None) is None
        if not self.open and not self._held:
            self.stop()
        return gone

    def stop(self) -> None:
        """It goes off for nobody, until somebody comes."""
        if self._timer is not None:
            self._timer.cancel()
            self._at, self._timer = math.inf, None

    def _set(self, at: float) -> None:
        self._at, self._timer = at, self.loop.call_at(at, self._go_off)

    def _go_off(self) -> None:
        now, due, rest = max(self.loop.time(), self._at), [], math.inf
        for place, (until, _) in self.open.items():
            if until <= now:
                due.append(place)
                continue
            rest = min(rest, until)
            if self._in_order:
                break
        self._at, self._timer = math.inf, None
        if rest < math.inf:
            self._set(rest)
        else:
            self._in_order, self._last = True, -math.inf
        for place in due:
            self.open.pop(place)[1].cancel()


class Scope:
    """`with Scope(until)`: whatever is awaited inside is cancelled when the loop's clock shows `until`, and TimeoutError is raised.

    What `asyncio.timeout_at` does, without its coroutines, and under a shared `alarm` mostly without a timer: four of them stand around
    every step of every run. Who cancels from outside is told apart, and wins.
    """

    __slots__ = ("_alarm", "_before", "_place", "_task", "_until")

    def __init__(self, until: float, alarm: Alarm | None = None) -> None:
        self._until = until
        self._alarm = alarm

    def __enter__(self) -> Self:
        alarm = self._alarm = self._alarm or Alarm(asyncio.get_running_loop())
        self._place, self._task = alarm.add(self._until)
        self._before = self._task.cancelling()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        passed = self._alarm is not None and self._alarm.leave(self._place)
        if passed and self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise TimeoutError from error


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
