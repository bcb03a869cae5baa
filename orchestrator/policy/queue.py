"""Whose turn is it? Round-robin over tenants, within a tenant over its runs, first come first served within a run.

A tenant with a thousand waiting calls delays another tenant's first call by one turn. Pure; every operation is O(1).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items of (tenant, run). An item must be hashable and may be in the queue once."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, OrderedDict[str, OrderedDict[T, None]]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, tenant: str, run: str, item: T) -> None:
        """Stand at the end of the run's line."""
        self._tenants.setdefault(tenant, OrderedDict()).setdefault(run, OrderedDict())[item] = None
        self._length += 1

    def first(self) -> T:
        """Who is next. LookupError when nobody is."""
        if not self._length:
            raise LookupError("nobody waits")
        runs = next(iter(self._tenants.values()))
        return next(iter(next(iter(runs.values()))))

    def pop(self) -> T:
        """Take who is next; his run goes behind the tenant's other runs, his tenant behind the other tenants."""
        item = self.first()
        tenant, runs = next(iter(self._tenants.items()))
        run = next(iter(runs))
        runs.move_to_end(run)
        self._tenants.move_to_end(tenant)
        self.discard(tenant, run, item)
        return item

    def discard(self, tenant: str, run: str, item: T) -> None:
        """Leave the line, if still in it."""
        runs = self._tenants.get(tenant, OrderedDict())
        line = runs.get(run, OrderedDict())
        if item not in line:
            return
        del line[item]
        self._length -= 1
        if not line:
            del runs[run]
        if not runs:
            del self._tenants[tenant]
