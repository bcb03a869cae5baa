"""The live tail of a Trace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

import pytest

from orchestrator.core.events import ActionStarted, Entry
from orchestrator.errors import StoreError
from orchestrator.stores import Store
from tests.stores.conftest import Connect
from tests.stores.words import ENDED, STARTED, TURN, WHOLE


async def collected(store: Store, run_id: str, after: int = 0) -> list[Entry]:
    return [entry async for entry in store.follow(run_id, after)]


@pytest.mark.parametrize("after", range(7))
async def test_following_a_finished_run_gives_the_rest_and_ends(store: Store, after: int) -> None:
    whole = await store.append("r", 0, WHOLE, at=1.0)
    if after < 6:
        assert await collected(store, "r", after) == list(whole[after:])


async def test_a_follower_sees_each_entry_as_it_comes_and_ends_with_the_run(store: Store) -> None:
    follower = asyncio.ensure_future(collected(store, "r"))
    for seq, event in enumerate(WHOLE):
        await store.append("r", seq, [event], at=1.0)
    assert await follower == list(await store.read("r"))


async def test_a_follower_sees_what_another_process_writes(store: Store, connect: Connect) -> None:
    await store.append("r", 0, [STARTED], at=1.0)
    follower = asyncio.ensure_future(collected(store, "r"))
    other = connect()
    await other.open()
    await other.append("r", 1, [TURN], at=2.0)
    await other.append("r", 2, [ENDED], at=2.0)
    assert len(await follower) == 3
    await other.close()


async def test_a_long_trace_is_followed_through_many_pages(store: Store) -> None:
    await store.append("r", 0, [STARTED, *(ActionStarted(f"1.{n}") for n in range(998)), ENDED], at=1.0)
    assert [entry.seq for entry in await collected(store, "r")] == list(range(1, 1001))


async def test_a_paused_reader_never_blocks_writers(store: Store) -> None:
    await store.append("r", 0, WHOLE[:3], at=1.0)
    async with aclosing(cast("AsyncGenerator[Entry, None]", store.follow("r"))) as reading:
        await anext(reading)
        async with asyncio.timeout(5):
            await store.append("r", 3, WHOLE[3:], at=2.0)
            await asyncio.gather(*(store.append(f"r{n}", 0, [STARTED], at=1.0) for n in range(20)))
            await store.append("old", 0, [STARTED, ENDED], at=0.0)
            assert await store.purge(1.0) == 1
        assert [entry.seq async for entry in reading] == [2, 3, 4, 5, 6]


async def test_a_follower_that_leaves_leaves_nothing_behind(store: Store) -> None:
    await store.append("r", 0, [STARTED], at=1.0)
    follower = asyncio.ensure_future(collected(store, "r"))
    await asyncio.sleep(0)
    follower.cancel()
    await asyncio.gather(follower, return_exceptions=True)
    assert not store._bell._listeners  # type: ignore[attr-defined]


async def test_closing_the_store_ends_its_followers(connect: Connect) -> None:
    store = connect()
    await store.open()
    await store.append("r", 0, [STARTED], at=1.0)
    follower = asyncio.ensure_future(collected(store, "r"))
    async with aclosing(cast("AsyncGenerator[Entry, None]", store.follow("r"))) as reading:
        await anext(reading)
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await asyncio.wait_for(follower, 5)
