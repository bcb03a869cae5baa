"""Every store hashes what it stores: the same chain for the same entries, whoever goes on with a run."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
import pytest

from orchestrator import stores
from orchestrator.audit import Chains, verify
from orchestrator.core.chain import HASH
from orchestrator.errors import Conflict
from orchestrator.stores import Store
from orchestrator.stores.file import SQL, VERSION
from orchestrator.stores.memory import MemoryStore
from orchestrator.stores.postgres import PostgresStore
from orchestrator.stores.record import dump
from orchestrator.stores.row import RunRow, change, moved
from orchestrator.stores.sqlite import SqliteStore
from tests.stores.conftest import Connect
from tests.stores.words import ACTING, ANSWER, ENDED, SEEN, STARTED, TURN, WHOLE

KEYS = Chains()


async def test_every_store_makes_the_same_chain(store: Store) -> None:
    async with MemoryStore() as reference:
        for each in (store, reference):
            await each.append("r", 0, [STARTED], at=7)
            await each.append("r", 1, [TURN, ACTING], at=8.25, epoch=2)
            await each.append("r", 3, [SEEN], at=9.125, epoch=2)
        ours, theirs = await store.evidence("r"), await reference.evidence("r")
    assert [entry.hash for entry in ours.entries] == [entry.hash for entry in theirs.entries]
    assert ours.head == theirs.head == ours.entries[-1].hash
    assert len(ours.head or b"") == HASH


async def test_the_evidence_is_what_is_stored(store: Store) -> None:
    body, digest = b"raw" * 4000, "8" * 64
    await store.append("r", 0, [STARTED, TURN], at=1.5, epoch=3, blobs={digest: body})
    found = await store.evidence("r", bodies=True)
    assert found.row == await store.row("r")
    assert [(entry.seq, entry.at, entry.epoch) for entry in found.entries] == [(1, 1.5, 3), (2, 1.5, 3)]
    assert [(each.digest, each.size, each.body) for each in found.bodies] == [(digest, len(body), body)]
    assert (await store.evidence("r")).bodies[0].body is None
    assert (await store.evidence("other")).entries == ()


async def test_who_takes_a_run_over_goes_on_with_its_chain(connect: Connect) -> None:
    async with connect() as one, connect() as other:
        await one.append("r", 0, [STARTED], at=1)
        await other.append("r", 1, [TURN, ACTING], at=2, epoch=await other.bump("r"))
        await one.append("r", 3, [SEEN], at=3, epoch=await one.bump("r"))
        await other.append("r", 4, [ANSWER, ENDED], at=4, epoch=await other.bump("r"))
        assert verify(await one.evidence("r"), KEYS).problems == ()


async def test_an_id_that_was_purged_begins_a_new_chain(connect: Connect) -> None:
    async with connect() as one, connect() as other:
        for each in (one, other):
            await each.append("r", 0, WHOLE, at=1)
            assert verify(await one.evidence("r"), KEYS).problems == ()
            assert await each.purge(2) == 1
        assert await one.traced() == ()


async def test_traced_knows_runs_by_their_start(store: Store) -> None:
    await store.append("old", 0, [STARTED], at=10)
    await store.append("new", 0, [STARTED], at=20)
    assert set(await store.traced()) == {"old", "new"}
    assert await store.traced(15) == ("new",)
    await store.bump("only claimed")
    assert "only claimed" not in await store.traced()


def before_hashing(path: Path) -> None:
    """A file as the release before hashing left it, with a run under way."""
    connection = sqlite3.connect(path)
    script = (
        Path(stores.__file__)
        .with_name("sqlite.sql")
        .read_text("utf-8")
        .split("-- [migration 2]")[0]
        .split("-- [migration 1]")[1]
    )
    connection.executescript(script)
    connection.execute("PRAGMA user_version = 1")
    connection.execute("INSERT INTO runs (run_id, agent, last_seq, last_at, started_at) VALUES ('r', 'scout', 0, 1, 1)")
    connection.commit()
    connection.close()


async def test_entries_from_before_hashing_are_said_to_be_not_covered(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    before_hashing(path)
    connection = sqlite3.connect(path, isolation_level=None)
    old_release(connection, "r", 0, 2)
    async with SqliteStore(path) as store:
        await store.append("r", 2, [ACTING], at=3.0, epoch=1)
        old_release(connection, "r", 3, 4)  # side by side, during the upgrade
        await store.append("r", 4, [ANSWER, ENDED], at=5.0, epoch=1)
        found = verify(await store.evidence("r"), KEYS)
    assert (found.problems, found.uncovered, found.plain) == ((), 3, 3)
    assert "3 written before hashing: not covered" in found.summary
    connection.execute("DELETE FROM entries WHERE seq = 2")
    async with SqliteStore(path) as store:
        (problem, *_) = verify(await store.evidence("r"), KEYS).problems
    assert "entry 2 is missing" in problem
    connection.close()


def old_release(connection: sqlite3.Connection, run_id: str, after: int, last: int) -> None:
    """What the release before wrote: no hash, the head left as it is."""
    events = WHOLE[after:last]
    row = RunRow(run_id, last_seq=after, steps=min(after, 1), started_at=1.0, agent="scout", tenant="acme")
    for seq, event in enumerate(events, after + 1):
        values = (run_id, seq, float(seq), 1, dump(event).decode())
        connection.execute("INSERT INTO entries (run_id, seq, at, epoch, body) VALUES (?, ?, ?, ?, ?)", values)
        row = moved(row, seq, float(seq), change((event,), float(seq)))
    told = (row.goal, row.tenant, row.protocol, row.model, row.steps, row.last_seq, row.last_at, row.last_kind, run_id)
    goal = "goal = ?, tenant = ?, protocol = ?, model = ?, " if after == 0 else ""
    connection.execute(
        f"UPDATE runs SET {goal} steps = ?, last_seq = ?, last_at = ?, last_kind = ?, epoch = 1 WHERE run_id = ?",  # noqa: S608
        told if after == 0 else told[4:],
    )


async def test_a_new_sqlite_file_hashes_from_its_beginning(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "new.db") as store:
        await store.append("r", 0, [STARTED], at=1)
        assert (await store.evidence("r")).since == 0
    assert VERSION == 2
    assert "hashing" in SQL["evidence since"]


async def test_a_postgres_database_from_before_hashing_is_brought_up(postgres_url: str) -> None:
    async with PostgresStore(postgres_url) as store:
        await store.append("r", 0, [STARTED, TURN], at=1)
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
        for statement in (
            "DROP TABLE hashing",
            "ALTER TABLE runs DROP COLUMN head",
            "ALTER TABLE entries DROP COLUMN hash",
            "DELETE FROM orchestrator_schema WHERE version = 2",
        ):
            await connection.execute(statement.encode())
    async with PostgresStore(postgres_url) as store:
        await store.append("r", 2, [ACTING], at=2)
        found = await store.evidence("r")
    verdict = verify(found, KEYS)
    assert (verdict.problems, verdict.uncovered, verdict.plain) == ((), 2, 1)
    assert found.since > 1e9


async def test_a_head_that_was_exchanged_is_a_conflict_and_never_a_fork(postgres_url: str) -> None:
    async with PostgresStore(postgres_url) as store:
        await store.append("r", 0, [STARTED], at=1)
        async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
            await connection.execute("UPDATE runs SET head = %s", (bytes(HASH),))
        with pytest.raises(Conflict, match="the index holds another hash of entry 1"):
            await store.append("r", 1, [TURN], at=2)
        await store.append("r", 1, [TURN], at=2)  # read again, as a worker does
        problems = verify(await store.evidence("r"), KEYS).problems
    assert problems[0].startswith("entry 2 was altered")
