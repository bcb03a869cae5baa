"""What every engine does with claims: one holder, fenced by its epoch; let go, swept, woken, healed."""

from __future__ import annotations

import asyncio

import pytest

from orchestrator.core.events import ActionStarted, Outcome, RunEnded, RunStarted
from orchestrator.dispatch import Slice, needs_of
from orchestrator.errors import Conflict
from tests.dispatch.conftest import Place


async def test_each_claim_has_a_higher_epoch_and_fences_off_the_one_before(place: Place) -> None:
    one, two = await place.worker(), await place.worker()
    store = await place.store()
    await place.submit(one, "r")
    (old,) = await place.take(one)
    await one.release(old)
    (new,) = await place.take(two)
    assert new.epoch > old.epoch
    with pytest.raises(Conflict):
        await store.append("r", 1, [ActionStarted("1.0")], at=place.now, epoch=old.epoch)
    await store.append("r", 1, [ActionStarted("1.0")], at=place.now, epoch=new.epoch)


async def test_a_released_run_is_taken_at_once_and_keeps_its_place(place: Place) -> None:
    one, two = await place.worker(), await place.worker()
    for name in "abc":
        await place.submit(one, name)
    (taken,) = await place.take(one)
    taking = asyncio.create_task(place.take(two, 3, wait=20))
    assert [each.run_id for each in await taking] == ["b", "c"]
    taking = asyncio.create_task(place.take(two, 3, wait=20))
    await one.release(taken)
    assert [each.run_id for each in await taking] == ["a"]


async def test_done_ends_it(place: Place) -> None:
    one = await place.worker()
    await place.submit(one, "r")
    (taken,) = await place.take(one)
    await (await place.store()).append("r", 1, [RunEnded(Outcome.ANSWERED, "a")], at=place.now, epoch=taken.epoch)
    await one.done(taken)
    await one.done(taken)
    await one.release(taken)
    await place.pass_time(1000)
    assert await one.reconcile(now=place.now) == 0
    assert await place.names(one) == []


async def test_a_parked_run_comes_back_at_its_time(place: Place) -> None:
    one = await place.worker()
    await place.submit(one, "r")
    (taken,) = await place.take(one)
    await one.park(taken, place.now + 60)
    assert not await place.take(one)
    await place.pass_time(61)
    (again,) = await place.take(one)
    assert again.epoch > taken.epoch


async def test_a_parked_run_comes_back_when_woken(place: Place) -> None:
    one, two = await place.worker(), await place.worker()
    await place.submit(one, "r")
    (taken,) = await place.take(one)
    await one.park(taken, place.now + 3600, approval=True)
    taking = asyncio.create_task(place.take(two, wait=20))
    await asyncio.sleep(0)
    await one.wake("r", now=place.now)
    assert [each.run_id for each in await taking] == ["r"]
    assert (await one.depth(now=place.now)).approvals == 0


async def test_a_wake_before_the_park_is_not_lost(place: Place) -> None:
    one, two = await place.worker(), await place.worker()
    await place.submit(one, "r")
    (taken,) = await place.take(one)
    await two.wake("r", now=place.now)
    await one.park(taken, place.now + 3600)
    assert await place.names(two) == ["r"]


async def test_a_wake_of_a_held_run_nudges_its_driver_once(place: Place) -> None:
    one, two = await place.worker(), await place.worker()
    for name in "rs":
        await place.submit(one, name)
    (taken, _) = await place.take(one, 2)
    assert await one.nudged(["r", "s"]) == frozenset()
    await two.wake("r", now=place.now)
    heard: frozenset[str] = frozenset()
    async with asyncio.timeout(20):
        while not heard:
            heard = await one.nudged(["r", "s"])
    assert heard == {"r"}
    assert await one.nudged(["r", "s"]) == frozenset()
    await one.park(taken, place.now + 3600)
    assert not await place.take(two)


async def test_a_scheduled_run_that_is_woken_is_driven_soon(place: Place) -> None:
    one = await place.worker()
    await place.submit(one, "r", at=place.now + 3600)
    await one.wake("r", now=place.now)
    await one.wake("r", now=place.now)
    await one.wake("unknown", now=place.now)
    assert await place.names(one) == ["r"]


async def test_a_dead_workers_runs_are_put_back_after_its_lease(place: Place) -> None:
    dead, alive = await place.worker(), await place.worker()
    for name in "abc":
        await place.submit(dead, name)
    await place.take(dead, 2)
    await place.take(alive)
    await place.pass_time(9, silent=[dead])
    assert await alive.sweep(now=place.now) == 0
    await place.pass_time(3, silent=[dead])
    assert await alive.sweep(now=place.now) == 2
    assert await alive.sweep(now=place.now) == 0
    assert await place.names(alive) == ["a", "b"]


async def test_a_thawed_worker_changes_nothing(place: Place) -> None:
    frozen, alive = await place.worker(), await place.worker()
    store = await place.store()
    names = ["a", "b", "c"]
    for name in names:
        await place.submit(frozen, name)
    old = await place.take(frozen, 3)
    await place.pass_time(11, silent=[frozen])
    assert await alive.sweep(now=place.now) == 3
    await _late_acks_and_appends_fail(place, old)
    for late, move in zip(old, (frozen.done, frozen.release), strict=False):
        await move(late)
    await frozen.park(old[2], place.now + 3600)
    new = await place.take(alive, 3)
    assert [each.run_id for each in new] == names
    for late, move in zip(old, (frozen.release, frozen.done), strict=False):
        await move(late)
    await frozen.park(old[2], 0.0)
    assert not await place.take(frozen, 3)
    assert not await place.take(alive, 3)
    for each in new:
        await store.append(each.run_id, 1, [RunEnded(Outcome.ANSWERED, "a")], at=place.now, epoch=each.epoch)


async def _late_acks_and_appends_fail(place: Place, old: list[Slice]) -> None:
    store = await place.store()
    for late in old:
        with pytest.raises(Conflict):
            await store.append(late.run_id, 1, [ActionStarted("1.0")], at=place.now, epoch=late.epoch)


async def test_a_worker_that_missed_its_lease_is_told_and_begins_anew(place: Place) -> None:
    one, two = await place.worker(), await place.worker()
    await place.submit(one, "r")
    assert await one.beat(now=place.now)
    (old,) = await place.take(one)
    await place.pass_time(11, silent=[one])
    assert not await place.take(one)
    assert not await one.beat(now=place.now)
    assert await two.sweep(now=place.now) == 0
    await one.release(old)
    assert await one.beat(now=place.now)
    (new,) = await place.take(one)
    assert new.epoch > old.epoch
    assert await one.beat(now=place.now)


async def test_a_worker_that_was_swept_is_told_by_its_next_beat(place: Place) -> None:
    one, two = await place.worker(), await place.worker()
    await one.beat(now=place.now)
    await place.submit(one, "r")
    await place.take(one)
    await place.pass_time(9, silent=[one])
    later = place.now
    await place.pass_time(3, silent=[one])
    assert await two.sweep(now=place.now) == 1
    assert not await one.beat(now=later)


async def test_closing_hands_back_what_is_held(place: Place) -> None:
    one, two = await place.worker(), await place.worker()
    await place.submit(one, "r")
    await place.take(one)
    await one.close()
    assert await place.names(two) == ["r"]
    await one.open()


async def test_reconcile_heals_a_lost_line_and_leaves_live_runs_alone(place: Place) -> None:
    one = await place.worker()
    for name in ("held", "lost", "parked", "queued", "alone"):
        await place.submit(one, name)
    held, lost, parked = await place.take(one, 3)
    await one.park(parked, place.now + 3600)
    for name in ("lost", "alone"):
        await place.lose(one, await place.store(), name)
    assert await one.reconcile(now=place.now) == 2
    assert await one.reconcile(now=place.now) == 0
    assert await place.names(one) == ["queued"]
    assert sorted(await place.names(one, has=needs_of(RunStarted("")))) == ["alone", "lost"]
    await one.done(lost)
    await (await place.store()).append("held", 1, [ActionStarted("1.0")], at=place.now, epoch=held.epoch)


async def test_waking_an_open_run_that_was_lost_queues_it(place: Place) -> None:
    one = await place.worker()
    await place.submit(one, "r", tenant="t")
    await place.lose(one, await place.store(), "r")
    await one.wake("r", now=place.now)
    (taken,) = await place.take(one, has=needs_of(RunStarted("")))
    assert taken.tenant == "t"


async def test_runs_begun_without_the_dispatcher_are_found(place: Place) -> None:
    one = await place.worker()
    store = await place.store()
    await store.append("open", 0, [RunStarted("goal")], at=place.now)
    await store.append("ended", 0, [RunStarted("goal"), RunEnded(Outcome.ANSWERED, "a")], at=place.now)
    assert await one.reconcile(now=place.now) == 1
    assert await place.names(one, has=needs_of(RunStarted(""))) == ["open"]


async def test_the_line_of_an_ended_run_is_dropped(place: Place) -> None:
    one = await place.worker()
    await place.submit(one, "r")
    await (await place.store()).append("r", 1, [RunEnded(Outcome.CANCELLED)], at=place.now)
    assert await one.reconcile(now=place.now) == 0
    assert (await one.depth(now=place.now)).queued == 0
