"""procrastinate on a connection, and so in a transaction, of ours: what it does and what we add is one commit or none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, LiteralString, TypeAlias, TypeVar

import psycopg
from procrastinate import PsycopgConnector
from procrastinate.connector import BaseAsyncConnector, Notify
from procrastinate.exceptions import ProcrastinateException
from procrastinate.manager import JobManager, get_channel_for_queues
from procrastinate.schema import SchemaManager
from psycopg import errors

from orchestrator.errors import StoreError
from orchestrator.stores.link import configure, failure
from orchestrator.stores.script import script

T = TypeVar("T")
Connection: TypeAlias = psycopg.AsyncConnection[Any]
Work: TypeAlias = Callable[[Connection, JobManager], Awaitable[T]]

_SCRIPT = script(Path(__file__).with_name("postgres.sql"))
SQL: Final[Mapping[str, bytes]] = {name: text.encode() for name, text in _SCRIPT.queries.items()}
SUBMIT, KEY = _SCRIPT.queries["submit"], _SCRIPT.queries["key"]

CONNECTIONS = 4
"""Of the queue's own, so that no reader of traces can keep a heartbeat waiting; one more listens."""

CHANNELS = (*get_channel_for_queues(), "orchestrator_slices")
RETRY = 1.0
CANCEL_AGAIN = 0.1
"""Seconds: procrastinate listens by `wait_for`, which (before Python 3.12) loses a cancellation that meets a notice."""

TRIES = 4


class Joined(BaseAsyncConnector):
    """procrastinate's queries, on the given connection."""

    def __init__(self, connector: PsycopgConnector, connection: Connection) -> None:
        self._connector, self._connection = connector, connection

    async def execute_query_async(self, query: LiteralString, **arguments: Any) -> None:
        """All of procrastinate's queries are SELECTs of its functions."""
        await self.execute_query_all_async(query, **arguments)

    async def execute_query_one_async(self, query: LiteralString, **arguments: Any) -> dict[str, Any]:
        """One row."""
        row: dict[str, Any]
        row = await self._connector.execute_query_one_async_with_connection(self._connection, query, **arguments)
        return row

    async def execute_query_all_async(self, query: LiteralString, **arguments: Any) -> list[dict[str, Any]]:
        """Every row."""
        rows: list[dict[str, Any]]
        rows = await self._connector.execute_query_all_async_with_connection(self._connection, query, **arguments)
        return rows


class Database:
    """The queue's connections to the database `info`, as a pool of psycopg's takes it."""

    def __init__(self, info: object) -> None:
        self._connector = PsycopgConnector(
            conninfo=info, min_size=1, max_size=CONNECTIONS, timeout=10.0, configure=_configure
        )
        self._listening: asyncio.Task[None] | None = None

    async def open(self, heard: Notify) -> None:
        """Connect, bring procrastinate's schema and ours up to date, and listen: `heard` is called for each notice."""
        try:
            await self._connector.open_async()
        except (psycopg.Error, ProcrastinateException) as error:
            raise _told(error, "open the queue") from error
        await self.transact("migrate the queue", _migrate)
        self._listening = asyncio.create_task(self._listen_on(heard), name="listener for queued runs")

    async def close(self) -> None:
        """Disconnect."""
        while self._listening and not self._listening.done():
            self._listening.cancel()
            await asyncio.wait([self._listening], timeout=CANCEL_AGAIN)
        await self._connector.close_async()

    async def transact(self, what: str, work: Work[T]) -> T:
        """Run `work(connection, jobs)` as one transaction, again after a deadlock. StoreError names `what`."""
        for more in reversed(range(TRIES)):
            try:
                async with self._connector.pool.connection() as connection, connection.transaction():
                    return await work(connection, JobManager(Joined(self._connector, connection)))
            except (psycopg.Error, ProcrastinateException) as error:
                cause = error.__cause__ or error
                if not more or not isinstance(cause, errors.DeadlockDetected | errors.SerializationFailure):
                    raise _told(error, what) from error
        raise AssertionError("the last try returns or raises")

    async def _listen_on(self, heard: Notify) -> None:
        while True:
            with suppress(psycopg.Error, ProcrastinateException):
                await self._connector.listen_notify(on_notification=heard, channels=CHANNELS)
            await asyncio.sleep(RETRY)


async def _configure(connection: Connection) -> None:
    await configure(connection)
    await connection.commit()


async def _migrate(connection: Connection, jobs: JobManager) -> None:
    await connection.execute(SQL["lock schema"])
    if not await jobs.check_connection_async():
        await connection.execute(SchemaManager.get_schema().encode())
    await connection.execute(SQL["version table"])
    row = await (await connection.execute(SQL["version"])).fetchone()
    version = row[0] if row else 0
    if version > len(_SCRIPT.migrations):
        raise StoreError(f"queue schema version {version} is newer than this release; upgrade the orchestrator")
    for number, statements in enumerate(_SCRIPT.migrations[version:], version + 1):
        for statement in statements:
            await connection.execute(statement.encode())
        await connection.execute(SQL["set version"], (number,))


def _told(error: BaseException, what: str) -> StoreError:
    return failure(error.__cause__ or error, what, "try again; if it stays, look at the server's log")
