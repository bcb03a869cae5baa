"""The one thread of this process that writes to a SQLite file: group commit.

The event loop hands over what its current turn has gathered; the thread writes it in one transaction; the callers are
answered, all at once, when that transaction is on the disk. What is submitted meanwhile goes together, when the loop has heard of
that; where many came together, a few milliseconds later: a transaction has its price, whatever its size. A lone append never waits.
Several processes may share the file: each batch begins with the write lock, so what it reads is what it changes.

A batch is a handful of SQLite calls whatever its size. Each call gives up the interpreter lock, and a busy event loop may
take 5 ms to give it back: two calls an append would cost a batch of 200 two seconds.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

from orchestrator.core.chain import Chain
from orchestrator.stores.batch import Append, chained, conflict
from orchestrator.stores.file import SQL, Work, connect, failure, migrate
from orchestrator.stores.row import Head

FULL_BATCH = 1000
"""Jobs of one transaction, even though more are waiting: bounds latency and memory."""

SHARED, WINDOW = 16, 0.005
"""Seconds in which the next batch gathers after one of so many jobs: at 200 runs a third fewer transactions, 4 % less CPU."""

CHUNKS = (128, 64, 32, 16, 8, 4, 2, 1)
"""Rows of one INSERT: few calls for any number of rows, and few distinct statements, so that each stays prepared."""

PARAMETERS = 999
"""Of one statement: so many fit every SQLite."""


Job: TypeAlias = Append | Work
_NO_HEAD: Head = ("", "", "", "", "", None)


class Writer:
    """`done(jobs)` is called in the event loop when these jobs are durable or have failed (then `job.error` says why)."""

    def __init__(self, path: Path, busy: float, chain: Chain, done: Callable[[Sequence[Job]], None]) -> None:
        self._path, self._busy, self._chain, self._done = path, busy, chain, done
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[list[Job] | None] = SimpleQueue()
        self._gathered: list[Job] = []
        self._under_way = False
        self._connection: sqlite3.Connection | None = None
        self._thread = threading.Thread(target=self._write_on, name=f"writer of {path.name}", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Hand the job over at the end of this turn of the event loop, with all others of the turn; or with the next batch."""
        if not self._gathered and not self._under_way:
            self._loop.call_soon(self._hand_over)
        self._gathered.append(job)

    async def close(self) -> None:
        """Write what has been submitted, and end the thread."""
        while self._gathered:
            self._hand_over()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _hand_over(self) -> None:
        batch, self._gathered = self._gathered[:FULL_BATCH], self._gathered[FULL_BATCH:]
        if batch:
            self._under_way = True
            self._queue.put(batch)

    def _written(self, batch: Sequence[Job]) -> None:
        """Answer the callers, in the event loop; what they submit at once goes with the next batch."""
        self._done(batch)
        if len(batch) < SHARED:
            self._loop.call_soon(self._go_on)
        else:
            self._loop.call_later(WINDOW, self._go_on)

    def _go_on(self) -> None:
        self._under_way = False
        self._hand_over()

    def _write_on(self) -> None:
        while batch := self._queue.get():
            self._commit(batch)
            with suppress(RuntimeError):  # the loop was closed under us: nobody is left to be told
                self._loop.call_soon_threadsafe(self._written, batch)
        self._drop()

    def _commit(self, batch: Sequence[Job]) -> None:
        """Make the whole batch durable; if that fails, each job for itself, so that one cannot spoil the others."""
        try:
            self._transact(batch)
        except Exception as error:  # noqa: BLE001  a border: the thread outlives any job, and the callers are told
            self._drop()
            busy = isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if len(batch) > 1 and not busy:
                for job in batch:
                    self._commit([job])
            else:
                for job in batch:
                    job.error = failure(self._path, error)

    def _transact(self, batch: Sequence[Job]) -> None:
        fresh = self._connection is None
        connection = self._connection = self._connection or connect(self._path, self._busy)
        connection.execute("BEGIN IMMEDIATE")
        if fresh:
            migrate(connection, self._path)
        for alone, jobs in groupby(batch, _alone):
            if not alone:
                _append(connection, [job for job in jobs if isinstance(job, Append)], self._chain)
                continue
            for job in jobs:
                self._one(connection, job)
        connection.execute("COMMIT")

    def _one(self, connection: sqlite3.Connection, job: Job) -> None:
        """A job that runs foreign SQL: what it did is undone if it fails, and the rest of the batch goes on."""
        job.error = None
        try:
            with _savepoint(connection):
                if isinstance(job, Work):
                    job.result = job.run(connection)
                    return
                _append(connection, [job], self._chain)
                for sql, parameters in () if job.error else job.enlist:
                    connection.execute(sql, parameters)
        except Exception as error:
            if not connection.in_transaction:
                raise
            job.error = failure(self._path, error)

    def _drop(self) -> None:
        """Close the connection (which rolls back); the next batch opens a fresh one."""
        if self._connection:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None


def _alone(job: Job) -> bool:
    return isinstance(job, Work) or bool(job.enlist)


@contextmanager
def _savepoint(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("SAVEPOINT job")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
        raise
    connection.execute("RELEASE job")


def _append(connection: sqlite3.Connection, jobs: Sequence[Append], chain: Chain) -> None:
    """Write those that continue their run, each hashed after what stands there; mark the others as Conflicts."""
    wanted = json.dumps(list({job.run_id for job in jobs}))
    (found,) = connection.execute(SQL["heads"], (wanted,)).fetchone()
    heads = {run_id: (last_seq, epoch, bytes.fromhex(head)) for run_id, last_seq, epoch, head in json.loads(found)}
    accepted = []
    for job in jobs:
        last_seq, epoch, head = heads.get(job.run_id, (0, 0, b""))
        job.error = conflict(job, last_seq, epoch) if last_seq != job.seq or epoch > job.epoch else None
        if job.error is None:
            chained(job, chain, head)
            heads[job.run_id] = (job.last, epoch, job.head)
            accepted.append(job)
    begun = [(job.run_id, job.at, *_news(job), *(job.change.head or _NO_HEAD)) for job in accepted if not job.seq]
    ended = [(job.run_id, job.change.ended_at, job.change.outcome) for job in accepted if job.change.outcome]
    _insert(connection, "begin", begun)
    _insert(connection, "advance", [(job.run_id, *_news(job)) for job in accepted if job.seq])
    _insert(connection, "finish", ended)
    rows = [
        (job.run_id, seq, job.at, job.epoch, body.decode(), hashed)
        for job in accepted
        for seq, (body, hashed) in enumerate(zip(job.bodies, job.hashes, strict=True), job.seq + 1)
    ]
    _insert(connection, "enter", rows)
    for job in accepted:
        for digest, body in job.blobs.items():
            connection.execute(SQL["keep"], (digest, job.run_id, body))


def _news(job: Append) -> tuple[float, str, int, int, bytes]:
    return job.at, job.change.last_kind, job.last, job.change.steps, job.head


def _insert(connection: sqlite3.Connection, query: str, rows: Sequence[tuple[Any, ...]]) -> None:
    start, width = 0, len(rows[0]) if rows else 0
    for size in CHUNKS:
        while len(rows) - start >= size and size * width <= PARAMETERS:
            connection.execute(
                _statement(query, size, width), tuple(itertools.chain.from_iterable(rows[start : start + size]))
            )
            start += size


@cache
def _statement(query: str, size: int, width: int) -> str:
    marks = ",".join([f"({','.join('?' * width)})"] * size)
    return SQL[query].replace("/* rows */", marks)
