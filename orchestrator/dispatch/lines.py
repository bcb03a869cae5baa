"""How a run's line in `slices` and its job with procrastinate move together. Each function is part of a transaction."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from procrastinate.jobs import Job as QueuedJob
from procrastinate.jobs import Status
from procrastinate.manager import JobManager

from orchestrator.core.events import RunStarted
from orchestrator.dispatch import Job, needs_of
from orchestrator.dispatch.engine import Parked
from orchestrator.dispatch.joined import KEY, SQL, SUBMIT, Connection
from orchestrator.dispatch.ticket import safe
from orchestrator.errors import StoreError
from orchestrator.stores import Statement
from orchestrator.stores.record import load

TASK = "orchestrator.slice"
AT_ONCE = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = 253_370_764_800.0
"""The year 9999: later is never."""


class Line(NamedTuple):
    """What requeueing a run needs to know of it."""

    run_id: str
    job_id: int
    lane: str
    priority: int


def submission(job: Job, now: float) -> tuple[Statement, ...]:
    """The statements that queue a run within the append of its first event.

    They call procrastinate's SQL function: its `defer_job_async(connection=...)` wants a transaction of its own, and would
    lose the group commit of the store.
    """
    tenant, needs = safe(job.tenant), json.dumps(sorted(job.needs))
    lane, at = _lane(tenant, needs), min(job.at, LATEST) if job.at > now else 0.0
    args = json.dumps({"run_id": job.run_id})
    line = (job.run_id, tenant, lane, job.priority, at, now)
    queued = (SUBMIT, (lane, tenant, needs, lane, TASK, job.priority, job.run_id, args, at or None, *line))
    return (queued,) if job.key is None else (queued, (KEY, (tenant, safe(job.key), job.run_id)))


async def fetch(
    connection: Connection, jobs: JobManager, lanes: Sequence[str], worker: int, most: int
) -> list[QueuedJob]:
    """Up to `most` jobs, in procrastinate's order. It gives one a call: the calls share a round trip.

    Until the server has statistics of a table that has just grown, it would sort the whole queue for each call: told not to
    sort, it walks the index that procrastinate keeps in that very order (200 claims/s against 1,800, 4,000 queued).
    """
    if most <= 0:
        return []
    await connection.execute(SQL["in order"])
    async with connection.pipeline():
        found = await asyncio.gather(*(jobs.fetch_job(lanes, worker) for _ in range(most)))
    return [job for job in found if job]


async def finish(connection: Connection, jobs: JobManager, job_ids: Sequence[int]) -> None:
    """These jobs are over, and leave no row."""
    async with connection.pipeline():
        await asyncio.gather(
            *(jobs.finish_job_by_id_async(job_id, Status.SUCCEEDED, delete_job=True) for job_id in job_ids)
        )


async def requeue(connection: Connection, jobs: JobManager, line: Line, now: float, parked: Parked | None) -> None:
    """Nobody holds the run any more: queue it, or let it wait. Its job keeps its place, unless it has to be made anew."""
    until = None if parked is None else min(max(parked.until, 0.0), LATEST)
    start = AT_ONCE if until is None else datetime.fromtimestamp(until, UTC)
    job_id = await _moved(connection, jobs, line, start)
    waits = parked is not None, parked is not None and parked.approval
    await connection.execute(SQL["put"], (job_id, until or 0.0, now, *waits, line.run_id))


async def put_back(connection: Connection, jobs: JobManager, job_ids: Sequence[int], now: float) -> frozenset[int]:
    """Fence off the holders of the runs of these jobs, then queue the runs; those jobs for which there is a held run."""
    if not job_ids:
        return frozenset()
    lines = [Line(*row) for row in await (await connection.execute(SQL["held lines"], (job_ids,))).fetchall()]
    await connection.execute(SQL["fence"], ([line.run_id for line in lines],))
    for line in lines:
        await requeue(connection, jobs, line, now, None)
    return frozenset(line.job_id for line in lines)


async def queue_again(
    connection: Connection, jobs: JobManager, rows: Sequence[tuple[str, str, bytes]], now: float
) -> int:
    """Queue open runs that have no line; what they need is in their first event."""
    for run_id, tenant, body in rows:
        needs: frozenset[str] = frozenset()
        with suppress(StoreError):
            first = load(body, run_id, 1)
            needs = needs_of(first) if isinstance(first, RunStarted) else needs
        for job in await jobs.list_jobs_async(queueing_lock=run_id, status="todo"):
            await jobs.cancel_job_by_id_async(job.id or 0, delete_job=True)
        for sql, values in submission(Job(run_id, tenant, needs=needs), now):
            await connection.execute(sql.encode(), values)
    return len(rows)


async def _moved(connection: Connection, jobs: JobManager, line: Line, start: datetime) -> int:
    """The run's job is `todo` from `start` on; its id."""
    for job in await jobs.list_jobs_async(id=line.job_id):
        if job.status == "doing":
            await jobs.retry_job_by_id_async(line.job_id, retry_at=start)
            await connection.execute(SQL["notify"], ("",))
            return line.job_id
        await jobs.cancel_job_by_id_async(line.job_id, delete_job=True)
    anew = QueuedJob(
        queue=line.lane,
        task_name=TASK,
        priority=line.priority,
        lock=None,
        queueing_lock=line.run_id,
        task_kwargs={"run_id": line.run_id},
        scheduled_at=start,
    )
    return (await jobs.defer_job_async(anew)).id or 0


def _lane(tenant: str, needs: str) -> str:
    """A short name: procrastinate announces it in a channel's, which has 63 bytes in all."""
    return "orchestrator." + hashlib.sha256(json.dumps([tenant, needs]).encode()).hexdigest()[:24]
