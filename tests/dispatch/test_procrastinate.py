"""What is procrastinate's own: its jobs and our lines stay one, whatever is lost; cut connections are made anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from orchestrator.core.events import Outcome, RunEnded, RunStarted
from orchestrator.dispatch import Job, needs_of
from orchestrator.dispatch.procrastinate import ProcrastinateDispatcher
from orchestrator.errors import StoreError
from orchestrator.stores.postgres import PostgresStore
from tests.dispatch.conftest import Place, postgres_place


@pytest_asyncio.fixture
async def place(postgres_url: str) -> AsyncIterator[Place]:
    made = postgres_place(postgres_url)
    async with made.stack:
        yield made


async def ask(place: Place, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    store = await place.store()
    assert isinstance(store, PostgresStore)
    async with store.pool.connection() as connection:
        cursor = await connection.execute(sql.encode(), values)
        return await cursor.fetchall() if cursor.description else []


async def test_a_run_is_one_job_and_an_ended_run_leaves_nothing(place: Place) -> None:
    one = await place.worker()
    for name in "abc":
        await place.submit(one, name)
    taken = await place.take(one, 3)
    await one.release(taken[0])
    await one.park(taken[1], place.now + 60)
    await one.wake("b", now=place.now)
    await one.done(taken[2])
    jobs = await ask(place, "SELECT queueing_lock, status::text FROM procrastinate_jobs ORDER BY 1")
    assert jobs == [("a", "todo"), ("b", "todo")]
    for each in await place.take(one, 3):
        await one.done(each)
    assert await ask(place, "SELECT id FROM procrastinate_jobs") == []
    assert await ask(place, "SELECT id FROM procrastinate_events") == []
    assert await ask(place, "SELECT run_id FROM slices") == []


async def test_a_job_that_was_lost_is_made_anew(place: Place) -> None:
    one = await place.worker()
    for name in ("queued", "held"):
        await place.submit(one, name, priority=name == "held")
    (held,) = await place.take(one)
    await ask(place, "DELETE FROM procrastinate_jobs")
    assert await one.reconcile(now=place.now) == 1
    assert await place.names(one) == ["queued"]
    await one.release(held)
    (held,) = await place.take(one)
    await ask(place, "DELETE FROM procrastinate_jobs")
    await one.done(held)
    assert await one.depth(now=place.now) == await (await place.worker()).depth(now=place.now)


async def test_a_job_without_a_line_is_dropped(place: Place) -> None:
    one, two = await place.worker(), await place.worker()
    for name in "abc":
        await place.submit(one, name)
    await place.take(one)
    await ask(place, "DELETE FROM slices WHERE run_id IN ('a', 'b')")
    assert [each.run_id for each in await place.take(two, wait=20)] == ["c"]
    await place.pass_time(12, silent=[one])
    assert await two.sweep(now=place.now) == 0
    assert await ask(place, "SELECT queueing_lock FROM procrastinate_jobs") == [("c",)]


async def test_a_lost_line_takes_its_queued_job_along(place: Place) -> None:
    one = await place.worker()
    await place.submit(one, "r")
    await ask(place, "DELETE FROM slices")
    assert await one.reconcile(now=place.now) == 1
    assert len(await place.take(one, 2, has=needs_of(RunStarted("")))) == 1


async def test_purged_runs_take_their_keys_along(place: Place) -> None:
    one = await place.worker()
    await place.submit(one, "r", key="k")
    (taken,) = await place.take(one)
    store = await place.store()
    await store.append("r", 1, [RunEnded(Outcome.ANSWERED, "a")], at=place.now, epoch=taken.epoch)
    await one.done(taken)
    assert await store.purge(place.now + 1) == 1
    assert (await place.submit(one, "s", key="k")).fresh


async def test_cut_connections_are_made_anew_and_heard_again(place: Place) -> None:
    one, two = await place.worker(), await place.worker()
    await place.submit(one, "r")
    (taken,) = await place.take(one)
    await ask(
        place,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'orchestrator' AND pid != pg_backend_pid()",
    )
    async with asyncio.timeout(30):
        await until_told(lambda: two.wake("r", now=place.now))
        await until_told(lambda: one.release(taken))
        assert await place.take(two, wait=20)


async def until_told(move: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            return await move()
        except StoreError:
            await asyncio.sleep(0.05)


async def test_a_closed_dispatcher_says_so(postgres_url: str) -> None:
    async with PostgresStore(postgres_url) as store:
        closed = ProcrastinateDispatcher(store)
        await closed.close()
        for move in (closed.beat(now=0.0), closed.depth(now=0.0), closed.sweep(now=0.0)):
            with pytest.raises(StoreError, match="closed"):
                await move
        with pytest.raises(StoreError):
            await closed.submit(Job("r"), RunStarted("g"), now=0.0)


async def test_a_queue_of_a_newer_release_is_left_alone(place: Place) -> None:
    one = await place.worker()
    await one.close()
    await ask(place, "INSERT INTO dispatch_schema VALUES (99)")
    with pytest.raises(StoreError, match="newer"):
        await one.open()
    await ask(place, "DELETE FROM dispatch_schema WHERE version = 99")
    await one.open()
