"""What budgeted tenants spend elsewhere: in other workers, and before this one began. Read from the traces, a little at a time.

Each look asks the index for the open runs and for those that began since the last look: whatever moved is among them, or was open
the last time. Of a run that moved only what is new is read, and nothing at all if each new turn was this worker's own, which its
Ledger has booked already. So a lone worker reads no trace twice, and n workers read each other's turns once each.

How far a tenant may overdraw: by the calls that are under way in other workers (only their own Ledger has them reserved), and by
what those have ended since the last look.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import structlog

from orchestrator.core.events import ModelTurn
from orchestrator.errors import StoreError
from orchestrator.model import Models
from orchestrator.policy import actual
from orchestrator.policy.budget import DAY
from orchestrator.stores import RunRow, Store
from orchestrator.worker.tenants import Metered

LOOK = 15.0
"""Seconds between two looks, give or take a fifth."""
SLACK = 60.0
"""Seconds by which the clocks of two workers may differ."""
PAGE = 1000

_log = structlog.stdlib.get_logger("orchestrator.worker")


@dataclass(frozen=True, slots=True)
class Seen:
    """How far a run's trace is booked: its entries, and the model turns among them."""

    seq: int = 0
    turns: int = 0


class Elsewhere:
    """Books into `meter.ledger` what others spent of the tenants' day. One of them for each worker."""

    def __init__(self, meter: Metered, store: Store) -> None:
        self._meter, self._store = meter, store
        self._seen: dict[str, Seen] = {}
        self._open: frozenset[str] = frozenset()
        self._looked: float | None = None

    async def keep(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(LOOK * random.uniform(0.8, 1.2))  # nosec B311  # jitter
            try:
                await self.look()
            except StoreError as error:
                _log.warning("no_look_at_budgets", error=str(error))

    async def look(self) -> None:
        """Book what is new. StoreError: the next look goes on where this one stopped."""
        now = self._meter.clock()
        found = await self._moving(now)
        for row in found.values():
            await self._book(row, now)
        self._seen = {run_id: seen for run_id, seen in self._seen.items() if run_id in found}
        self._open = frozenset(row.run_id for row in found.values() if row.outcome is None)
        self._looked = max(now, self._looked or now)

    async def _moving(self, now: float) -> dict[str, RunRow]:
        """The rows of all runs of budgeted tenants that may have moved since the last look."""
        budgeted, found = self._meter.ledger.allowances.keys(), dict[str, RunRow]()
        if self._looked is None:
            begun = [self._rows(tenant=tenant, since=now // DAY * DAY - DAY) for tenant in budgeted]
        else:
            begun = [self._rows(since=self._looked - SLACK)]
        for rows in (*begun, self._rows(outcome="open")):
            async for row in rows:
                if row.tenant in budgeted:
                    found[row.run_id] = row
        for run_id in self._open - found.keys():
            gone = await self._store.row(run_id)
            if gone is not None:
                found[run_id] = gone
        return found

    async def _rows(self, **filters: Any) -> AsyncIterator[RunRow]:
        after = None
        while page := await self._store.runs(**filters, after=after, limit=PAGE):
            for row in page:
                yield row
            after = page[-1].key

    async def _book(self, row: RunRow, now: float) -> None:
        """Book the turns of a run that are neither booked nor this worker's own."""
        midnight = now // DAY * DAY
        seen = self._seen.get(row.run_id, Seen())
        own = self._meter.own.get(row.run_id, set())
        new = range(seen.turns + 1, row.steps + 1)
        if row.last_at < midnight or own.issuperset(new):
            self._seen[row.run_id] = Seen(max(seen.seq, row.last_seq), max(seen.turns, row.steps))
            own.difference_update(new)
        elif row.last_seq > seen.seq:
            seq, turns = seen.seq, seen.turns
            trace = await self._store.read(row.run_id, after=seq)
            own = self._meter.own.get(row.run_id, set())  # a turn of ours may have come meanwhile
            for entry in trace:
                seq = entry.seq
                if isinstance(turn := entry.event, ModelTurn):
                    turns += 1
                    if turns not in own and entry.at >= midnight:
                        price = self._meter.prices.get(turn.model)
                        self._meter.ledger.spend(row.tenant, actual(turn.usage, price), now)
                    own.discard(turns)
            self._seen[row.run_id] = Seen(seq, turns)
        if row.outcome is not None or not own:
            self._meter.own.pop(row.run_id, None)


async def remember(models: Models, store: Store) -> Elsewhere | None:
    """Book what the traces of budgeted tenants say was spent today; None where no tenant has a budget. Then let it `keep`."""
    if not isinstance(models, Metered):
        return None
    elsewhere = Elsewhere(models, store)
    await elsewhere.look()
    return elsewhere
