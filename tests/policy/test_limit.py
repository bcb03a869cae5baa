from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import ConfigError, Timeout
from orchestrator.policy import Ask, Incident, Limiter, LimitRules, RetryRules, Waited, layered, retry
from tests import clock
from tests.policy.callee import Callee, down, now


@pytest.mark.virtual
async def test_no_more_at_once_than_allowed() -> None:
    callee = Callee(seconds=1)
    limiter = Limiter(LimitRules(at_once=3))
    call = layered(callee, limiter)
    await asyncio.gather(*(call(Ask("x")) for _ in range(10)))
    assert (callee.most, now(), limiter.active, limiter.waiting) == (3, 4, 0, 0)


@pytest.mark.virtual
async def test_no_more_in_a_minute_than_allowed_and_no_less() -> None:
    callee = Callee()
    call = layered(callee, Limiter(LimitRules(calls=60)))
    await asyncio.gather(*(call(Ask("x")) for _ in range(180)))
    assert [callee.at.count(each) for each in (0, 60, 120)] == [60, 60, 60]


@pytest.mark.virtual
async def test_tokens_are_estimated_first_and_settled_after() -> None:
    callee = Callee()
    call = layered(callee, Limiter(LimitRules(tokens=1000), spent=lambda _: 100))
    for _ in range(9):
        await call(Ask("x", tokens=200))
    assert now() == 0
    await call(Ask("x", tokens=200))
    assert now() == 60


@pytest.mark.virtual
async def test_what_is_larger_than_the_limit_goes_alone_and_never_blocks_for_ever() -> None:
    callee = Callee()
    call = layered(callee, Limiter(LimitRules(tokens=1000)))
    await asyncio.gather(*(call(Ask("x", tokens=each)) for each in (500, 5000, 10)))
    assert callee.at == [0, 60, 120]


@pytest.mark.virtual
async def test_a_tenant_with_a_thousand_calls_delays_another_by_one_turn() -> None:
    callee, told = Callee(seconds=1), list[Incident]()
    call = layered(callee, Limiter(LimitRules(at_once=1), observe=told.append))
    crowd = [asyncio.ensure_future(call(Ask("x", run=str(i % 7), tenant="crowd"))) for i in range(1000)]
    await asyncio.sleep(0.5)
    await call(Ask("x", run="r", tenant="small"))
    assert now() <= 3
    assert next(each.seconds for each in told if isinstance(each, Waited) and each.tenant == "small") <= 1.5
    for each in crowd:
        each.cancel()
    await asyncio.gather(*crowd, return_exceptions=True)


@pytest.mark.virtual
async def test_waiting_counts_against_the_deadline() -> None:
    callee, told = Callee(seconds=100), list[Incident]()
    limiter = Limiter(LimitRules(at_once=1), "m", observe=told.append)
    call = layered(callee, limiter)
    first = asyncio.ensure_future(call(Ask("x")))
    await asyncio.sleep(0)
    with pytest.raises(Timeout, match=r"waited 30.0 s for a place at m") as error:
        await call(Ask("x", tenant="t", deadline=30))
    assert (error.value.code, now(), limiter.waiting) == ("DEADLINE", 30, 0)
    assert told == [Waited("m", "t", 30, served=False)]
    await first


@pytest.mark.virtual
async def test_a_place_given_in_the_moment_of_cancellation_goes_to_the_next() -> None:
    limiter = Limiter(LimitRules(at_once=1, tokens=1000))
    call = layered(Callee(seconds=1), limiter)

    async def first() -> None:
        await call(Ask("0", tokens=100))
        assert (limiter.active, limiter.waiting) == (1, 1), "the second has just been given the place"
        second.cancel()

    running = asyncio.ensure_future(first())
    await asyncio.sleep(0.5)
    second = asyncio.ensure_future(call(Ask("1", tokens=900)))
    third = asyncio.ensure_future(call(Ask("2", tokens=900)))
    await running
    assert await third == "2"
    assert second.cancelled()
    assert (now(), limiter.active, limiter.waiting) == (2, 0, 0)


@pytest.mark.virtual
async def test_retries_inside_one_place_are_counted_in_the_window() -> None:
    callee = Callee([down(), down()])
    call = layered(callee, Limiter(LimitRules(calls=3)), retry(RetryRules(base=0.1)))
    await call(Ask("x"))
    await call(Ask("x"))
    assert callee.at[-1] >= 60


@pytest.mark.virtual
@pytest.mark.parametrize(
    "rules", [LimitRules(calls=1, window=60), LimitRules(at_once=1, calls=1, window=1)], ids=["rate", "full"]
)
async def test_waiting_costs_no_polling(rules: LimitRules, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, timers = asyncio.get_running_loop(), list[float]()
    set_timer = loop.call_at

    def counted(when: float, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:
        timers.append(when)
        return set_timer(when, *args, **kwargs)

    monkeypatch.setattr(loop, "call_at", counted)
    call = layered(Callee(seconds=50), Limiter(rules))
    await asyncio.gather(*(call(Ask("x")) for _ in range(10)))
    assert len(timers) <= 10 + 10, "one for each call's own seconds, one for each that waited"


def test_a_limit_of_nothing_is_a_mistake_in_the_settings() -> None:
    for rules in ({"at_once": 0}, {"calls": -1}, {"window": 0}):
        with pytest.raises(ConfigError, match="write"):
            LimitRules(**rules)


ARRIVALS = st.lists(
    st.tuples(st.floats(0, 90), st.integers(0, 150), st.sampled_from("ab"), st.sampled_from([None, 0.5, 70.0])),
    max_size=40,
)


@given(ARRIVALS, st.integers(1, 6), st.integers(50, 200), st.integers(1, 4))
def test_in_no_window_more_than_allowed_and_nothing_is_left_behind(
    arrivals: list[tuple[float, int, str, float | None]], calls: int, tokens: int, at_once: int
) -> None:
    sent: list[tuple[float, int]] = []

    async def run() -> None:
        limiter = Limiter(LimitRules(at_once, calls, tokens))

        async def callee(ask: Ask[int]) -> int:
            sent.append((now(), min(ask.tokens, tokens)))
            assert limiter.active <= at_once
            await asyncio.sleep(1)
            return 0

        async def one(later: float, many: int, tenant: str, cancelled_after: float | None) -> None:
            await asyncio.sleep(later)
            task = asyncio.ensure_future(layered(callee, limiter)(Ask(0, tenant=tenant, tokens=many)))
            if cancelled_after is not None:
                asyncio.get_running_loop().call_later(cancelled_after, task.cancel)
            await asyncio.wait([task])

        await asyncio.gather(*(one(*each) for each in arrivals))
        assert (limiter.active, limiter.waiting) == (0, 0)

    clock.run(run())
    for (start, _), i in zip(sent, itertools.count(), strict=False):
        window = [each for each in sent[i:] if each[0] < start + 60 - 1e-3]
        assert len(window) <= calls
        assert sum(each[1] for each in window) <= tokens
