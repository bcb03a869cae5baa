from __future__ import annotations

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import CallError, CircuitOpen, ConfigError, RateLimited, Rejected, Timeout, Unavailable
from orchestrator.policy import Ask, Breaker, BreakerMoved, BreakerRules, Incident, Phase, layered
from orchestrator.policy.breaker import Closed, HalfOpen, Open, State, admit, released, stumbled, succeeded
from tests.policy.callee import Callee, busy, down, now

RULES = BreakerRules(row=3, rest=10)


async def fails(call: object, times: int, error: type[Exception] = Unavailable) -> None:
    for _ in range(times):
        with pytest.raises(error):
            await call(Ask("x"))  # type: ignore[operator]


@pytest.mark.virtual
async def test_failures_in_a_row_open_it_and_then_nothing_is_sent() -> None:
    callee, told = Callee(does=down), list[Incident]()
    breaker = Breaker(RULES, "m", observe=told.append)
    call = layered(callee, breaker)
    await fails(call, 3)
    await asyncio.sleep(4)
    with pytest.raises(CircuitOpen, match="m keeps failing") as error:
        await call(Ask("x"))
    assert (len(callee.at), error.value.retry_after, error.value.code) == (3, 6, "CIRCUIT_OPEN")
    assert breaker.back_in(now()) == 6
    assert told == [BreakerMoved("m", "closed", "open", 0)]


@pytest.mark.virtual
@pytest.mark.parametrize(
    "error",
    [
        Rejected("BAD_REQUEST", "400"),
        busy(),
        Timeout("DEADLINE", "the run's"),
        Unavailable("POOL_FULL", "our own connections are all in use"),
        ValueError("a bug of ours"),
    ],
    ids=lambda error: getattr(error, "code", "bug"),
)
async def test_what_is_not_the_callees_failure_does_not_trip_it(error: Exception) -> None:
    callee = Callee(does=lambda: error)
    breaker = Breaker(RULES)
    await fails(layered(callee, breaker), 50, type(error))
    assert breaker.phase is Phase.CLOSED


@pytest.mark.virtual
async def test_a_refusal_between_failures_shows_that_the_callee_lives() -> None:
    breaker = Breaker(RULES)
    callee = Callee([down(), down(), Rejected("BAD_REQUEST", "400"), down(), down()])
    await fails(layered(callee, breaker), 5, CallError)
    assert breaker.phase is Phase.CLOSED


@pytest.mark.virtual
async def test_a_share_of_failures_opens_it_though_never_in_a_row() -> None:
    breaker = Breaker(BreakerRules(row=5, ratio=0.5, minimum=20))
    callee = Callee([down(), "ok"] * 9 + [down()])
    call = layered(callee, breaker)
    for _ in range(19):
        with contextlib.suppress(Unavailable):
            await call(Ask("x"))
    assert breaker.back_in(now()) == 0
    callee.script = [down()]
    await fails(call, 1)
    assert breaker.back_in(now()) == 10


@pytest.mark.virtual
async def test_failures_of_an_hour_ago_are_forgotten() -> None:
    breaker = Breaker(BreakerRules(row=99, ratio=0.5, minimum=4, window=60))
    callee = Callee([down(), down(), down(), "ok", "ok", "ok", down()])
    call = layered(callee, breaker)
    await fails(call, 3)
    await asyncio.sleep(3600)
    for _ in range(3):
        await call(Ask("x"))
    await fails(call, 1)
    assert breaker.phase is Phase.CLOSED


@pytest.mark.virtual
@pytest.mark.parametrize("probes", [1, 3])
async def test_of_a_hundred_waiting_calls_exactly_the_probes_go_through(probes: int) -> None:
    callee = Callee(does=down)
    breaker = Breaker(BreakerRules(row=3, rest=10, probes=probes))
    call = layered(callee, breaker)
    await fails(call, 3)
    await asyncio.sleep(10)
    callee.does, callee.seconds = None, 1
    results = await asyncio.gather(*(call(Ask("x")) for _ in range(100)), return_exceptions=True)
    assert len(callee.at) == 3 + probes
    assert results.count("x") == probes
    assert all(each.retry_after == 1 for each in results if isinstance(each, CircuitOpen))
    assert breaker.phase is Phase.CLOSED


@pytest.mark.virtual
async def test_a_failed_probe_reopens_for_twice_as_long() -> None:
    callee = Callee(does=down)
    breaker = Breaker(RULES)
    call = layered(callee, breaker)
    await fails(call, 3)
    await asyncio.sleep(10)
    await fails(call, 1)
    assert (breaker.phase, breaker.back_in(now())) == (Phase.OPEN, 20)


@pytest.mark.virtual
async def test_a_cancelled_probe_frees_its_place() -> None:
    callee = Callee(does=down)
    breaker = Breaker(RULES)
    call = layered(callee, breaker)
    await fails(call, 3)
    await asyncio.sleep(10)
    callee.does, callee.seconds = None, 5
    probe = asyncio.ensure_future(call(Ask("x")))
    await asyncio.sleep(1)
    await fails(call, 1, CircuitOpen)
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    assert str(breaker.phase) == "half_open"
    assert await call(Ask("x")) == "x"
    assert breaker.phase is Phase.CLOSED


@pytest.mark.virtual
async def test_a_rate_limited_probe_closes_it_for_the_callee_is_alive() -> None:
    breaker = Breaker(RULES)
    callee = Callee([down(), down(), down(), busy()])
    call = layered(callee, breaker)
    await fails(call, 3)
    await asyncio.sleep(10)
    await fails(call, 1, RateLimited)
    assert breaker.phase is Phase.CLOSED


def test_a_probe_that_has_passed_still_counts_among_the_probes() -> None:
    rules = BreakerRules(probes=3)
    state: State = HalfOpen(epoch=4, times=1, out=3)
    state = succeeded(state, 4, 0.0, rules)
    assert admit(state, 0.0, rules) == (state, 1.0)


def test_a_straggler_from_before_neither_closes_nor_opens_what_came_after() -> None:
    half = HalfOpen(epoch=4, times=1, out=1)
    for verdict in (succeeded, stumbled, released):
        assert verdict(half, 2, 100.0, RULES) == half
        assert verdict(Open(3, 100.0), 2, 90.0, RULES) == Open(3, 100.0)


def test_rules_that_would_keep_it_open_for_ever_are_refused() -> None:
    for rules in ({"probes": 0}, {"ratio": 0.0}, {"rest": 0.0}, {"window": 0.0}):
        with pytest.raises(ConfigError, match="write"):
            BreakerRules(**rules)


MOVES = st.lists(
    st.tuples(st.sampled_from(["ask", "ok", "bad", "gone"]), st.floats(0, 30), st.integers(0, 9)), max_size=80
)


@given(MOVES, st.integers(1, 3))
def test_never_more_probes_than_allowed_and_never_shut_for_ever(
    moves: list[tuple[str, float, int]], probes: int
) -> None:
    rules = BreakerRules(row=2, minimum=5, rest=10, longest=40, probes=probes)
    verdicts = {"ok": succeeded, "bad": stumbled, "gone": released}
    state: State = Closed()
    running: list[int] = []
    at = 0.0
    for kind, later, which in moves:
        at += later
        if kind == "ask":
            state, wait = admit(state, at, rules)
            assert wait is None or 0 < wait <= 40
            running += [state.epoch] if wait is None else []
        elif running:
            state = verdicts[kind](state, running.pop(which % len(running)), at, rules)
        if isinstance(state, HalfOpen):
            probing = running.count(state.epoch)
            assert state.out == probing
            assert probing + state.passed <= probes
    for epoch in running:
        state = released(state, epoch, at, rules)
    assert admit(state, at + 40, rules)[1] is None
