"""What a caller hands to the writer of a store: one append, checked and serialised, and the future that answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.core.chain import Chain, digest_of, newest
from orchestrator.core.events import Entry, Event, Trace
from orchestrator.errors import Conflict, StoreError
from orchestrator.stores import Statement
from orchestrator.stores.record import dump
from orchestrator.stores.row import Change, change

LONGEST_RUN_ID = 200
LARGEST = 2**62


@dataclass(slots=True, eq=False)
class Append:
    """One append on its way: what the writer needs, and nothing that could fail for a reason of its own."""

    run_id: str
    seq: int
    at: float
    epoch: int
    trace: Trace
    bodies: Sequence[bytes]
    digests: Sequence[bytes]
    change: Change
    blobs: Mapping[str, bytes]
    enlist: Sequence[Statement]
    hashes: Sequence[bytes] = ()
    before: bytes = b""
    head: bytes = b""
    error: BaseException | None = None
    future: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def last(self) -> int:
        """The seq of the newest entry, once this append is written."""
        return self.seq + len(self.bodies)

    @property
    def result(self) -> Trace:
        """What the caller gets."""
        return self.trace


def prepare(  # noqa: PLR0913  the arguments of Store.append
    run_id: str,
    seq: int,
    events: Sequence[Event],
    *,
    at: float,
    epoch: int,
    blobs: Mapping[str, bytes],
    enlist: Sequence[Statement],
) -> Append:
    """The append, or a StoreError for what no database could hold: it must not spoil the batch of the others."""
    check_run_id(run_id)
    if not events or not (0 <= seq < LARGEST and 0 <= epoch <= LARGEST):
        raise StoreError(
            f"run {run_id}: an append needs events, a seq and an epoch from 0; got {len(events)}, {seq}, {epoch}"
        )
    at = float(at) + 0.0  # no database keeps a negative zero
    bodies = [dump(event) for event in events]
    trace = tuple([Entry(run_id, seq + n, at, event) for n, event in enumerate(events, 1)])
    digests = list(map(digest_of, bodies))
    return Append(run_id, seq, at, epoch, trace, bodies, digests, change(events, at), blobs, enlist)


def chained(job: Append, chain: Chain, before: bytes) -> None:
    """Hash the entries of this append after `before`, the head that the store holds for the run."""
    first = newest(before) if job.seq else b""
    hashes = chain.links(first, job.run_id, job.seq, job.at, job.epoch, job.digests)
    job.hashes, job.before, job.head = hashes, before, chain.head(job.run_id, job.last, hashes[-1])


def check_run_id(run_id: str) -> None:
    """A run id is printable text of 1 to 200 characters. StoreError otherwise."""
    if not (run_id.isprintable() and 0 < len(run_id) <= LONGEST_RUN_ID):
        raise StoreError(f"run id {run_id[:80]!r}: a run id is 1 to {LONGEST_RUN_ID} printable characters")


def conflict(job: Append, last_seq: int, epoch: int) -> Conflict:
    """Why the store refuses this append, given what it holds."""
    if epoch > job.epoch:
        return Conflict(f"run {job.run_id}: epoch {job.epoch} lost its claim to epoch {epoch}; let go of the run")
    if last_seq == job.seq:
        return Conflict(
            f"run {job.run_id}: the index holds another hash of entry {job.seq}; let go of the run, read again"
        )
    return Conflict(
        f"run {job.run_id}: expected {job.seq} entries, the store holds {last_seq}; let go of the run, read again"
    )


def settle(jobs: Sequence[Any]) -> None:
    """Answer the callers, in the event loop. A caller that was cancelled meanwhile is not there to hear."""
    for job in jobs:
        if job.future.done():
            continue
        if job.error is None:
            job.future.set_result(job.result)
        else:
            job.future.set_exception(job.error)
