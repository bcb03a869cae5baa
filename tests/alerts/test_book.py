"""One suite for all three books: one leader, fenced writes, and a page that survives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from orchestrator.errors import ConfigError
from orchestrator.monitor import Book, make_book
from orchestrator.stores import Store
from orchestrator.stores.memory import MemoryStore
from orchestrator.stores.postgres import PostgresStore
from orchestrator.stores.sqlite import SqliteStore
from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

Open = Callable[[], "asyncio.Future[Book]"]


@pytest_asyncio.fixture(params=["memory", "sqlite", "postgres"])
async def books(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Book, Book]]:
    """Two on the same row, as two processes would have them (in memory there is only one)."""
    stores: list[Store] = []
    if request.param == "memory":
        stores = [MemoryStore()]
    elif request.param == "sqlite":
        stores = [SqliteStore(tmp_path / "trace.db"), SqliteStore(tmp_path / "trace.db")]
    else:
        url = request.getfixturevalue("postgres_url")
        stores = [PostgresStore(url), PostgresStore(url)]
    for store in stores:
        await store.open()
    made = [make_book(store) for store in stores]
    yield made[0], made[-1]
    for store in stores:
        await store.close()


async def test_one_leads_and_the_other_does_not(books: tuple[Book, Book]) -> None:
    one, two = books
    assert await one.lead("a", now=0.0, until=60.0) == b""
    assert await two.lead("b", now=30.0, until=90.0) is None
    assert await one.lead("a", now=30.0, until=90.0) == b""


async def test_of_two_that_ask_at_once_one_leads(books: tuple[Book, Book]) -> None:
    one, two = books
    found = await asyncio.gather(one.lead("a", now=0.0, until=9.0), two.lead("b", now=0.0, until=9.0))
    assert sorted(each is None for each in found) == [False, True]


async def test_a_leader_that_fell_silent_is_replaced_and_can_write_no_more(books: tuple[Book, Book]) -> None:
    one, two = books
    await one.lead("a", now=0.0, until=60.0)
    assert await one.save("a", b"first \xff")
    assert await two.lead("b", now=60.0, until=120.0) == b"first \xff"
    assert not await one.save("a", b"late")
    assert await two.peek() == b"first \xff"
    assert await one.lead("a", now=61.0, until=121.0) is None


async def test_who_resigns_is_replaced_at_once(books: tuple[Book, Book]) -> None:
    one, two = books
    await one.lead("a", now=0.0, until=60.0)
    await two.resign("b")
    assert await two.lead("b", now=1.0, until=60.0) is None
    await one.resign("a")
    assert await two.lead("b", now=1.0, until=60.0) == b""


async def test_looking_needs_no_lead(books: tuple[Book, Book]) -> None:
    one, two = books
    assert await two.peek() == b""
    await one.lead("a", now=0.0, until=60.0)
    await one.save("a", b"page")
    assert await two.peek() == b"page"


async def test_nobody_writes_without_leading(books: tuple[Book, Book]) -> None:
    one, _ = books
    await one.lead("a", now=0.0, until=60.0)
    assert not await one.save("", b"x")
    assert not await one.save("b", b"x")


def test_a_store_of_an_unknown_kind_has_no_book() -> None:
    class Other(Store):
        pass

    with pytest.raises(ConfigError, match="Other"):
        make_book(Other())  # type: ignore[abstract]
