"""What every engine does with runs that are submitted: once, in order, to whom can drive them."""

from __future__ import annotations

import asyncio
import time

import pytest

from orchestrator.core.events import Outcome, RunEnded, RunStarted
from orchestrator.core.spec import AgentSpec, ToolSpec
from orchestrator.dispatch import Depth, DispatchRules, Job, needs_of
from orchestrator.errors import StoreError
from tests.dispatch.conftest import Place


async def test_a_submitted_run_exists_and_is_taken_once(place: Place) -> None:
    one, two = await place.worker(), await place.worker()
    assert (await place.submit(one, "r")).fresh
    assert [entry.event.kind for entry in await (await place.store()).read("r")] == ["run_started"]
    (taken,) = await place.take(two)
    assert (taken.run_id, taken.epoch) == ("r", 1)
    assert not await place.take(one)


async def test_a_key_gives_back_the_first_run_of_its_tenant(place: Place) -> None:
    one, two = await place.worker(), await place.worker()
    first = await place.submit(one, "r1", tenant="a", key="k")
    again = await place.submit(two, "r2", tenant="a", key="k")
    other = await place.submit(two, "r3", tenant="b", key="k")
    assert [(each.run_id, each.fresh) for each in (first, again, other)] == [("r1", True), ("r1", False), ("r3", True)]
    assert await (await place.store()).read("r2") == ()
    assert await place.names(one) == ["r1", "r3"]


async def test_a_key_outlives_its_run(place: Place) -> None:
    one = await place.worker()
    await place.submit(one, "r1", key="k")
    (taken,) = await place.take(one)
    await (await place.store()).append("r1", 1, [RunEnded(Outcome.ANSWERED, "a")], at=place.now, epoch=taken.epoch)
    await one.done(taken)
    assert await place.submit(one, "r2", key="k") == await place.submit(one, "r3", key="k")
    assert await place.names(one) == []


async def test_of_many_submissions_of_one_key_at_once_one_is_fresh(place: Place) -> None:
    workers = [await place.worker(), await place.worker()]
    said = await asyncio.gather(*(place.submit(workers[n % 2], f"r{n}", key="k") for n in range(10)))
    assert sum(each.fresh for each in said) == 1
    assert len({each.run_id for each in said}) == 1
    assert await place.names(workers[0]) == [said[0].run_id]


async def test_a_submission_that_fails_leaves_neither_run_nor_ticket(place: Place) -> None:
    one = await place.worker()
    await place.submit(one, "r")
    with pytest.raises(StoreError):
        await place.submit(one, "r")
    with pytest.raises(StoreError):
        await place.submit(one, "x" * 500, key="free")
    assert (await place.submit(one, "y", key="free")).fresh
    assert await place.names(one) == ["r", "y"]


async def test_a_trace_that_exists_already_queues_nothing(place: Place) -> None:
    one = await place.worker()
    await (await place.store()).append("r", 0, [RunStarted("goal"), RunEnded(Outcome.ANSWERED, "a")], at=place.now)
    with pytest.raises(StoreError):
        await place.submit(one, "r", key="k")
    assert await place.names(one) == []
    assert (await place.submit(one, "s", key="k")).fresh


async def test_priority_goes_before_age(place: Place) -> None:
    one = await place.worker()
    for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5), ("e", -1)):
        await place.submit(one, name, priority=priority)
    assert await place.names(one, 3) == ["b", "d", "a"]
    assert await place.names(one) == ["c", "e"]


async def test_a_delayed_run_waits_for_its_time(place: Place) -> None:
    one = await place.worker()
    await place.submit(one, "later", at=place.now + 60)
    await place.submit(one, "past", at=place.now - 60)
    assert await place.names(one) == ["past"]
    assert (await one.depth(now=place.now)).scheduled == 1
    await place.pass_time(61)
    assert await place.names(one) == ["later"]


async def test_take_waits_until_a_delayed_run_is_due(place: Place) -> None:
    one = await place.worker()
    place.now = time.time()
    due = place.now + 0.2
    await place.submit(one, "soon", at=due)
    assert [each.run_id for each in await place.take(one, wait=20)] == ["soon"]
    assert time.time() >= due


async def test_take_returns_when_another_process_submits(place: Place) -> None:
    one, two = await place.worker(), await place.worker()
    taking = asyncio.create_task(place.take(one, wait=20))
    await asyncio.sleep(0)
    await place.submit(two, "r")
    assert [each.run_id for each in await taking] == ["r"]


async def test_a_take_that_is_cancelled_takes_nothing(place: Place) -> None:
    one, two = await place.worker(), await place.worker()
    await place.submit(one, "r")
    taking = asyncio.create_task(place.take(one))
    await asyncio.sleep(0)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert [each.run_id for each in await place.take(two, wait=20)] == ["r"]


async def test_a_tenant_never_holds_more_than_its_limit_over_all_workers(place: Place) -> None:
    rules = DispatchRules(tenant_limit=2, tenant_limits={"big": 3, "none": 0})
    one, two = await place.worker(rules), await place.worker(rules)
    for n in range(4):
        await place.submit(one, f"s{n}", tenant="small")
        await place.submit(one, f"b{n}", tenant="big")
        await place.submit(one, f"n{n}", tenant="none", priority=9)
    (first,) = await place.take(one)
    rest = await place.take(two, 20)
    assert [first.run_id, *(each.run_id for each in rest)] == ["s0", "b0", "s1", "b1", "b2"]
    assert not await place.take(one, 20)
    await one.done(first)
    assert await place.names(two) == ["s2"]
    await two.park(rest[0], place.now + 60)
    assert await place.names(one) == ["b3"]


async def test_workers_that_claim_at_once_respect_the_limit(place: Place) -> None:
    rules = DispatchRules(tenant_limit=3)
    workers = [await place.worker(rules) for _ in range(3)]
    for n in range(12):
        await place.submit(workers[0], f"r{n}", tenant="t")
    taken = await asyncio.gather(*(place.take(worker, 2) for worker in workers * 2))
    assert sum(map(len, taken)) == 3


async def test_a_run_is_left_for_a_worker_that_has_what_it_needs(place: Place) -> None:
    one, two = await place.worker(), await place.worker()
    await place.submit(one, "plain")
    await place.submit(one, "new", needs=frozenset({"agent:a@2", "tool:t@1"}), priority=1)
    await place.submit(one, "old", needs=frozenset({"agent:a@1"}))
    assert await place.names(one, has=frozenset({"agent:a@1", "tool:t@1"})) == ["plain", "old"]
    assert await place.names(two, has=frozenset({"agent:a@2", "tool:t@1", "tool:u@1"})) == ["new"]


def test_the_needs_of_a_run_are_the_versions_and_all_models_in_its_first_event() -> None:
    first = RunStarted("g", AgentSpec("a", "2", ("big", "small")), tools=(ToolSpec("t", "d", {}, version="3"),))
    assert needs_of(first) == {"agent:a@2", "model:big", "model:small", "tool:t@3"}


async def test_what_the_workers_lack_of_a_run_is_told_by_the_one_that_has_most_of_it(place: Place) -> None:
    one, two = await place.worker(), await place.worker()
    await place.submit(one, "r", needs=frozenset({"agent:a@1", "model:openai"}))
    assert await one.lacks("r", now=place.now) is None, "no worker is alive"
    assert not await place.names(one, has=frozenset({"model:main"}))
    assert await two.lacks("r", now=place.now) == frozenset({"agent:a@1", "model:openai"})
    assert not await place.names(two, has=frozenset({"agent:a@1", "model:main"}))
    assert await one.lacks("r", now=place.now) == frozenset({"model:openai"})
    assert not await place.names(two, has=frozenset({"tool:t@1"}))
    assert await one.lacks("r", now=place.now) == frozenset({"agent:a@1", "model:openai"}), (
        "what a worker has may change"
    )
    (taken,) = await place.take(two, has=frozenset({"agent:a@1", "model:openai"}))
    assert await one.lacks("r", now=place.now) == frozenset(), "it is held"
    await two.release(taken)
    assert await one.lacks("r", now=place.now) == frozenset(), "one may take it"
    await two.close()
    assert await one.lacks("r", now=place.now) == frozenset({"agent:a@1", "model:openai"})


async def test_a_worker_that_was_taken_for_dead_says_anew_what_it_has(place: Place) -> None:
    one, two = await place.worker(), await place.worker()
    has = frozenset({"model:main"})
    await place.submit(one, "r", needs=frozenset({"model:openai"}))
    assert not await place.names(one, has=has)
    await place.pass_time(30, silent=(one, two))
    await two.sweep(now=place.now)
    assert await two.lacks("r", now=place.now) is None
    assert not await one.beat(now=place.now)
    assert await one.beat(now=place.now)
    assert not await place.names(one, has=has)
    assert await two.lacks("r", now=place.now) == frozenset({"model:openai"})


async def test_nothing_is_lacking_of_a_run_that_is_not_due(place: Place) -> None:
    one = await place.worker()
    needs = frozenset({"model:openai"})
    await place.submit(one, "later", needs=needs, at=place.now + 20)
    await place.submit(one, "parked", needs=needs)
    (taken,) = await place.take(one, has=needs)
    await one.park(taken, place.now + 20)
    assert not await place.names(one, has=frozenset())
    for run_id in ("later", "parked", "unknown"):
        assert await one.lacks(run_id, now=place.now) == frozenset()
    await place.pass_time(25)
    for run_id in ("later", "parked"):
        assert await one.lacks(run_id, now=place.now) == needs


async def test_a_run_whose_needs_name_no_model_is_taken_as_before(place: Place) -> None:
    one = await place.worker()
    await place.submit(one, "old", needs=frozenset({"agent:default@1"}))
    assert await place.names(one, has=frozenset({"agent:default@1", "model:main"})) == ["old"]


async def test_hostile_names_are_just_names(place: Place) -> None:
    one = await place.worker()
    odd = "a'; DROP TABLE runs; -- \0 \ud800 {}%s " + "x" * 5000
    job = Job("r", tenant=odd, key=odd, needs=frozenset({odd}))
    assert (await one.submit(job, RunStarted("g", tenant=odd), now=place.now)).fresh
    assert not (await one.submit(job, RunStarted("g", tenant=odd), now=place.now)).fresh
    (taken,) = await place.take(one, has=frozenset({odd}))
    await one.done(taken)


async def test_depth_counts_runs_and_tells_the_greatest_age(place: Place) -> None:
    one = await place.worker(DispatchRules(tenant_limit=9))
    assert await one.depth(now=place.now) == Depth()
    for n in range(5):
        await place.submit(one, f"r{n}")
    await place.submit(one, "later", at=place.now + 500)
    held, parked, asked, overdue = await place.take(one, 4)
    await one.beat(now=place.now)
    await one.park(parked, place.now + 500)
    await one.park(asked, place.now + 500, approval=True)
    await one.park(overdue, place.now + 10)
    before = await one.depth(now=place.now)
    assert (before.queued, before.scheduled, before.running, before.waiting, before.approvals, before.workers) == (
        1, 1, 1, 3, 1, 1,
    )  # fmt: skip
    await place.pass_time(30)
    after = await one.depth(now=place.now)
    assert (after.queued, after.scheduled, after.running, after.waiting, after.workers) == (2, 1, 1, 2, 1)
    assert 29 <= after.oldest <= 32
    assert held.run_id == "r0"
