"""A process that writes to a SQLite file and prints each acknowledgement: `python -m tests.stores.scribe FILE NAME RUNS`.

It writes for ever if RUNS is "forever" (to be killed), else that many whole runs.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Iterable

from orchestrator.stores.sqlite import SqliteStore
from tests.stores.words import WHOLE


async def live(store: SqliteStore, run_id: str) -> None:
    for seq, event in enumerate(WHOLE):
        await store.append(run_id, seq, [event], at=1.0)
        os.write(1, f"{run_id} {seq + 1}\n".encode())


async def lane(store: SqliteStore, names: Iterable[str]) -> None:
    for name in names:
        await live(store, name)


async def main(path: str, name: str, runs: str) -> None:
    count = None if runs == "forever" else int(runs)
    async with SqliteStore(path) as store:
        numbers = iter(range(count)) if count else itertools.count()
        await asyncio.gather(*(lane(store, (f"{name}-{number}" for number in numbers)) for _ in range(20)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
