"""Traces in PostgreSQL: one log for many machines. Needs the extra `postgres`."""

# ruff: noqa: D102  Store says what each method does
from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool

from orchestrator.core.chain import Chain
from orchestrator.core.events import Entry, Event, Trace
from orchestrator.errors import StoreError
from orchestrator.stores import Statement, Store
from orchestrator.stores.batch import LARGEST, Append, check_run_id, prepare, settle
from orchestrator.stores.evidence import Evidence, StoredBody, evidence, stored_body
from orchestrator.stores.follow import Bell, tail
from orchestrator.stores.herald import Herald
from orchestrator.stores.lane import Connection, Lane
from orchestrator.stores.link import LIST, SQL, configure, connect, conninfo, failure, migrate
from orchestrator.stores.record import load
from orchestrator.stores.row import Ended, RunRow
from orchestrator.stores.script import listing, run_row
from orchestrator.stores.together import Rows, Together

READERS = 4
"""Connections that read, besides one that writes, one that announces, and one that listens for followers."""

PURGE_BATCH = 100
CLOSED = "the PostgreSQL store is closed; open it, or use `async with`"


class PostgresStore(Store):
    """A Store in the database `url` (postgresql://user:password@host/name).

    `patience` is how many seconds a write outlasts an absent server; `look` how often a follower looks by itself,
    `key` keys the hashes of the entries.

    Old runs are deleted in batches, not dropped by partition: a primary key of a partitioned table must hold the partition
    key, and (day, run_id, seq) would let one seq of a run be written on two days. The fence is worth more than a fast purge.
    """

    def __init__(self, url: str, *, patience: float = 30.0, look: float = 1.0, key: bytes = b"") -> None:
        self._chain = Chain(key)
        self._info = conninfo(url)
        self._patience, self._look = patience, look
        self._bell = Bell()
        self._together = Together(lambda run_ids, afters: self._query(SQL["read several"], (run_ids, afters)))
        self._lane: Lane | None = None
        self._herald: Herald | None = None
        self._pool: AsyncConnectionPool[Connection] | None = None

    async def open(self) -> None:
        if self._pool:
            return
        try:
            async with await self._connect() as connection:
                await migrate(connection)
        except psycopg.Error as error:
            raise failure(error, "open", "is the server up, and the URL right?") from error
        self._pool = AsyncConnectionPool(
            self._info,
            kwargs={"autocommit": True},
            min_size=1,
            max_size=READERS,
            open=False,
            timeout=self._patience,
            configure=configure,
            check=AsyncConnectionPool.check_connection,
        )
        await self._pool.open()
        self._herald = Herald(self._connect, self._bell)
        self._lane = Lane(self._connect, self._patience, self._chain, self._settled)

    async def close(self) -> None:
        lane, herald, pool = self._lane, self._herald, self._pool
        self._lane = self._pool = None
        if not (lane and herald and pool):
            return
        await lane.close()
        await herald.close()
        await pool.close()
        self._bell.ring_all()

    @property
    def pool(self) -> AsyncConnectionPool[Connection]:
        """Autocommit connections to the same database, for one who keeps a queue in it."""
        if not self._pool:
            raise StoreError(CLOSED)
        return self._pool

    async def append(  # noqa: PLR0913  as in Store
        self,
        run_id: str,
        seq: int,
        events: Sequence[Event],
        *,
        at: float,
        epoch: int = 0,
        blobs: Mapping[str, bytes] = {},
        enlist: Sequence[Statement] = (),
    ) -> Trace:
        if not self._lane:
            raise StoreError(CLOSED)
        job = prepare(run_id, seq, events, at=at, epoch=epoch, blobs=blobs, enlist=enlist)
        self._lane.submit(job)
        await job.future
        return job.trace

    async def read(self, run_id: str, after: int = 0) -> Trace:
        if not (run_id.isprintable() and 0 <= after < LARGEST):  # it could spoil the query of the others
            return await self._page(run_id, after, None)
        return _trace(run_id, await self._together.read(run_id, after))

    async def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Entry]:
        if not self._lane or not self._herald:
            raise StoreError(CLOSED)
        await self._herald.listen()
        async for entry in tail(self._page, self._bell, run_id, after, self._look):
            yield entry

    async def blob(self, digest: str) -> bytes | None:
        found = await self._query(SQL["blob"], (digest,))
        return bytes(found[0][0]) if found else None

    async def bump(self, run_id: str) -> int:
        check_run_id(run_id)
        ((epoch,),) = await self._query(SQL["bump"], (run_id,))
        return int(epoch)

    async def row(self, run_id: str) -> RunRow | None:
        found = await self._query(SQL["row"], (run_id,))
        return run_row(found[0]) if found else None

    async def runs(  # noqa: PLR0913  as in Store
        self,
        *,
        since: float | None = None,
        until: float | None = None,
        outcome: Ended | None = None,
        agent: str | None = None,
        tenant: str | None = None,
        after: tuple[float, str] | None = None,
        limit: int = 50,
    ) -> tuple[RunRow, ...]:
        query, values = listing(
            LIST,
            "%({})s",
            since=since,
            until=until,
            outcome=outcome,
            agent=agent,
            tenant=tenant,
            after=after,
            limit=limit,
        )
        return tuple(map(run_row, await self._query(query.encode(), values)))

    async def evidence(self, run_id: str, *, bodies: bool = False) -> Evidence:
        async def asked(sql: str, *values: Any) -> list[tuple[Any, ...]]:
            return await (await connection.execute(SQL[sql], values, binary=True)).fetchall()

        try:
            async with self.pool.connection() as connection, connection.transaction():
                await connection.execute(SQL["snapshot"])
                line = await asked("evidence line", run_id)
                entries = await asked("evidence entries", run_id)
                kept: list[StoredBody] = []
                for (digest,) in await asked("evidence body names", run_id):
                    ((body,),) = await asked("evidence body", run_id, digest)
                    kept.append(stored_body(digest, bytes(body), keep=bodies))
                ((since,),) = await asked("evidence since")
        except psycopg.Error as error:
            raise failure(error, f"run {run_id}", "try again; if it stays, look at the server's log") from error
        return evidence(run_id, line[0] if line else None, entries, kept, since)

    async def traced(self, since: float = 0.0) -> tuple[str, ...]:
        return tuple(str(run_id) for (run_id,) in await self._query(SQL["traced"], {"since": since}))

    async def purge(self, older_than: float) -> int:
        total = 0
        while gone := await self._count(SQL["purge"], (older_than, PURGE_BATCH)):
            total += gone
        return total

    async def _connect(self) -> Connection:
        return await connect(self._info)

    def _settled(self, jobs: Sequence[Append]) -> None:
        settle(jobs)
        if self._herald:
            self._herald.announce(job.run_id for job in jobs if job.error is None)

    async def _page(self, run_id: str, after: int, limit: int | None) -> Trace:
        return _trace(run_id, await self._query(SQL["read"], (run_id, after, limit)))

    async def _query(self, sql: bytes, values: Any) -> list[tuple[Any, ...]]:
        try:
            async with self.pool.connection() as connection:
                return await (await connection.execute(sql, values, binary=True)).fetchall()
        except psycopg.Error as error:
            raise failure(error, "read", "try again; if it stays, look at the server's log") from error

    async def _count(self, sql: bytes, values: Any) -> int:
        try:
            async with self.pool.connection() as connection:
                return (await connection.execute(sql, values)).rowcount
        except psycopg.Error as error:
            raise failure(error, "purge", "try again; if it stays, look at the server's log") from error


def _trace(run_id: str, rows: Rows) -> Trace:
    return tuple(Entry(run_id, seq, at, load(body, run_id, seq)) for seq, at, body in rows)
