"""Traces in one SQLite file: the embedded default. Durable against power loss, shared by the processes of one machine."""

# ruff: noqa: D102  Store says what each method does
from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.core.chain import Chain
from orchestrator.core.events import Entry, Event, Trace
from orchestrator.errors import StoreError
from orchestrator.stores import Statement, Store
from orchestrator.stores.batch import Append, check_run_id, prepare, settle
from orchestrator.stores.evidence import Evidence, evidence, stored_body
from orchestrator.stores.file import SQL, Work
from orchestrator.stores.follow import Bell, tail
from orchestrator.stores.readers import Readers
from orchestrator.stores.record import load
from orchestrator.stores.row import Ended, RunRow
from orchestrator.stores.script import listing, run_row
from orchestrator.stores.writer import Job, Writer

T = TypeVar("T")

ALL = -1
PURGE_BATCH = 100


class SqliteStore(Store):
    """A Store in the SQLite file `path`, created if absent (its folder must exist; not on a network file system).

    `busy` is how many seconds a write may wait for another process; `look` how often a follower looks for what other
    processes have written. `key` keys the hashes of the entries.
    """

    def __init__(self, path: str | Path, *, busy: float = 10.0, look: float = 0.25, key: bytes = b"") -> None:
        self.path = Path(path)
        self._chain = Chain(key)
        self._busy, self._look = busy, look
        self._writer: Writer | None = None
        self._readers: Readers | None = None
        self._bell = Bell()

    async def open(self) -> None:
        if self._writer:
            return
        self._writer = Writer(self.path, self._busy, self._chain, self._settled)
        self._readers = Readers(self.path, self._busy)
        try:
            await self.transaction(lambda _: None)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        writer, readers = self._writer, self._readers
        self._writer = self._readers = None
        if not writer or not readers:
            return
        await writer.close()
        await readers.close()
        self._bell.ring_all()

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
        job = prepare(run_id, seq, events, at=at, epoch=epoch, blobs=blobs, enlist=enlist)
        self._submit(job)
        await job.future
        return job.trace

    async def transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work(connection)` in the writer's thread and transaction; its result once that is durable.

        For one who keeps a queue in the same file. `work` must not commit, may run twice, and is undone if it raises.
        """
        job = Work(work)
        self._submit(job)
        result: T = await job.future
        return result

    async def read(self, run_id: str, after: int = 0) -> Trace:
        return await self._page(run_id, after, ALL)

    def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Entry]:
        return tail(self._page, self._bell, run_id, after, self._look)

    async def blob(self, digest: str) -> bytes | None:
        found = await self._query(SQL["blob"], (digest,))
        return bytes(found[0][0]) if found else None

    async def bump(self, run_id: str) -> int:
        check_run_id(run_id)

        def raised(connection: sqlite3.Connection) -> int:
            connection.execute(SQL["bump"], (run_id,))
            (epoch,) = connection.execute(SQL["epoch"], (run_id,)).fetchone()
            return int(epoch)

        return await self.transaction(raised)

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
            SQL["list"],
            ":{}",
            since=since,
            until=until,
            outcome=outcome,
            agent=agent,
            tenant=tenant,
            after=after,
            limit=limit,
        )
        return tuple(map(run_row, await self._query(query, values)))

    async def evidence(self, run_id: str, *, bodies: bool = False) -> Evidence:
        def seen(connection: sqlite3.Connection) -> Evidence:
            connection.execute("BEGIN")
            try:
                return evidence(
                    run_id,
                    connection.execute(SQL["evidence line"], (run_id,)).fetchone(),
                    connection.execute(SQL["evidence entries"], (run_id,)),
                    (stored_body(*row, keep=bodies) for row in connection.execute(SQL["evidence bodies"], (run_id,))),
                    connection.execute(SQL["evidence since"]).fetchone()[0],
                )
            finally:
                connection.execute("COMMIT")

        return await self._read(seen)

    async def traced(self, since: float = 0.0) -> tuple[str, ...]:
        return tuple(str(run_id) for (run_id,) in await self._query(SQL["traced"], {"since": since}))

    async def purge(self, older_than: float) -> int:
        def forget(connection: sqlite3.Connection) -> int:
            old = connection.execute(SQL["old"], (older_than, PURGE_BATCH)).fetchall()
            for query in ("forget entries", "forget blobs", "forget runs"):
                connection.executemany(SQL[query], old)
            return len(old)

        total = 0
        while gone := await self.transaction(forget):
            total += gone
        return total

    def _submit(self, job: Job) -> None:
        if not self._writer:
            raise StoreError(f"{self.path}: the store is closed; open it, or use `async with`")
        self._writer.submit(job)

    def _settled(self, jobs: Sequence[Job]) -> None:
        settle(jobs)
        self._bell.ring(job.run_id for job in jobs if isinstance(job, Append) and job.error is None)

    async def _page(self, run_id: str, after: int, limit: int) -> Trace:
        def decoded(rows: list[tuple[Any, ...]]) -> Trace:
            return tuple(Entry(run_id, seq, at, load(body, run_id, seq)) for seq, at, body in rows)

        page: Trace = await self._query(SQL["read"], (run_id, after, limit), decoded)
        return page

    async def _query(self, sql: str, values: Any, shape: Callable[[list[tuple[Any, ...]]], Any] = list) -> Any:
        """Run one SELECT to its end in a reader's thread: no cursor stays open, so no reader holds anything."""
        return await self._read(lambda connection: shape(connection.execute(sql, values).fetchall()))

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """`work(connection)` in a reader's thread."""
        if not self._readers:
            raise StoreError(f"{self.path}: the store is closed; open it, or use `async with`")
        return await self._readers.read(work)
