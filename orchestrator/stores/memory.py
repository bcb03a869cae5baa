"""Traces in memory: for tests and for runs that need not outlive the process. The same rules as the stores with a disk."""

# ruff: noqa: D102  Store says what each method does
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import astuple, replace

from orchestrator.core.chain import Chain
from orchestrator.core.events import Entry, Event, Trace
from orchestrator.errors import StoreError
from orchestrator.stores import Statement, Store
from orchestrator.stores.batch import chained, check_run_id, conflict, prepare
from orchestrator.stores.evidence import Evidence, evidence, stored_body
from orchestrator.stores.follow import Bell, tail
from orchestrator.stores.record import load
from orchestrator.stores.row import Ended, RunRow, excerpt, moved

NEVER = 3600.0
"""Seconds between looks of a follower: there is no other process to wait for."""


class MemoryStore(Store):
    """A Store without a disk. Nothing is durable; what is closed may be opened again and is still there."""

    def __init__(self, *, key: bytes = b"") -> None:
        self._chain = Chain(key)
        self._rows: dict[str, RunRow] = {}
        self._heads: dict[str, bytes] = {}
        self._entries: dict[str, list[tuple[float, int, bytes, bytes]]] = {}
        self._blobs: dict[tuple[str, str], bytes] = {}
        self._bell = Bell()
        self._opened = False

    async def open(self) -> None:
        self._opened = True

    async def close(self) -> None:
        self._opened = False
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
        self._check_open()
        if enlist:
            raise StoreError("the memory store has no SQL to enlist; keep the queue in memory, or use SQLite")
        job = prepare(run_id, seq, events, at=at, epoch=epoch, blobs=blobs, enlist=enlist)
        row = self._rows.get(run_id, RunRow(run_id))
        if row.last_seq != seq or row.epoch > epoch:
            raise conflict(job, row.last_seq, row.epoch)
        self._rows[run_id] = moved(row, job.last, job.at, job.change)
        chained(job, self._chain, self._heads.get(run_id, b""))
        self._heads[run_id] = job.head
        self._entries.setdefault(run_id, []).extend(
            (job.at, epoch, body, hashed) for body, hashed in zip(job.bodies, job.hashes, strict=True)
        )
        for digest, body in blobs.items():
            self._blobs.setdefault((digest, run_id), bytes(body))
        self._bell.ring([run_id])
        await asyncio.sleep(0)  # as with a disk, others have their turn
        return job.trace

    async def read(self, run_id: str, after: int = 0) -> Trace:
        return await self._page(run_id, after, len(self._entries.get(run_id, ())))

    def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Entry]:
        return tail(self._page, self._bell, run_id, after, NEVER)

    async def blob(self, digest: str) -> bytes | None:
        self._check_open()
        return next((body for (key, _), body in self._blobs.items() if key == digest), None)

    async def bump(self, run_id: str) -> int:
        self._check_open()
        check_run_id(run_id)
        row = self._rows.get(run_id, RunRow(run_id))
        self._rows[run_id] = replace(row, epoch=row.epoch + 1)
        return row.epoch + 1

    async def row(self, run_id: str) -> RunRow | None:
        self._check_open()
        row = self._rows.get(run_id)
        return row if row and row.last_seq else None

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
        self._check_open()
        found = [
            row
            for row in self._rows.values()
            if row.last_seq
            and (since is None or row.started_at >= since)
            and (until is None or row.started_at < until)
            and (outcome is None or (row.outcome or "open") == outcome)
            and (agent is None or row.agent == excerpt(agent))
            and (tenant is None or row.tenant == excerpt(tenant))
            and (after is None or row.key < after)
        ]
        return tuple(sorted(found, key=lambda row: row.key, reverse=True)[: max(limit, 0)])

    async def evidence(self, run_id: str, *, bodies: bool = False) -> Evidence:
        self._check_open()
        row = self._rows.get(run_id)
        return evidence(
            run_id,
            (*astuple(row), self._heads.get(run_id)) if row and row.last_seq else None,
            [(seq, *each) for seq, each in enumerate(self._entries.get(run_id, ()), 1)],
            [stored_body(digest, body, keep=bodies) for (digest, key), body in self._blobs.items() if key == run_id],
            0.0,
        )

    async def traced(self, since: float = 0.0) -> tuple[str, ...]:
        self._check_open()
        return tuple(key for key, row in self._rows.items() if row.last_seq and row.started_at >= since)

    async def purge(self, older_than: float) -> int:
        self._check_open()
        gone = {key for key, row in self._rows.items() if row.ended_at is not None and row.ended_at < older_than}
        for run_id in gone:
            del self._rows[run_id], self._entries[run_id], self._heads[run_id]
        self._blobs = {key: body for key, body in self._blobs.items() if key[1] not in gone}
        return len(gone)

    async def _page(self, run_id: str, after: int, limit: int) -> Trace:
        self._check_open()
        held = self._entries.get(run_id, [])[max(after, 0) : max(after, 0) + limit]
        return tuple(
            Entry(run_id, seq, at, load(body, run_id, seq))
            for seq, (at, _, body, _) in enumerate(held, max(after, 0) + 1)
        )

    def _check_open(self) -> None:
        if not self._opened:
            raise StoreError("the memory store is closed; open it, or use `async with`")
