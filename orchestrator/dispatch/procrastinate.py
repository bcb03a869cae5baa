"""Dispatch over many machines: procrastinate 3 is the queue, in the database of the trace. One job is one slice of a run.

We pull: procrastinate's own Worker would push, one commit a job. Its JobManager works on our connection (joined.py), so that a
claim, the run's new epoch and the tenant's count are one transaction, and many claims are one commit. procrastinate gives the order,
delays, SKIP LOCKED, NOTIFY, heartbeats and the list of stalled jobs. Ours are the fence, the sweep, the reconciler, the
tenant limits (a lane, which is procrastinate's queue, for each tenant and set of needs) and de-duplication.
Its public API cannot say whether a worker is still known: that is read from its table `procrastinate_workers`.
"""

# ruff: noqa: D102  Dispatcher says what each method does
from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import NamedTuple

from procrastinate.jobs import Job as QueuedJob
from procrastinate.jobs import Status
from procrastinate.manager import JobManager

from orchestrator.core.events import RunStarted
from orchestrator.dispatch import Depth, DispatchRules, Job, Slice, Submitted
from orchestrator.dispatch.engine import Done, Engine, Fate, Parked
from orchestrator.dispatch.joined import SQL, Connection, Database
from orchestrator.dispatch.lines import TASK, Line, put_back, queue_again, requeue, submission
from orchestrator.dispatch.ticket import full, safe
from orchestrator.errors import StoreError
from orchestrator.stores.postgres import PostgresStore

LOOK = 0.5
"""Seconds between looks for delayed runs; new ones are announced."""

NUDGE_LOOK = 1.0
"""Seconds after which `nudged` looks though no notice came."""

HEAL_BATCH = 500
FORGOTTEN = 3600.0
"""Seconds after which procrastinate's line of a silent worker that held nothing is deleted."""


class Lane(NamedTuple):
    """A queue of procrastinate's: the runs of one tenant with the same needs."""

    name: str
    tenant: str
    needs: str


class ProcrastinateDispatcher(Engine):
    """The queue in the database of `store`, which may be open already and is left open."""

    def __init__(self, store: PostgresStore, rules: DispatchRules | None = None, *, look: float = LOOK) -> None:
        super().__init__(rules or DispatchRules(), look)
        self._store = store
        self._database: Database | None = None
        self._id: int | None = None
        self._nudges: set[str] = set()
        self._next_look = 0.0

    async def open(self) -> None:
        if self._database:
            return
        await self._store.open()
        database = Database(self._store.pool.conninfo)
        await database.open(self._hear)
        self._database = database

    async def close(self) -> None:
        if not self._database:
            return
        await self._hand_back()
        await self._forget(self._now())
        database, self._database = self._database, None
        await database.close()

    async def submit(self, job: Job, first: RunStarted, *, now: float) -> Submitted:
        self._tick(now)
        try:
            await self._store.append(job.run_id, 0, (first,), at=now, enlist=submission(job, now))
        except StoreError:
            known = await self._keyed(job)
            if known is None:
                raise
            return Submitted(known, fresh=False)
        return Submitted(job.run_id, fresh=True)

    async def sweep(self, *, now: float) -> int:
        self._tick(now)
        lease = self.rules.lease

        async def sweep(connection: Connection, jobs: JobManager) -> int:
            await connection.execute(SQL["lock sweep"])
            stalled = list(await jobs.get_stalled_jobs(task_name=TASK, seconds_since_heartbeat=lease))
            swept = await put_back(connection, jobs, [str(job.task_kwargs["run_id"]) for job in stalled], now)
            for job in stalled:
                if job.id not in swept:
                    await jobs.finish_job(job, Status.SUCCEEDED, delete_job=True)
            for worker in {job.worker_id for job in stalled if job.worker_id is not None}:
                await jobs.unregister_worker(worker)
            await jobs.prune_stalled_workers(max(FORGOTTEN, lease))
            return len(swept)

        return await self._db.transact("sweep", sweep)

    async def reconcile(self, *, now: float) -> int:
        self._tick(now)

        async def heal(connection: Connection, jobs: JobManager) -> int:
            await connection.execute(SQL["lock sweep"])
            for (job_id,) in await (await connection.execute(SQL["drop ended"])).fetchall():
                await jobs.cancel_job_by_id_async(job_id, delete_job=True)
            lines = [Line(*row) for row in await (await connection.execute(SQL["lost jobs"])).fetchall()]
            for line in lines:
                await requeue(connection, jobs, line, now, None)
            lost = await (await connection.execute(SQL["lost runs"], (HEAL_BATCH,))).fetchall()
            return len(lines) + await queue_again(connection, jobs, lost, now)

        total = 0
        while found := await self._db.transact("reconcile", heal):
            total += found
        return total

    async def depth(self, *, now: float) -> Depth:
        async def count(connection: Connection, _: JobManager) -> Depth:
            values = {"now": now, "lease": self.rules.lease}
            row = await (await connection.execute(SQL["depth"], values)).fetchone()
            return Depth(*row) if row else Depth()

        return await self._db.transact("depth", count)

    @property
    def _db(self) -> Database:
        if not self._database:
            raise StoreError("the dispatcher is closed; open it first")
        return self._database

    async def _claim(self, most: int, now: float, has: frozenset[str]) -> Sequence[Slice]:  # noqa: ARG002  the server's
        async def claim(connection: Connection, jobs: JobManager) -> tuple[int | None, list[Slice]]:
            worker = await self._known(connection, jobs)
            if worker is None:
                return None, []
            fetched = await self._fetch(connection, jobs, worker, most, has)
            if not fetched:
                return worker, []
            values = {"runs": list(fetched), "worker": worker}
            rows = await (await connection.execute(SQL["hold"], values)).fetchall()
            held = {run_id: Slice(run_id, epoch, tenant) for run_id, epoch, tenant in rows}
            for run_id in fetched.keys() - held.keys():
                await jobs.finish_job(fetched[run_id], Status.SUCCEEDED, delete_job=True)
            return worker, [held[run_id] for run_id in fetched if run_id in held]

        worker, taken = await self._db.transact("claim", claim)
        self._id = worker if worker is not None else self._id
        return taken

    async def _fetch(
        self, connection: Connection, jobs: JobManager, worker: int, most: int, has: frozenset[str]
    ) -> dict[str, QueuedJob]:
        """The next jobs by run id, in their order, from lanes whose needs we have and whose tenants have room."""
        held: dict[str, int] = {}
        if self.rules.limited:
            await connection.execute(SQL["lock claims"])
            held = dict(await (await connection.execute(SQL["held"])).fetchall())
        rows = await (await connection.execute(SQL["lanes"])).fetchall()
        lanes = {row[0]: Lane(*row) for row in rows if has.issuperset(json.loads(row[2]))}
        fetched: dict[str, QueuedJob] = {}
        while len(fetched) < most:
            barred = full(held, self.rules)
            open_lanes = [lane.name for lane in lanes.values() if lane.tenant not in barred]
            job = await jobs.fetch_job(open_lanes, worker) if open_lanes else None
            if job is None:
                break
            fetched[str(job.task_kwargs["run_id"])] = job
            tenant = lanes[job.queue].tenant
            held[tenant] = held.get(tenant, 0) + 1
        return fetched

    async def _let_go(self, taken: Slice, fate: Fate) -> None:
        mine = (taken.run_id, self._id, taken.epoch)

        async def finish(connection: Connection, jobs: JobManager) -> None:
            await connection.execute(SQL["soon"])
            for (job_id,) in await (await connection.execute(SQL["done"], mine)).fetchall():
                await jobs.finish_job_by_id_async(job_id, Status.SUCCEEDED, delete_job=True)

        async def hand_on(connection: Connection, jobs: JobManager) -> None:
            row = await (await connection.execute(SQL["mine"], mine)).fetchone()
            if row:
                parked = fate if isinstance(fate, Parked) and not row[-1] else None
                await requeue(connection, jobs, Line(*row[:-1]), self._now(), parked)

        await self._db.transact("let go of a run", finish if isinstance(fate, Done) else hand_on)

    async def _known(self, connection: Connection, jobs: JobManager) -> int | None:
        """This worker's id with procrastinate; registers it when it is new, None when it is taken for dead."""
        if self._id is None:
            return await jobs.register_worker()
        found = await connection.execute(SQL["known worker"], (self._id, self.rules.lease))
        return self._id if await found.fetchone() else None

    async def _renew(self, now: float) -> bool:  # noqa: ARG002  the server's clock says when
        async def renew(connection: Connection, jobs: JobManager) -> int | None:
            worker = await self._known(connection, jobs)
            if worker is not None:
                await jobs.update_heartbeat(worker)
            return worker

        renewed = await self._db.transact("heartbeat", renew)
        self._id = renewed if renewed is not None else self._id
        return renewed is not None

    async def _forget(self, now: float) -> None:
        async def forget(connection: Connection, jobs: JobManager) -> None:
            held = await (await connection.execute(SQL["held by"], (self._id,))).fetchall()
            await put_back(connection, jobs, [run_id for (run_id,) in held], now)
            if self._id is not None:
                await jobs.unregister_worker(self._id)

        await self._db.transact("sign off", forget)
        self._id = None

    async def _wake(self, run_id: str, now: float) -> None:
        async def wake(connection: Connection, jobs: JobManager) -> None:
            row = await (await connection.execute(SQL["line"], (run_id,))).fetchone()
            if row is None:
                await connection.execute(SQL["lock sweep"])
                lost = await (await connection.execute(SQL["lost run"], (run_id,))).fetchall()
                await queue_again(connection, jobs, lost, now)
                return
            *line, held, at = row
            if held:
                await connection.execute(SQL["wake holder"], (run_id,))
                await connection.execute(SQL["notify"], (run_id,))
            elif at > now:
                await requeue(connection, jobs, Line(*line), now, None)

        await self._db.transact("wake", wake)

    async def _woken(self, held: Sequence[str]) -> frozenset[str]:
        loop = asyncio.get_running_loop()
        if self._nudges.isdisjoint(held) and loop.time() < self._next_look:
            return frozenset()
        self._next_look = loop.time() + NUDGE_LOOK
        self._nudges.clear()

        async def heard(connection: Connection, _: JobManager) -> frozenset[str]:
            rows = await (await connection.execute(SQL["woken"], (self._id, list(held)))).fetchall()
            return frozenset(run_id for (run_id,) in rows)

        return await self._db.transact("nudges", heard)

    async def _keyed(self, job: Job) -> str | None:
        if job.key is None:
            return None
        key = (safe(job.tenant), safe(job.key))

        async def look(connection: Connection, _: JobManager) -> str | None:
            row = await (await connection.execute(SQL["keyed"], key)).fetchone()
            return str(row[0]) if row else None

        return await self._db.transact("look for a key", look)

    async def _hear(self, *, channel: str, payload: str) -> None:
        if channel == "orchestrator_slices" and payload:
            self._nudges.add(payload)
        self._news.set()
