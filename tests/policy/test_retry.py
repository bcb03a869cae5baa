from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import (
    CallError,
    CircuitOpen,
    ConfigError,
    ContextOverflow,
    RateLimited,
    Rejected,
    Timeout,
    Unauthorised,
    Unavailable,
)
from orchestrator.policy import (
    ONCE,
    Ask,
    Incident,
    RetriesEnded,
    RetryBudget,
    Retrying,
    RetryRules,
    layered,
    retry,
    spread,
)
from tests import clock
from tests.policy.callee import Callee, busy, down, now


def full() -> float:
    return 0.999999


@pytest.mark.virtual
async def test_what_may_pass_is_tried_again_and_recorded() -> None:
    callee, ask, told = Callee([down(), busy()]), Ask("x"), list[Incident]()
    assert await layered(callee, retry(target="m", draw=lambda: 0.5, observe=told.append))(ask) == "x"
    assert callee.at == [0, 0.25, 0.75]
    assert [(each.target, each.code) for each in ask.attempts] == [("m", "UNAVAILABLE"), ("m", "RATE_LIMITED")]
    assert told == [Retrying("m", 1, "UNAVAILABLE", 0.0, 0.25), Retrying("m", 2, "RATE_LIMITED", 0.0, 0.5)]


@pytest.mark.virtual
@pytest.mark.parametrize(
    "error",
    [
        Rejected("BAD_REQUEST", "400", status=400),
        Unauthorised("UNAUTHORISED", "401", status=401),
        Unauthorised("INSUFFICIENT_QUOTA", "no balance", status=429),
        Rejected("NOT_FOUND", "404", status=404),
        ContextOverflow("CONTEXT_OVERFLOW", "too long", status=400),
        Timeout("DEADLINE", "the run's"),
        CircuitOpen("CIRCUIT_OPEN", "ours", retry_after=1),
        ValueError("a bug"),
    ],
    ids=lambda error: getattr(error, "code", "bug"),
)
async def test_what_cannot_pass_is_asked_once(error: Exception) -> None:
    callee, ask = Callee([error] * 9), Ask("x")
    with pytest.raises(type(error)):
        await layered(callee, retry())(ask)
    assert len(callee.at) == 1
    assert len(ask.attempts) == isinstance(error, CallError)


@pytest.mark.virtual
async def test_a_tool_that_is_not_repeatable_is_tried_once_and_that_is_recorded() -> None:
    callee, ask = Callee([down()] * 9), Ask("x")
    with pytest.raises(Unavailable):
        await layered(callee, retry(ONCE))(ask)
    assert (len(callee.at), len(ask.attempts)) == (1, 1)


@pytest.mark.virtual
async def test_attempts_have_a_cap_and_all_are_recorded_on_failure() -> None:
    callee, ask, told = Callee([down()] * 9), Ask("x"), list[Incident]()
    with pytest.raises(Unavailable):
        await layered(callee, retry(RetryRules(attempts=3), "m", observe=told.append))(ask)
    assert len(callee.at) == len(ask.attempts) == 3
    assert told[-1] == RetriesEnded("m", 3, "UNAVAILABLE", "attempts")


@pytest.mark.virtual
async def test_total_time_has_a_cap_on_the_loops_clock() -> None:
    callee = Callee([down()] * 99, seconds=25)
    with pytest.raises(Unavailable):
        await layered(callee, retry(RetryRules(attempts=99, total=60), draw=full))(Ask("x"))
    assert callee.at[-1] < 60
    assert len(callee.at) == 3


@pytest.mark.virtual
async def test_retry_after_is_a_floor() -> None:
    callee = Callee([busy(7.0)])
    await layered(callee, retry(draw=lambda: 0.0))(Ask("x"))
    assert callee.at == [0, 7]


@pytest.mark.virtual
@pytest.mark.parametrize("after", [30.0, 31.0, math.inf, 1e300])
async def test_a_retry_after_that_does_not_fit_fails_early(after: float) -> None:
    callee, told = Callee([busy(after)]), list[Incident]()
    with pytest.raises(RateLimited) as error:
        await layered(callee, retry(observe=told.append))(Ask("x", deadline=30))
    assert (now(), error.value.code, error.value.retry_after) == (0, "RATE_LIMITED", after)
    assert isinstance(told[0], RetriesEnded)
    assert told[0].why == "time"


@pytest.mark.virtual
@pytest.mark.parametrize("after", [math.nan, -5.0, 0.0])
async def test_a_senseless_retry_after_is_none(after: float) -> None:
    callee = Callee([busy(after)])
    await layered(callee, retry(draw=lambda: 0.5))(Ask("x"))
    assert callee.at == [0, 0.25]


@pytest.mark.virtual
@pytest.mark.parametrize("after", [None, 4.0])
async def test_ten_runs_do_not_come_back_in_lockstep(after: float | None) -> None:
    seconds: list[float] = []
    rules = RetryRules(base=8.0)
    policy = retry(rules)

    async def one() -> None:
        callee = Callee([busy(after)])
        await layered(callee, policy)(Ask("x"))
        seconds.append(callee.at[1])

    await asyncio.gather(*(one() for _ in range(10)))
    assert max(seconds) - min(seconds) >= 0.5 * (after or rules.backoff(1))


@pytest.mark.virtual
async def test_ten_runs_against_a_404_ask_once_each() -> None:
    callee = Callee(does=lambda: Rejected("NOT_FOUND", "404", status=404))
    call = layered(callee, retry())
    results = await asyncio.gather(*(call(Ask("x")) for _ in range(10)), return_exceptions=True)
    assert all(isinstance(each, Rejected) for each in results)
    assert len(callee.at) == 10


@pytest.mark.virtual
@pytest.mark.parametrize("moment", [5, 15], ids=["during the call", "during the back-off"])
async def test_cancellation_is_never_retried(moment: float) -> None:
    callee = Callee([down()] * 9, seconds=10)
    call = layered(callee, retry(draw=full, rules=RetryRules(base=20)))

    async def run() -> str:
        return await call(Ask("x"))

    task = asyncio.create_task(run())
    await asyncio.sleep(moment)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (now(), len(callee.at), callee.busy) == (moment, 1, 0)


@pytest.mark.virtual
async def test_a_listener_is_told_to_discard_before_each_further_try() -> None:
    heard: list[str] = []
    callee = Callee([down(), down()])
    await layered(callee, retry())(Ask("x", discard=lambda: heard.append("discard")))
    assert heard == ["discard", "discard"]


@pytest.mark.virtual
async def test_an_outage_is_not_multiplied() -> None:
    budget = RetryBudget(ratio=0.1, floor=10)
    callee = Callee(does=down)
    call = layered(callee, retry(budget=budget))
    for _ in range(1000):
        with pytest.raises(Unavailable):
            await call(Ask("x"))
    minutes = now() / 60
    assert len(callee.at) - 1000 <= 0.1 * 1000 + 10 * minutes + 20
    assert len(callee.at) < 4 * 1000 / 2


@pytest.mark.virtual
async def test_a_few_failures_among_few_calls_are_within_the_budget() -> None:
    callee = Callee([down(), down()])
    assert await layered(callee, retry(budget=RetryBudget()))(Ask("x")) == "x"


@pytest.mark.virtual
async def test_a_model_without_a_stand_in_waits_for_its_breaker() -> None:
    callee = Callee([CircuitOpen("CIRCUIT_OPEN", "", retry_after=9)] * 6)
    call = layered(callee, retry(RetryRules(attempts=2, waits_for_breaker=True), budget=RetryBudget(0, 1)))
    assert await call(Ask("x")) == "x"
    assert callee.at[-1] >= 54


@pytest.mark.virtual
async def test_without_a_stand_in_a_spent_budget_is_waited_for() -> None:
    """A hundred are refused for half a minute, without a breaker: no try is made before it is paid for, and nobody gives up.
    Once the callee is well each success pays for the next one."""
    told = list[Incident]()
    callee = Callee(does=lambda: busy() if now() < 30 else "back")
    rules = RetryRules(attempts=20, waits_for_breaker=True)
    call = layered(callee, retry(rules, budget=RetryBudget(ratio=0, floor=10), observe=told.append))
    assert await asyncio.gather(*(call(Ask("x")) for _ in range(100))) == ["back"] * 100
    during = sum(at < 30 for at in callee.at)
    assert 100 < during <= 100 + 10 + 5
    assert len(callee.at) == during + 100
    assert not [each for each in told if isinstance(each, RetriesEnded)]


@pytest.mark.virtual
@pytest.mark.parametrize(("total", "deadline"), [(30, 600), (600, 30)])
async def test_a_spent_budget_is_waited_for_only_as_long_as_there_is_time(total: float, deadline: float) -> None:
    told, ask = list[Incident](), Ask("x", deadline=deadline)
    callee = Callee(does=busy)
    rules = RetryRules(total=total, waits_for_breaker=True)
    with pytest.raises(RateLimited):
        await layered(callee, retry(rules, budget=RetryBudget(ratio=0, floor=1), observe=told.append))(ask)
    assert (len(callee.at), len(ask.attempts)) == (2, 2)
    assert now() <= 30
    assert [each.why for each in told if isinstance(each, RetriesEnded)] == ["budget"]


@pytest.mark.virtual
async def test_what_a_breaker_holds_back_is_not_paid_for() -> None:
    """While it is open it sends probes only, so the budget is kept for when the callee is back."""
    budget = RetryBudget(ratio=0, floor=1)
    callee = Callee([down(), down(), down()])
    rules = RetryRules(attempts=9, total=600, waits_for_breaker=True)
    assert await layered(callee, retry(rules, budget=budget, barred=lambda: True))(Ask("x")) == "x"
    assert len(callee.at) == 4
    assert budget.spend(now())


@given(st.floats(0, 1, exclude_max=True), st.integers(2, 200))
def test_a_spread_has_no_clumps(start: float, many: int) -> None:
    draw = spread(start)
    drawn = sorted(draw() for _ in range(many))
    assert all(0 <= each < 1 for each in drawn)
    assert max(b - a for a, b in zip([0.0, *drawn], [*drawn, 1.0], strict=True)) <= 3 / many


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 100)), max_size=40), st.floats(0, 1), st.floats(0.1, 50))
def test_a_retry_budget_never_pays_more_than_it_earned(
    steps: list[tuple[int, float]], ratio: float, floor: float
) -> None:
    budget, calls, paid, at = RetryBudget(ratio, floor), 0, 0, 0.0
    for many, later in steps:
        at += later
        for number in range(many):
            budget.called()
            calls += 1
            spent = budget.spend(at)
            paid += spent
            if spent and number % 3 == 0:  # it succeeded
                budget.repaid()
                paid -= 1
        assert paid <= max(floor, 1) + ratio * calls + floor * at / 60 + 1e-6


@given(st.lists(st.sampled_from(["ok", "down", "busy"]), min_size=1, max_size=8), st.floats(1, 200), st.floats(0, 40))
def test_every_call_ends_in_time_and_every_failed_try_is_recorded(
    script: list[str], total: float, after: float
) -> None:
    async def run() -> None:
        kinds: dict[str, object] = {"ok": "x", "down": down(), "busy": busy(after)}
        callee, ask = Callee([kinds[each] for each in script]), Ask("x")
        try:
            await layered(callee, retry(RetryRules(total=total)))(ask)
            failures = len(callee.at) - 1
        except CallError:
            failures = len(callee.at)
        assert len(ask.attempts) == failures
        assert now() <= total

    clock.run(run())


def test_rules_that_make_no_sense_are_refused() -> None:
    for make in (lambda: RetryRules(attempts=0), lambda: RetryRules(base=9, cap=1), lambda: RetryBudget(floor=0)):
        with pytest.raises(ConfigError, match="write"):
            make()
