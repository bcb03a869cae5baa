"""Every test that asks for `store` or `connect` is run by each store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeAlias

import pytest
import pytest_asyncio

from orchestrator.stores import Store
from orchestrator.stores.memory import MemoryStore
from orchestrator.stores.postgres import PostgresStore
from orchestrator.stores.sqlite import SqliteStore
from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

Connect: TypeAlias = Callable[[], Store]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Connect:
    """Makes one more store on the same data, as another process would have it (in memory there is only one)."""
    if request.param == "memory":
        only = MemoryStore()
        return lambda: only
    if request.param == "sqlite":
        return lambda: SqliteStore(tmp_path / "trace.db", look=0.02)
    url = request.getfixturevalue("postgres_url")
    return lambda: PostgresStore(url)


@pytest_asyncio.fixture
async def store(connect: Connect) -> AsyncIterator[Store]:
    async with connect() as opened:
        yield opened
