"""A worker process for tests: `python -m tests.dispatch.process URL VERB ARGUMENT`. It says what it did on stdout, a line each.

`submit N`: submits N runs, of which it shares the keys with whoever does the same. `drain N`: takes and ends N runs, or until none has come for
a second. `hold N`: takes N runs and keeps them. `keep N`: the same without a heartbeat, so that it writes nothing until it is sent a
line; then it says whether its lease still holds, and tries to end what it has.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from orchestrator.core.events import Outcome, RunEnded, RunStarted
from orchestrator.dispatch import Dispatcher, DispatchRules, Job, Slice
from orchestrator.stores import Store

RULES = DispatchRules(beat=0.1, lease=2.0)


@asynccontextmanager
async def opened(url: str, *, beats: bool = True) -> AsyncIterator[tuple[Store, Dispatcher]]:
    store, dispatcher = _on_sqlite(url) if url.startswith("sqlite:") else _on_postgres(url)
    async with store:
        await dispatcher.open()
        beating = asyncio.create_task(_beat(dispatcher)) if beats else None
        yield store, dispatcher
        if beating:
            beating.cancel()
        await dispatcher.close()


async def _beat(dispatcher: Dispatcher) -> None:
    while True:
        await dispatcher.beat(now=time.time())
        await asyncio.sleep(RULES.beat)


def _on_sqlite(url: str) -> tuple[Store, Dispatcher]:
    from orchestrator.dispatch.sqlite import SqliteDispatcher
    from orchestrator.stores.sqlite import SqliteStore

    store = SqliteStore(Path(url.removeprefix("sqlite:")))
    return store, SqliteDispatcher(store, RULES)


def _on_postgres(url: str) -> tuple[Store, Dispatcher]:
    from orchestrator.dispatch.procrastinate import ProcrastinateDispatcher
    from orchestrator.stores.postgres import PostgresStore

    store = PostgresStore(url)
    return store, ProcrastinateDispatcher(store, RULES)


async def main(url: str, verb: str, count: int) -> None:
    async with opened(url, beats=verb != "keep") as (store, dispatcher):
        if verb == "submit":
            await _submit(dispatcher, count)
        elif verb == "drain":
            await _drain(store, dispatcher, count)
        else:
            held = await _taken(dispatcher, count)
            await _keep(dispatcher, held)


async def _submit(dispatcher: Dispatcher, count: int) -> None:
    jobs = [Job(f"{dispatcher.worker}.{n}", key=f"key-{n}") for n in range(count)]
    said = await asyncio.gather(*(dispatcher.submit(job, RunStarted("g"), now=time.time()) for job in jobs))
    for each in said:
        print(each.run_id if each.fresh else "", flush=True)


async def _drain(store: Store, dispatcher: Dispatcher, count: int) -> None:
    while count > 0:
        taken = await dispatcher.take(8, now=time.time(), has=frozenset(), wait=1.0)
        if not taken:
            return
        for each in taken:
            await store.append(each.run_id, 1, [RunEnded(Outcome.ANSWERED, "a")], at=time.time(), epoch=each.epoch)
            await dispatcher.done(each)
            print(each.run_id, flush=True)
        count -= len(taken)


async def _taken(dispatcher: Dispatcher, count: int) -> list[Slice]:
    held: list[Slice] = []
    while len(held) < count:
        held += await dispatcher.take(count, now=time.time(), has=frozenset())
    print(*(each.run_id for each in held), flush=True)
    return held


async def _keep(dispatcher: Dispatcher, held: list[Slice]) -> None:
    await asyncio.to_thread(sys.stdin.readline)
    print(await dispatcher.beat(now=time.time()), flush=True)
    for each in held:
        await dispatcher.done(each)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
