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
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from procrastinate.jobs import Job as QueuedJob
from procrastinate.manager import JobManager

from orchestrator.core.events import RunStarted
from orchestrator.dispatch import Depth, DispatchRules, Job, Slice, Submitted
from orchestrator.dispatch.engine import Done, Engine, Fate, Parked
from orchestrator.dispatch.gathered import Gathered
from orchestrator.dispatch.joined import SQL, Connection, Database
from orchestrator.dispatch.lines import TASK, Line, fetch, finish, put_back, queue_again, requeue, submission
from orchestrator.dispatch.ticket import full, lacking, safe
from orchestrator.errors import StoreError
from orchestrator.stores.postgres import PostgresStore

LOOK = 0.5
"""Seconds between looks for delayed runs; new ones are announced."""

NUDGE_LOOK = 1.0
"""Seconds after which `nudged` looks though no notice came."""

HEAL_BATCH = 500
FORGOTTEN = 3600.0
"""Seconds after which procrastinate's line of a silent worker that held nothing is deleted."""


class Offer(NamedTuple):
    """What a worker may claim from: the tenant of each lane, how many runs are due in it, and how many each tenant holds."""

    lanes: Mapping[str, str]
    ready: Counter[str]
    held: Counter[str]


class ProcrastinateDispatcher(Engine):
    """The queue in the database of `store`, which may be open already and is left open."""

    def __init__(self, store: PostgresStore, rules: DispatchRules | None = None, *, look: float = LOOK) -> None:
        super().__init__(rules or DispatchRules(), look)
        self._store = store
        self._database: Database | None = None
        self._id: int | None = None
        self._nudges: set[str] = set()
        self._next_look = 0.0
        self._endings = Gathered(self._end)

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
            ids = {job.id for job in stalled if job.id}
            swept = await put_back(connection, jobs, sorted(ids), now)
            await finish(connection, jobs, sorted(ids - swept))
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
            lines += [Line(*row) for row in await (await connection.execute(SQL["decided"], (now,))).fetchall()]
            for line in lines:
                await requeue(connection, jobs, line, now, None)
            lost = await (await connection.execute(SQL["lost runs"], (HEAL_BATCH,))).fetchall()
            return len(lines) + await queue_again(connection, jobs, lost, now)

        total = 0
        while found := await self._db.transact("reconcile", heal):
            total += found
        return total

    async def lacks(self, run_id: str, *, now: float) -> frozenset[str] | None:
        async def look(connection: Connection, _: JobManager) -> frozenset[str] | None:
            needs = await (await connection.execute(SQL["due needs"], (run_id, now))).fetchone()
            if needs is None:
                return frozenset()
            able = await (await connection.execute(SQL["abilities"], (self.rules.lease,))).fetchall()
            return lacking(json.loads(needs[0]), (json.loads(has) for (has,) in able))

        return await self._db.transact("look for what a run lacks", look)

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

    async def _claim(self, most: int, now: float, has: frozenset[str]) -> Sequence[Slice]:
        async def claim(connection: Connection, jobs: JobManager) -> tuple[int | None, list[Slice]]:
            worker = await self._known(connection, jobs)
            if worker is None:
                return None, []
            if worker != self._id or has != self._told:
                await connection.execute(SQL["able"], (worker, json.dumps(sorted(has))))
            offer = await self._offer(connection, now, most, has)
            fetched = await self._fetched(connection, jobs, worker, offer, most)
            return worker, await _held(connection, jobs, worker, fetched)

        worker, taken = await self._db.transact("claim", claim)
        self._id = worker if worker is not None else self._id
        return taken

    async def _offer(self, connection: Connection, now: float, most: int, has: frozenset[str]) -> Offer:
        """What is due and within what this worker has. Where tenants are limited, no other worker claims until we have."""
        held: Counter[str] = Counter()
        if self.rules.limited:
            await connection.execute(SQL["lock claims"])
            held.update(dict(await (await connection.execute(SQL["held"])).fetchall()))
        rows = await (await connection.execute(SQL["lanes"], {"now": now, "most": most})).fetchall()
        fit = [(name, tenant, ready) for name, tenant, needs, ready in rows if has.issuperset(json.loads(needs))]
        return Offer({name: tenant for name, tenant, _ in fit}, Counter({name: ready for name, _, ready in fit}), held)

    async def _fetched(
        self, connection: Connection, jobs: JobManager, worker: int, offer: Offer, most: int
    ) -> dict[str, QueuedJob]:
        """The next jobs by run id, in their order, from lanes whose tenants have room: as many at once as no limit can mind."""
        fetched: dict[str, QueuedJob] = {}
        lanes, ready, running = offer.lanes, offer.ready.copy(), offer.held.copy()
        while len(fetched) < most:
            barred = full(running, self.rules)
            able = [lane for lane, tenant in lanes.items() if tenant not in barred]
            limits = ((self.rules.limit(lanes[lane]), running[lanes[lane]]) for lane in able)
            room = min((limit - count for limit, count in limits if limit is not None), default=most)
            wanted = min(most - len(fetched), sum(ready[lane] for lane in able), room)
            found = await fetch(connection, jobs, able, worker, wanted)
            fetched.update((str(job.task_kwargs["run_id"]), job) for job in found)
            running.update(lanes[job.queue] for job in found)
            ready.subtract(job.queue for job in found)
            if not found or not self.rules.limited:
                break
        return fetched

    async def _let_go(self, taken: Slice, fate: Fate) -> None:
        if isinstance(fate, Done):
            await self._endings.add(taken)
            return

        async def hand_on(connection: Connection, jobs: JobManager) -> None:
            mine = (taken.run_id, self._id, taken.epoch)
            row = await (await connection.execute(SQL["mine"], mine)).fetchone()
            if row:
                parked = fate if isinstance(fate, Parked) and not row[-1] else None
                await requeue(connection, jobs, Line(*row[:-1]), self._now(), parked)

        await self._db.transact("let go of a run", hand_on)

    async def _end(self, ended: Sequence[Slice]) -> None:
        """Many at once, and soon enough on disk: that these runs have ended is known from their traces."""

        async def end(connection: Connection, jobs: JobManager) -> None:
            await connection.execute(SQL["soon"])
            values = {"runs": [each.run_id for each in ended], "epochs": [each.epoch for each in ended]}
            rows = await (await connection.execute(SQL["done"], {**values, "worker": self._id})).fetchall()
            await finish(connection, jobs, [job_id for (job_id,) in rows])

        await self._db.transact("end runs", end)

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
            await put_back(connection, jobs, [job_id for _, job_id in held], now)
            if self._id is not None:
                await jobs.unregister_worker(self._id)

        await self._db.transact("sign off", forget)
        self._id = None

    async def _strays(self, now: float, known: frozenset[str]) -> None:
        async def stray(connection: Connection, jobs: JobManager) -> None:
            held = await (await connection.execute(SQL["held by"], (self._id,))).fetchall()
            await put_back(connection, jobs, [job_id for run_id, job_id in held if run_id not in known], now)

        await self._db.transact("put strays back", stray)

    async def _wake(self, run_id: str, now: float) -> None:
        async def wake(connection: Connection, jobs: JobManager) -> None:
            row = await (await connection.execute(SQL["line"], (run_id,))).fetchone()
            if row is None:
                await connection.execute(SQL["lock sweep"])
                lost = await (await connection.execute(SQL["lost run"], (run_id,))).fetchall()
                await queue_again(connection, jobs, lost, now)
                return
            *line, held, delayed = row
            if held:
                await connection.execute(SQL["wake holder"], (run_id,))
                await connection.execute(SQL["notify"], (run_id,))
            elif delayed:
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


async def _held(connection: Connection, jobs: JobManager, worker: int, fetched: Mapping[str, QueuedJob]) -> list[Slice]:
    """Raise the epochs and write down who holds the runs, in their order. A job whose run is gone is gone, too."""
    if not fetched:
        return []
    rows = await (await connection.execute(SQL["hold"], {"runs": list(fetched), "worker": worker})).fetchall()
    held = {run_id: Slice(run_id, epoch, tenant) for run_id, epoch, tenant in rows}
    await finish(connection, jobs, [job.id for run_id, job in fetched.items() if run_id not in held and job.id])
    return [held[run_id] for run_id in fetched if run_id in held]
