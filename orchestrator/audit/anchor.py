"""A head that was written down elsewhere. The chain alone cannot show that a trace lost its end, or is gone as a whole; this can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from orchestrator.audit.verify import Verdict, verify
from orchestrator.audit.walk import Chains
from orchestrator.errors import StoreError
from orchestrator.stores import Store
from orchestrator.stores.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Anchor:
    """Entry `seq` of the run had this hash (None: it was not hashed). `ended_at` is when the run ended, None while it was open."""

    run_id: str
    seq: int
    hash: bytes | None
    ended_at: float | None


def compare(anchor: Anchor, found: Evidence, purged_before: float) -> Iterator[str]:
    """What the store lost or exchanged since the anchor was written. A run that ended before `purged_before` may be gone."""
    if not found.entries:
        if anchor.ended_at is None or anchor.ended_at >= purged_before:
            yield f"gone: the anchor knows {anchor.seq} entries of it; it was removed, or purged (then say --purged-after)"
        return
    there = next((entry for entry in found.entries if entry.seq == anchor.seq), None)
    if there is None:
        yield f"entry {anchor.seq} is missing, and the anchor knows it: the trace was cut off"
    elif there.hash != anchor.hash:
        yield f"entry {anchor.seq} has another hash than in the anchor: the trace was written anew up to there"
    elif anchor.ended_at is not None and found.entries[-1].seq != anchor.seq:
        yield f"entry {found.entries[-1].seq} was added after the end, entry {anchor.seq}"


async def verify_stored(
    store: Store, run_id: str, chains: Chains, anchor: Anchor | None = None, purged_before: float = 0.0
) -> Verdict:
    """The Verdict of a run in a store, also against an anchor if there is one. What the store cannot even read is a problem, too."""
    try:
        found = await store.evidence(run_id)
    except StoreError as error:
        return Verdict(run_id, 0, 0, 0, 0, 0, None, (f"what is stored cannot be read: {error}",))
    verdict = verify(found, chains)
    if anchor is None:
        return verdict
    there = found.entries or found.bodies or found.row or found.unreadable
    return replace(verdict, problems=(*(verdict.problems if there else ()), *compare(anchor, found, purged_before)))
