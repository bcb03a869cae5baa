"""The whole stack on the virtual clock: an outage, its end, and what the callee and the runs saw of it."""

from __future__ import annotations

import asyncio

import pytest

from orchestrator.errors import CallError, Timeout
from orchestrator.policy import (
    ONCE,
    Ask,
    BreakerMoved,
    BreakerRules,
    Incident,
    LimitRules,
    RetryRules,
    Rules,
    fallback,
    guard,
)
from tests.policy.callee import Callee, busy, down, now

pytestmark = pytest.mark.virtual


async def test_an_outage_of_ten_minutes_costs_no_run_its_answer_when_there_is_a_second_model() -> None:
    first, second, told = Callee(does=lambda: down() if now() < 600 else None), Callee(seconds=1), list[Incident]()
    one = guard(first, "first", observe=told.append)
    two = guard(second, "second")
    chain = fallback([("first", one.call), ("second", two.call)], observe=told.append)
    calls = 0
    while now() < 1200:
        assert await chain(Ask("x")) is not None
        calls += 1
        await asyncio.sleep(1)
    during = [each for each in first.at if each < 600]
    after = [each for each in first.at if each >= 600]
    assert len(during) < 40, "the breaker kept the dead endpoint almost silent"
    assert after[0] < 600 + 120 + 2, "and found it back within its longest rest"
    assert len(after) > 400
    moves = [(each.before, each.after) for each in told if isinstance(each, BreakerMoved)]
    assert moves[0] == ("closed", "open")
    assert moves[-1] == ("half_open", "closed")


async def test_a_lone_model_is_waited_for() -> None:
    callee = Callee(does=lambda: down() if now() < 45 else "back")
    rules = Rules(retry=RetryRules(attempts=10, total=300, waits_for_breaker=True))
    ask = Ask("x", deadline=600)
    assert await guard(callee, "only", rules).call(ask) == "back"
    assert 45 <= now() < 120
    assert {each.code for each in ask.attempts} == {"UNAVAILABLE", "CIRCUIT_OPEN"}


async def test_the_timeout_is_for_each_try_and_the_breaker_counts_tries() -> None:
    callee = Callee(seconds=100)
    rules = Rules(timeout=10, retry=RetryRules(attempts=3), breaker=BreakerRules(row=3))
    stack = guard(callee, "m", rules)
    ask = Ask("x")
    with pytest.raises(Timeout):
        await stack.call(ask)
    assert [(each.code, each.seconds) for each in ask.attempts] == [("TIMEOUT", 10)] * 3
    assert stack.breaker is not None
    assert stack.breaker.back_in(now()) == pytest.approx(10)


async def test_a_payment_that_timed_out_is_not_made_again() -> None:
    paid = 0

    async def pay(ask: Ask[str]) -> str:
        nonlocal paid
        paid += 1
        await asyncio.sleep(3600)
        return "receipt"

    ask = Ask("x")
    with pytest.raises(Timeout, match="what it did is not known"):
        await guard(pay, "pay", Rules(timeout=5, retry=ONCE)).call(ask)
    assert (paid, len(ask.attempts)) == (1, 1)


async def test_all_tries_of_one_call_bear_the_same_input() -> None:
    keys: list[str] = []
    callee = Callee([down(), down()])

    async def tool(ask: Ask[str]) -> str:
        keys.append(ask.input)
        return await callee(ask)

    await guard(tool, "tool").call(Ask("run-1/1.0"))
    assert keys == ["run-1/1.0"] * 3


async def test_a_hundred_runs_of_two_tenants_under_rate_limits_and_429_all_end() -> None:
    served = 0

    def answer() -> object:
        nonlocal served
        served += 1
        return busy(2.0) if served % 10 == 0 else "ok"

    callee = Callee(does=answer, seconds=0.5)
    rules = Rules(limit=LimitRules(at_once=8, calls=60, tokens=60_000))
    stack = guard(callee, "m", rules)
    asks = [Ask("x", run=str(i), tenant="ab"[i % 2], tokens=1000, deadline=3600) for i in range(100)]
    assert await asyncio.gather(*(stack.call(each) for each in asks)) == ["ok"] * 100
    assert callee.most <= 8
    assert now() < 180


async def test_cancelling_everything_leaves_nothing_behind() -> None:
    callee = Callee(does=down, seconds=3)
    stack = guard(callee, "m", Rules(limit=LimitRules(at_once=2, calls=10)))
    tasks = [asyncio.ensure_future(stack.call(Ask("x", run=str(i)))) for i in range(40)]
    await asyncio.sleep(7)
    for each in tasks:
        each.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError | CallError) for each in results)
    assert stack.limiter is not None
    assert (now(), callee.busy, stack.limiter.active, stack.limiter.waiting) == (7, 0, 0, 0)
