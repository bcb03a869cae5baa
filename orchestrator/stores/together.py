"""Traces that one turn of the event loop asks a server for, read in few queries.

A query costs the loop half a millisecond whatever it brings: a connection from the pool, a look whether it still lives, two
messages. A thousand runs that begin or go on at once need not pay that a thousand times.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from orchestrator.errors import StoreError

TOGETHER = 16
"""Traces of one query: they are in memory at once, and a long one holds up no more than these."""

Rows: TypeAlias = list[tuple[Any, ...]]


@dataclass(slots=True, eq=False)
class Asked:
    """The entries of a run after seq `after`."""

    run_id: str
    after: int
    future: asyncio.Future[Rows] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Together:
    """`query(run_ids, afters)` gives rows of (place in these lists from 1, *columns), for each place in order."""

    def __init__(self, query: Callable[[list[str], list[int]], Awaitable[Rows]]) -> None:
        self._query = query
        self._gathered: list[Asked] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(self, run_id: str, after: int) -> Rows:
        """The columns of the entries of a run after seq `after`, in order. Raises StoreError."""
        asked = Asked(run_id, after)
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self._hand_over)
        self._gathered.append(asked)
        return await asked.future

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        for start in range(0, len(gathered), TOGETHER):
            task = asyncio.create_task(self._answer(gathered[start : start + TOGETHER]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, several: Sequence[Asked]) -> None:
        found: dict[int, Rows] = defaultdict(list)
        error: StoreError | None = StoreError("the store was closed before the trace was read; open it and read again")
        try:
            for place, *columns in await self._query(
                [each.run_id for each in several], [each.after for each in several]
            ):
                found[place].append(tuple(columns))
            error = None
        except StoreError as failed:
            error = failed
        finally:
            for place, each in enumerate(several, 1):
                if each.future.done():
                    continue
                if error is None:
                    each.future.set_result(found[place])
                else:
                    each.future.set_exception(error)
