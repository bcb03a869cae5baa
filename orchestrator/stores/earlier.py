"""What earlier runs of a kind took: the `learned` minimum of the step bloat metric, as a run's first event holds it.

It is looked up once, when the run is begun, and stands in the Trace from then on: so the metric stays a function of the Trace alone,
whoever computes it, whenever, and whatever has been purged since. "Earlier" is what the index shows as answered at that time, up to
STALE seconds before.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakKeyDictionary

from orchestrator.core.events import Outcome, RunStarted
from orchestrator.stores import Store
from orchestrator.stores.row import excerpt

ENOUGH: Final = 20
"""Answered runs of a kind from which something can be learned."""
STALE: Final = 60.0
"""Seconds that a look into the index is good for."""
LOOKED_AT: Final = 2000
"""Answered runs of a tenant that one look reads, the newest first."""
PAGE: Final = 500
KEPT: Final = 200
"""Runs of one kind that are learned from."""
TENANTS: Final = 256


@dataclass(slots=True)
class _Look:
    """What one look into the index found: the steps of each kind's answered runs, the newest first."""

    at: float
    steps: Mapping[str, list[int]]


@dataclass(slots=True)
class _Looks:
    """The last look for each tenant."""

    of: OrderedDict[str, _Look] = field(default_factory=OrderedDict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


_looks: Final[WeakKeyDictionary[Store, _Looks]] = WeakKeyDictionary()


async def informed(store: Store, first: RunStarted, *, now: float) -> RunStarted:
    """The first event with what its kind has been seen to take; as it is when it has no kind, or a declared minimum. StoreError."""
    if first.run_kind is None or first.learned is not None or (first.min_steps or 0) >= 1:
        return first
    looks = _looks.setdefault(store, _Looks())
    async with looks.lock:
        look = looks.of.get(first.tenant)
        if look is None or not 0 <= now - look.at < STALE:
            look = looks.of[first.tenant] = _Look(now, await _steps(store, first.tenant))
            looks.of.move_to_end(first.tenant)
            while len(looks.of) > TENANTS:
                looks.of.popitem(last=False)
    return replace(first, learned=fewest(look.steps.get(excerpt(first.run_kind), ())))


def fewest(steps: list[int] | tuple[int, ...]) -> int | None:
    """The 10th percentile (nearest rank) of what ENOUGH runs took; None for less."""
    return sorted(steps)[-(-len(steps) // 10) - 1] if len(steps) >= ENOUGH else None


async def _steps(store: Store, tenant: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    after: tuple[float, str] | None = None
    for _ in range(LOOKED_AT // PAGE):
        page = await store.runs(outcome=Outcome.ANSWERED, tenant=tenant, after=after, limit=PAGE)
        for row in page:
            if row.kind is not None and row.steps and len(of := found.setdefault(row.kind, [])) < KEPT:
                of.append(row.steps)
        if len(page) < PAGE:
            break
        after = page[-1].key
    return found
