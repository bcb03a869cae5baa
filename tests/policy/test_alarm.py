"""One timer for many limits: each passes when it would under a timer of its own, and a call that ends in time sets none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import Timeout
from orchestrator.policy import Ask, Policy, timeout
from orchestrator.policy.timeout import Alarm, Scope
from tests.clock import VirtualLoop
from tests.clock import run as virtually
from tests.policy.callee import Callee, now

Life = tuple[int, int, int, int | None]
LIVES = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 30), st.integers(0, 40), st.none() | st.integers(0, 40)),
    min_size=1,
    max_size=12,
)
"""Of each: when it begins, how long its limit is, how long it takes, when somebody cancels it."""

Ends = list[tuple[str, float, int]]


async def lived(lives: list[Life], one: Callable[[int, int], Coroutine[None, None, str]]) -> Ends:
    """How each ended, when, and how many cancellations were left over."""

    async def life(begins: int, lasts: int, takes: int) -> tuple[str, float, int]:
        await asyncio.sleep(begins)
        task = asyncio.current_task()
        assert task is not None
        try:
            end = await one(lasts, takes)
        except TimeoutError:
            end = "late"
        except Timeout as error:
            end = error.code
        except asyncio.CancelledError:
            end = "cancelled"
        return end, now(), task.cancelling()

    async def cancel(task: asyncio.Task[object], at: int) -> None:
        await asyncio.sleep(at + 0.5)
        task.cancel()

    tasks = [asyncio.create_task(life(begins, lasts, takes)) for begins, lasts, takes, _ in lives]
    cancels = [cancel(task, at) for task, (*_, at) in zip(tasks, lives, strict=True) if at is not None]
    await asyncio.gather(*cancels, *tasks, return_exceptions=True)
    return [("cancelled", 0, 0) if task.cancelled() else task.result() for task in tasks]


@settings(max_examples=150, deadline=None)
@given(LIVES)
def test_limits_under_one_bell_pass_as_each_would_alone(lives: list[Life]) -> None:
    async def together() -> tuple[Ends, int]:
        alarm = Alarm(asyncio.get_running_loop())

        async def one(lasts: int, takes: int) -> str:
            with Scope(now() + lasts, alarm):
                await asyncio.sleep(takes)
            return "in time"

        return await lived(lives, one), len(alarm.open)

    async def alone(scope: Callable[[float], AbstractAsyncContextManager[object]]) -> Ends:
        async def one(lasts: int, takes: int) -> str:
            async with scope(now() + lasts):
                await asyncio.sleep(takes)
            return "in time"

        return await lived(lives, one)

    @contextlib.asynccontextmanager
    async def scoped(until: float):  # type: ignore[no-untyped-def]
        scope: AbstractContextManager[object] = Scope(until)
        with scope:
            yield

    expected = virtually(alone(asyncio.timeout_at))
    assert virtually(together()) == (expected, 0)
    assert virtually(alone(scoped)) == expected


@settings(max_examples=100, deadline=None)
@given(LIVES, st.booleans())
def test_calls_under_one_policy_are_cut_as_each_would_be_under_its_own(lives: list[Life], stubborn: bool) -> None:
    async def callee(ask: Ask[int]) -> str:
        try:
            await asyncio.sleep(ask.input)
        except asyncio.CancelledError:
            if not stubborn:
                raise
        return "in time"

    def ends(policy: Callable[[], Policy]) -> Ends:
        async def one(_: int, takes: int) -> str:
            return await policy()(callee)(Ask(takes))

        return virtually(lived(lives, one))

    shared = timeout(10)(callee)

    async def one(_: int, takes: int) -> str:
        return await shared(Ask(takes))

    assert virtually(lived(lives, one)) == ends(lambda: timeout(10))


@pytest.mark.virtual
async def test_calls_side_by_side_share_a_timer_and_leave_none(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, call = asyncio.get_running_loop(), timeout(300)(Callee())
    set_timer, timers = loop.call_at, []

    def noted(when: float, callback: Callable[..., object]) -> asyncio.TimerHandle:
        timers.append(when)
        return set_timer(when, callback)

    monkeypatch.setattr(loop, "call_at", noted)
    await asyncio.gather(*(call(Ask("x")) for _ in range(1000)))
    assert timers == [300]
    assert [each for each in loop._scheduled if not each.cancelled()] == []  # type: ignore[attr-defined]


@pytest.mark.virtual
async def test_the_bell_is_set_anew_for_the_oldest_that_is_open_when_it_rings() -> None:
    callee = Callee(seconds=7)
    call = timeout(10)(callee)
    for _ in range(3):
        await call(Ask("x"))  # the alarm was set for the first, at 10, and would go off in the second
    callee.seconds = 60
    with pytest.raises(Timeout):
        await call(Ask("x"))
    assert now() == 31


@pytest.mark.virtual
async def test_a_limit_that_is_nearer_than_the_bells_is_heard_first() -> None:
    alarm, heard = Alarm(asyncio.get_running_loop()), []

    async def one(lasts: float) -> None:
        with contextlib.suppress(TimeoutError), Scope(now() + lasts, alarm):
            await asyncio.sleep(100)
        heard.append((lasts, now()))

    await asyncio.gather(*map(one, (30, 10, 20, 10, 40)))
    assert heard == [(10, 10), (10, 10), (20, 20), (30, 30), (40, 40)]
    assert alarm.open == {}


def test_one_policy_serves_loops_one_after_another_and_side_by_side() -> None:
    call = timeout(0.05)(Callee(seconds=60))

    async def cut(_: object = None) -> str:
        with pytest.raises(Timeout) as error:
            await asyncio.wait_for(call(Ask("x")), 30)
        return error.value.code

    def in_a_loop(_: int) -> list[str]:
        with asyncio.Runner() as runner:
            return [runner.run(cut()) for _ in range(4)]

    with asyncio.Runner(loop_factory=VirtualLoop) as first, asyncio.Runner(loop_factory=VirtualLoop) as second:
        assert [each.run(cut()) for each in (first, second, first)] == ["TIMEOUT"] * 3
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(in_a_loop, range(4))) == [["TIMEOUT"] * 4] * 4


@pytest.mark.virtual
async def test_a_limit_of_its_own_takes_its_timer_with_it() -> None:
    loop, call = asyncio.get_running_loop(), timeout(300)(Callee())
    await call(Ask("x", deadline=200))
    with Scope(100):
        await asyncio.sleep(0)
    assert [each for each in loop._scheduled if not each.cancelled()] == []  # type: ignore[attr-defined]


@pytest.mark.virtual
async def test_a_timer_that_comes_a_little_early_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    set_timer = loop.call_at
    monkeypatch.setattr(
        loop, "call_at", lambda when, callback, *given, **more: set_timer(when - 0.0004, callback, *given, **more)
    )
    with pytest.raises(TimeoutError), Scope(10, Alarm(loop)):
        await asyncio.sleep(60)
    assert now() == pytest.approx(9.9996)
