"""The one task of this process that writes to PostgreSQL: group commit.

While one batch is on its way the next one gathers; where several came together, for two milliseconds more: a batch has its price,
whatever its size. A lone append never waits. A batch of appends is *one statement*, so a
client that freezes half-way holds no lock that others would wait for: the server ends what it has begun. Only appends that
enlist statements of their own need a transaction with several steps.

A connection that breaks leaves a batch whose fate is unknown. It is sent again on a new one: the fence (`last_seq`) lets it
be written at most once, and what is refused then is compared with what the store holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import psycopg
from psycopg import errors

from orchestrator.core.chain import Chain
from orchestrator.errors import StoreError
from orchestrator.stores.arrays import Bodies, Floats, Integers, Texts
from orchestrator.stores.batch import Append, chained, conflict
from orchestrator.stores.link import SQL, failure, is_lost

Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]

FULL_BATCH = 1000
"""Appends after which a statement is closed even though more are waiting."""

WINDOW = 0.002
"""Seconds in which the next batch gathers after one that was shared: at 200 runs half as many batches, a tenth less CPU."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between tries to reach the server again."""

REMEMBERED = 20_000
"""Heads of runs kept in memory. One that is forgotten, or that another process moved, costs a query at the next append."""

NO_HEAD = ("", "", "", "", "", None)


class Lane:
    """`done(jobs)` is called when these jobs are durable or have failed (then `job.error` says why).

    `patience` is how many seconds a batch is tried again while the server is away.

    An entry's hash covers the one before, so a batch needs the heads of its runs. They are remembered from the last append; the
    statement itself compares them with what the server holds, so a stale one is a Conflict and never a fork of the chain.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        patience: float,
        chain: Chain,
        done: Callable[[Sequence[Append]], None],
    ) -> None:
        self._connect, self._patience, self._chain, self._done = connect, patience, chain, done
        self._heads: dict[str, tuple[int, bytes]] = {}
        self._connection: Connection | None = None
        self._waiting: list[Append] = []
        self._awake = asyncio.Event()
        self._closing = False
        self._task = asyncio.create_task(self._write_on(), name="writer of the trace")

    def submit(self, job: Append) -> None:
        """The job goes with the next batch."""
        self._waiting.append(job)
        self._awake.set()

    async def close(self) -> None:
        """Write what has been handed over, and disconnect."""
        self._closing = True
        self._awake.set()
        await self._task

    async def _write_on(self) -> None:
        batch: list[Append] = []
        try:
            while self._waiting or not self._closing:
                self._awake.clear()
                while batch := self._next_batch():
                    await self._commit(batch, unknown=False)
                    self._remember(batch)
                    self._done(batch)
                    if len(batch) > 1 and not self._closing:
                        await asyncio.sleep(WINDOW)
                if not self._closing:
                    await self._awake.wait()
        finally:
            for job in (*batch, *self._waiting):
                job.error = job.error or StoreError(
                    f"run {job.run_id}: the store was closed before the append was confirmed"
                )
            self._done([*batch, *self._waiting])
            await self._drop()

    def _next_batch(self) -> list[Append]:
        """What can go together: one append a run, and those with statements of their own apart. The rest keeps its order."""
        batch: list[Append] = []
        rest: list[Append] = []
        runs: set[str] = set()
        for job in self._waiting:
            apart = bool(batch) and bool(batch[0].enlist) != bool(job.enlist)
            (rest if apart or job.run_id in runs or len(batch) == FULL_BATCH else batch).append(job)
            runs.add(job.run_id)
        self._waiting = rest
        return batch

    async def _commit(self, batch: Sequence[Append], *, unknown: bool) -> None:
        """Make the whole batch durable. `unknown`: it may have been written by an earlier try."""
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self._patience, FIRST_PAUSE
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    connection = await self._connected()
                    await self._chain_up(connection, batch)
                    await _write(connection, batch)
                    await _explain(connection, [job for job in batch if job.error], unknown=unknown)
            except (psycopg.Error, TimeoutError) as error:
                lost = is_lost(self._connection, error)
                if lost:
                    unknown = True
                    await self._drop()
                if not lost and not isinstance(error, errors.DeadlockDetected | errors.SerializationFailure):
                    return await self._each_alone(batch, error, unknown=unknown)
                if self._closing or loop.time() + pause > deadline:
                    return _fail(
                        batch, error, "the server could not be reached; whether this append was written is unknown"
                    )
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                return None

    async def _chain_up(self, connection: Connection, batch: Sequence[Append]) -> None:
        """Hash the entries of the batch, each after its run's head."""
        unknown = [job.run_id for job in batch if job.seq and self._heads.get(job.run_id, (0, b""))[0] != job.seq]
        if unknown:
            found = await connection.execute(SQL["heads"], (unknown,), binary=True)
            self._heads.update({run_id: (seq, head) for run_id, seq, _, head in await found.fetchall()})
        for job in batch:
            chained(job, self._chain, self._heads[job.run_id][1] if job.seq and job.run_id in self._heads else b"")

    def _remember(self, batch: Sequence[Append]) -> None:
        if len(self._heads) > REMEMBERED:
            self._heads.clear()
        for job in batch:
            if job.error is None and job.head and job.change.ended_at is None:
                self._heads[job.run_id] = (job.last, job.head)
            else:
                self._heads.pop(job.run_id, None)

    async def _each_alone(self, batch: Sequence[Append], error: BaseException, *, unknown: bool) -> None:
        if len(batch) == 1:
            return _fail(batch, error, "nothing of this append was written")
        for job in batch:
            await self._commit([job], unknown=unknown)
        return None

    async def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = await self._connect()
        return self._connection

    async def _drop(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()


def _fail(batch: Sequence[Append], error: BaseException, what: str) -> None:
    for job in batch:
        job.error = failure(error, f"run {job.run_id}", what)


async def _write(connection: Connection, batch: Sequence[Append]) -> None:
    """Write the batch; those that were refused get a Conflict, without the reason yet."""
    for job in batch:
        job.error = None
    if not batch[0].enlist:
        taken = await connection.execute(SQL["append"], _columns(batch), prepare=True)
        accepted = {run_id for (run_id,) in await taken.fetchall()}
        for job in batch:
            job.error = None if job.run_id in accepted else conflict(job, -1, -1)
        return
    try:
        await _write_together(connection, batch)
    except psycopg.Error as error:
        if is_lost(connection, error):
            raise
        await _write_one_by_one(connection, batch)


async def _write_together(connection: Connection, batch: Sequence[Append]) -> None:
    """One statement for the appends, and one round trip for all that they enlist."""
    async with connection.transaction():
        taken = await connection.execute(SQL["append"], _columns(batch), prepare=True)
        accepted = {run_id for (run_id,) in await taken.fetchall()}
        async with connection.pipeline():
            for sql, parameters in (each for job in batch if job.run_id in accepted for each in job.enlist):
                await connection.execute(sql.encode(), parameters)
    for job in batch:
        job.error = None if job.run_id in accepted else conflict(job, -1, -1)


async def _write_one_by_one(connection: Connection, batch: Sequence[Append]) -> None:
    """As above when a statement failed: each append in a savepoint, so that only the faulty one is undone."""
    async with connection.transaction():
        for job in batch:
            try:
                async with connection.transaction():
                    await _write_enlisted(connection, job)
            except psycopg.Error as error:
                if is_lost(connection, error):
                    raise
                job.error = failure(error, f"run {job.run_id}", "nothing of this append was written")


async def _write_enlisted(connection: Connection, job: Append) -> None:
    taken = await connection.execute(SQL["append"], _columns([job]), prepare=True)
    if not await taken.fetchall():
        job.error = conflict(job, -1, -1)
        return
    for sql, parameters in job.enlist:
        await connection.execute(sql.encode(), parameters)


async def _explain(connection: Connection, refused: Sequence[Append], *, unknown: bool) -> None:
    """Say what stands in the way of a refused append; or, after a lost connection, see that it is itself."""
    if not refused:
        return
    found = await connection.execute(SQL["heads"], ([job.run_id for job in refused],))
    heads = {run_id: (last_seq, epoch) for run_id, last_seq, epoch, _ in await found.fetchall()}
    for job in refused:
        if isinstance(job.error, StoreError) and job.error.__cause__:
            continue
        job.error = conflict(job, *heads.get(job.run_id, (0, 0)))
        if unknown:
            written = await connection.execute(SQL["written"], (job.run_id, job.seq, job.last), binary=True)
            if await written.fetchall() == [(job.at, job.epoch, body) for body in job.bodies]:
                job.error, job.head = (
                    None,
                    b"",
                )  # hashed by the earlier try: what it wrote as head is the server's to say


def _columns(batch: Sequence[Append]) -> dict[str, Any]:
    """The batch as one list a column, for `unnest`, which fills up short ones with NULLs: what begins or ends a run stands first."""
    rare = [job for job in batch if not job.seq or job.change.outcome]
    batch = [*rare, *(job for job in batch if job.seq and not job.change.outcome)]
    changes = [job.change for job in batch]
    heads = [job.change.head or NO_HEAD for job in rare]
    blobs = [(digest, job.run_id, bytes(body)) for job in batch for digest, body in job.blobs.items()]
    return {
        "run_id": Texts([job.run_id for job in batch]),
        "seq": Integers([job.seq for job in batch]),
        "last": Integers([job.seq + len(job.bodies) for job in batch]),
        "epoch": Integers([job.epoch for job in batch]),
        "at": Floats([job.at for job in batch]),
        "last_kind": Texts([change.last_kind for change in changes]),
        "steps": Integers([change.steps for change in changes]),
        "before": Bodies([job.before for job in batch]),
        "chain": Bodies([b"".join((*job.hashes[:-1], job.head)) for job in batch]),
        "ended_at": Floats([job.change.ended_at for job in rare]),
        "outcome": Texts([job.change.outcome for job in rare]),
        **{
            name: Texts([head[n] for head in heads])
            for n, name in enumerate(("agent", "tenant", "goal", "protocol", "model", "kind"))
        },
        "entry_run": Texts([job.run_id for job in batch for _ in job.bodies]),
        "entry_seq": Integers([seq for job in batch for seq in range(job.seq + 1, job.seq + len(job.bodies) + 1)]),
        "entry_body": Bodies([body for job in batch for body in job.bodies]),
        "blob_digest": Texts([blob[0] for blob in blobs]),
        "blob_run": Texts([blob[1] for blob in blobs]),
        "blob_body": Bodies([blob[2] for blob in blobs]),
    }
