"""Dispatch for the processes of one machine: the queue is a few tables in the file of the trace, and joins its transactions."""

# ruff: noqa: D102  Dispatcher says what each method does
from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.core.events import RunStarted
from orchestrator.dispatch import Depth, DispatchRules, Job, Slice, Submitted, needs_of
from orchestrator.dispatch.engine import Done, Engine, Fate, Parked
from orchestrator.dispatch.ticket import admit, full, lacking, safe
from orchestrator.errors import StoreError
from orchestrator.stores import Statement
from orchestrator.stores.record import load
from orchestrator.stores.script import script
from orchestrator.stores.sqlite import SqliteStore

_SCRIPT = script(Path(__file__).with_name("sqlite.sql"))
SQL = _SCRIPT.queries

LOOK = 0.25
"""Seconds between looks at what other processes have queued."""

HEAL_BATCH = 500


class Ready(NamedTuple):
    """A queued run that this worker may take."""

    run_id: str
    tenant: str


class SqliteDispatcher(Engine):
    """The queue in the file of `store`, which may be open already and is left open."""

    def __init__(self, store: SqliteStore, rules: DispatchRules | None = None, *, look: float = LOOK) -> None:
        super().__init__(rules or DispatchRules(), look)
        self._store = store

    async def open(self) -> None:
        await self._store.open()
        await self._store.transaction(_migrate)

    async def close(self) -> None:
        await self._hand_back()
        await self._store.transaction(lambda db: db.execute(SQL["sign off"], (self.worker,)))

    async def submit(self, job: Job, first: RunStarted, *, now: float) -> Submitted:
        self._tick(now)
        try:
            await self._store.append(job.run_id, 0, (first,), at=now, enlist=(_submission(job, now),))
        except StoreError:
            known = await self._keyed(job)
            if known is None:
                raise
            return Submitted(known, fresh=False)
        self._news.set()
        return Submitted(job.run_id, fresh=True)

    async def sweep(self, *, now: float) -> int:
        self._tick(now)

        def swept(db: sqlite3.Connection) -> int:
            live = now - self.rules.lease
            lost = _column(db.execute(SQL["orphans"], (live,)))
            _put_back(db, lost, now)
            db.execute(SQL["forget workers"], (live,))
            return len(lost)

        return self._rung(await self._store.transaction(swept))

    async def reconcile(self, *, now: float) -> int:
        self._tick(now)

        def healed(db: sqlite3.Connection) -> int:
            db.execute(SQL["drop ended"])
            unheard = _column(db.execute(SQL["decided"]))
            for run_id in unheard:
                db.execute(SQL["wake"], {"run_id": run_id, "now": now})
            return len(unheard) + _queue_again(db, db.execute(SQL["lost runs"], (HEAL_BATCH,)).fetchall(), now)

        total = 0
        while found := await self._store.transaction(healed):
            total += found
        return self._rung(total)

    async def lacks(self, run_id: str, *, now: float) -> frozenset[str] | None:
        def look(db: sqlite3.Connection) -> tuple[list[str], list[str]]:
            needs = _column(db.execute(SQL["due needs"], {"run_id": run_id, "now": now}))
            return needs, _column(db.execute(SQL["abilities"], {"live": now - self.rules.lease})) if needs else []

        needs, able = await self._store.transaction(look)
        return lacking(json.loads(needs[0]), map(json.loads, able)) if needs else frozenset()

    async def depth(self, *, now: float) -> Depth:
        values = {"now": now, "live": now - self.rules.lease}
        return Depth(*await self._store.transaction(lambda db: db.execute(SQL["depth"], values).fetchone()))

    async def _claim(self, most: int, now: float, has: frozenset[str]) -> Sequence[Slice]:
        fresh = self._alive is None

        def claim(db: sqlite3.Connection) -> list[Slice]:
            if fresh:
                db.execute(SQL["register"], (self.worker, now))
            elif not db.execute(SQL["registered"], (self.worker,)).fetchone():
                return []
            if fresh or has != self._told:
                db.execute(SQL["able"], (json.dumps(sorted(has)), self.worker))
            db.execute(SQL["mature"], (now,))
            return self._chosen(db, most, now, has)

        return await self._store.transaction(claim)

    def _chosen(self, db: sqlite3.Connection, most: int, now: float, has: frozenset[str]) -> list[Slice]:
        held: dict[str, int] = dict(db.execute(SQL["held"]).fetchall()) if self.rules.limited else {}
        fit = [needs for needs in _column(db.execute(SQL["needs"])) if has.issuperset(json.loads(needs))]
        barred = sorted(full(held, self.rules))
        values = {"fit": json.dumps(fit), "full": json.dumps(barred), "page": 4 * most if self.rules.limited else most}
        ready = [Ready(*row) for row in db.execute(SQL["ready"], values).fetchall()]
        order = {each.run_id: place for place, each in enumerate(admit(ready, most, held, self.rules))}
        if not order:
            return []
        chosen = json.dumps(list(order))
        db.execute(SQL["fence"], (chosen,))
        rows = db.execute(SQL["claim"], {"worker": self.worker, "now": now, "chosen": chosen}).fetchall()
        return sorted((Slice(*row) for row in rows), key=lambda each: order[each.run_id])

    async def _let_go(self, taken: Slice, fate: Fate) -> None:
        values = {"run_id": taken.run_id, "worker": self.worker, "epoch": taken.epoch, "now": self._now()}
        move = "release"
        if isinstance(fate, Done):
            move = "done"
        elif isinstance(fate, Parked):
            move, values = "park", {**values, "until": fate.until, "approval": fate.approval}
        self._rung(await self._store.transaction(lambda db: db.execute(SQL[move], values).rowcount))

    async def _renew(self, now: float) -> bool:
        fresh = self._alive is None

        def renew(db: sqlite3.Connection) -> bool:
            known = fresh or db.execute(SQL["registered"], (self.worker,)).fetchone() is not None
            if known:
                db.execute(SQL["register"], (self.worker, now))
            return known

        return await self._store.transaction(renew)

    async def _forget(self, now: float) -> None:
        def forget(db: sqlite3.Connection) -> None:
            db.execute(SQL["sign off"], (self.worker,))
            _put_back(db, _column(db.execute(SQL["held by"], (self.worker,))), now)

        await self._store.transaction(forget)

    async def _strays(self, now: float, known: frozenset[str]) -> None:
        def stray(db: sqlite3.Connection) -> None:
            held = _column(db.execute(SQL["held by"], (self.worker,)))
            _put_back(db, [run_id for run_id in held if run_id not in known], now)

        await self._store.transaction(stray)

    async def _wake(self, run_id: str, now: float) -> None:
        def wake(db: sqlite3.Connection) -> int:
            if moved := db.execute(SQL["wake"], {"run_id": run_id, "now": now}).rowcount:
                return moved
            return _queue_again(db, db.execute(SQL["lost run"], (run_id,)).fetchall(), now)

        self._rung(await self._store.transaction(wake))

    async def _woken(self, held: Sequence[str]) -> frozenset[str]:
        def heard(db: sqlite3.Connection) -> list[str]:
            values = {"worker": self.worker, "held": json.dumps(list(held))}
            found: list[str] = _column(db.execute(SQL["woken"], values))
            if found:
                db.execute(SQL["heard"], {"worker": self.worker, "heard": json.dumps(found)})
            return found

        return frozenset(await self._store.transaction(heard))

    async def _keyed(self, job: Job) -> str | None:
        if job.key is None:
            return None
        key = (safe(job.tenant), safe(job.key))
        found = await self._store.transaction(lambda db: db.execute(SQL["keyed"], key).fetchone())
        return found and str(found[0])

    def _rung(self, count: int) -> int:
        """Something may be due: this process's waiting `take` looks at once."""
        if count:
            self._news.set()
        return count


def _migrate(db: sqlite3.Connection) -> None:
    db.execute(SQL["version table"])
    (version,) = db.execute(SQL["version"]).fetchone()
    if version > len(_SCRIPT.migrations):
        raise StoreError(f"queue schema version {version} is newer than this release; upgrade the orchestrator")
    for number, statements in enumerate(_SCRIPT.migrations[version:], version + 1):
        for statement in statements:
            db.execute(statement)
        db.execute(SQL["set version"], (number,))


def _submission(job: Job, now: float) -> Statement:
    state = "later" if job.at > now else "queued"
    needs = json.dumps(sorted(job.needs))
    key = None if job.key is None else safe(job.key)
    values = (job.run_id, safe(job.tenant), key, -job.priority, needs, state, job.at, max(job.at, now))
    return SQL["submit"], values


def _queue_again(db: sqlite3.Connection, rows: Sequence[tuple[str, str, str]], now: float) -> int:
    """Queue open runs that have no line; what they need is in their first event."""
    for run_id, tenant, body in rows:
        needs: frozenset[str] = frozenset()
        with suppress(StoreError):
            first = load(body, run_id, 1)
            needs = needs_of(first) if isinstance(first, RunStarted) else needs
        sql, values = _submission(Job(run_id, tenant, needs=needs), now)
        db.execute(sql, values)
    return len(rows)


def _put_back(db: sqlite3.Connection, lost: Sequence[str], now: float) -> None:
    """Fence off the holders, then queue the runs."""
    if lost:
        db.execute(SQL["fence"], (json.dumps(lost),))
        db.execute(SQL["put back"], {"now": now, "lost": json.dumps(lost)})


def _column(cursor: sqlite3.Cursor) -> list[Any]:
    return [value for (value,) in cursor.fetchall()]
