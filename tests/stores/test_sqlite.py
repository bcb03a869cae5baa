"""What only a file can suffer: killed processes, several processes, full disks, foreign files."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.errors import Conflict, StoreError
from orchestrator.stores import writer
from orchestrator.stores.sqlite import SqliteStore
from tests.stores.words import ACTING, ENDED, STARTED, TURN, WHOLE


def scribe(path: Path, name: str, runs: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.stores.scribe", str(path), name, runs]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])


async def test_after_kill_9_every_acknowledged_event_is_there(tmp_path: Path) -> None:
    path = tmp_path / "trace.db"
    with scribe(path, "a", "forever") as process:
        assert process.stdout
        lines = [process.stdout.readline() for _ in range(500)]
        process.kill()
        lines += process.stdout.read().splitlines()
    acknowledged: Counter[str] = Counter()
    for line in lines:
        run_id, _, seq = line.partition(" ")
        if line.endswith("\n") or seq.strip().isdigit():
            acknowledged[run_id] = max(acknowledged[run_id], int(seq))
    async with SqliteStore(path) as store:
        for run_id, last in acknowledged.items():
            trace = await store.read(run_id)
            row = await store.row(run_id)
            assert row
            assert len(trace) == row.last_seq >= last
            assert tuple(entry.event for entry in trace) == WHOLE[: len(trace)]


async def test_two_processes_share_one_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.db"
    with scribe(path, "a", "60") as first, scribe(path, "b", "60") as second:
        first.communicate()
        second.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    async with SqliteStore(path) as store:
        rows = await store.runs(limit=1000)
        assert len(rows) == 120
        assert {row.last_seq for row in rows} == {6}


async def test_two_stores_racing_for_one_run_never_both_win(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "trace.db") as one, SqliteStore(tmp_path / "trace.db") as two:

        async def climb(store: SqliteStore) -> int:
            won = seq = 0
            while seq < 40:
                try:
                    await store.append("r", seq, [ACTING], at=1.0)
                    won, seq = won + 1, seq + 1
                except Conflict:
                    seq = len(await store.read("r"))
            return won

        wins = await asyncio.gather(climb(one), climb(two))
        assert sum(wins) == len(await one.read("r"))


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """A disk that takes no more: writes beyond this size fail, as with a quota."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_disk_that_refuses_fails_appends_by_name_and_writing_goes_on_when_there_is_room(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "trace.db") as store:
        await store.append("r", 0, [STARTED], at=1.0)
        with largest_file(400_000):
            tries = [store.append(f"r{n}", 0, [STARTED], at=2.0, blobs={"b" * 64: bytes(500_000)}) for n in range(5)]
            ends = await asyncio.gather(store.append("r", 1, [TURN], at=2.0), *tries, return_exceptions=True)
            assert not isinstance(ends[0], BaseException), "a small append still fits, beside those that do not"
            assert all(isinstance(end, StoreError) and "trace.db" in str(end) for end in ends[1:])
            assert len(await store.read("r")) == 2
        await store.append("r0", 0, [STARTED], at=3.0, blobs={"b" * 64: bytes(500_000)})
        assert len(await store.blob("b" * 64) or b"") == 500_000
        assert [row.run_id for row in await store.runs()] == ["r0", "r"]


async def test_a_full_disk_is_told_as_such(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "trace.db") as store:
        await store.append("r", 0, [STARTED], at=1.0)
        await store.transaction(lambda connection: connection.execute("PRAGMA max_page_count = 1") and None)
        with pytest.raises(StoreError, match=r"trace\.db: database or disk is full; the disk is full: make room"):
            await store.append("r", 1, [TURN], at=2.0, blobs={"a" * 64: bytes(500_000)})
        await store.append("r", 1, [TURN], at=2.0)


async def test_a_lock_that_is_never_given_back_fails_within_the_bound(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "trace.db", busy=0.05) as store:
        other = sqlite3.connect(tmp_path / "trace.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process holds the write lock"):
            await store.append("r", 0, [STARTED], at=1.0)
        assert await store.read("r") == ()
        other.execute("ROLLBACK")
        other.close()
        await store.append("r", 0, [STARTED], at=1.0)


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the transactions that writers make from now on."""
    sizes: list[int] = []
    transact = writer.Writer._transact

    def counted(self: writer.Writer, batch: Sequence[writer.Job]) -> None:
        sizes.append(len(batch))
        transact(self, batch)

    monkeypatch.setattr(writer.Writer, "_transact", counted)
    return sizes


async def test_what_is_submitted_while_a_batch_is_on_its_way_goes_together(tmp_path: Path, batches: list[int]) -> None:
    async with SqliteStore(tmp_path / "trace.db") as store:
        other = sqlite3.connect(tmp_path / "trace.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        appends = []
        for n in range(20):
            appends.append(asyncio.create_task(store.append(f"r{n}", 0, [STARTED], at=1.0)))
            await asyncio.sleep(0.001)
        other.execute("ROLLBACK")
        other.close()
        await asyncio.gather(*appends)
        assert batches == [1, 1, 19], "the opening, the first append, and all others"


async def test_after_a_shared_batch_the_next_one_gathers_for_a_while(
    tmp_path: Path, batches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "WINDOW", 0.3)
    async with SqliteStore(tmp_path / "trace.db") as store:
        await asyncio.gather(*(store.append(f"r{n}", 0, [STARTED], at=1.0) for n in range(writer.SHARED)))
        appends = []
        for n in range(4):
            appends.append(asyncio.create_task(store.append(f"late{n}", 0, [STARTED], at=1.0)))
            await asyncio.sleep(0)
        await asyncio.gather(*appends)
        assert batches == [1, writer.SHARED, 4]
        await asyncio.gather(*(store.append(f"last{n}", 0, [STARTED], at=1.0) for n in range(writer.SHARED)))
    async with store:
        assert len(await store.runs(limit=100)) == 2 * writer.SHARED + 4, "closed within the window, and opened again"


async def test_a_transaction_takes_no_more_than_a_full_batch(
    tmp_path: Path, batches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FULL_BATCH", 8)
    async with SqliteStore(tmp_path / "trace.db") as store:
        await asyncio.gather(*(store.append(f"r{n}", 0, [STARTED], at=1.0) for n in range(20)))
        assert batches == [1, 8, 8, 4]
        late = [asyncio.create_task(store.append(f"late{n}", 0, [STARTED], at=1.0)) for n in range(20)]
        await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(*late)
        assert batches[4:] == [8, 8, 4], "closing writes what was submitted before"


async def test_a_path_that_cannot_be_a_database_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is no database, whatever its name says " * 100)
    with pytest.raises(StoreError, match="text: file is not a database; this is no SQLite database"):
        await SqliteStore(tmp_path / "text").open()
    with pytest.raises(StoreError, match=r"absent/trace.db: .*does the folder exist"):
        await SqliteStore(tmp_path / "absent" / "trace.db").open()


async def test_a_file_of_a_newer_release_is_left_alone(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "trace.db") as store:
        await store.transaction(lambda connection: connection.execute("PRAGMA user_version = 99") and None)
    with pytest.raises(StoreError, match="schema version 99 is newer"):
        await SqliteStore(tmp_path / "trace.db").open()


async def test_a_damaged_entry_is_named(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "trace.db") as store:
        await store.append("r", 0, WHOLE, at=1.0)
        for body in ("{", "[]", '{"kind": "dream"}', '{"kind": "run_ended", "outcome": 5}', '"x"', "null"):
            damage = ("UPDATE entries SET body = ? WHERE seq = 3", (body,))
            await store.transaction(lambda connection, damage=damage: connection.execute(*damage) and None)  # type: ignore[misc]
            with pytest.raises(StoreError, match="run r, entry 3"):
                await store.read("r")


async def test_enlisted_statements_stand_or_fall_with_their_append(tmp_path: Path) -> None:
    row = ("INSERT INTO jobs VALUES (?)", ("r",))
    async with SqliteStore(tmp_path / "trace.db") as store:
        await store.transaction(
            lambda connection: connection.execute("CREATE TABLE jobs (id TEXT PRIMARY KEY)") and None
        )
        await store.append("r", 0, [STARTED], at=1.0, enlist=[row])
        ends = await asyncio.gather(
            store.append("r", 0, [STARTED], at=1.0, enlist=[("INSERT INTO jobs VALUES (?)", ("conflict",))]),
            store.append("twice", 0, [STARTED], at=1.0, enlist=[row]),
            store.append("fine", 0, [STARTED], at=1.0),
            return_exceptions=True,
        )
        assert isinstance(ends[0], Conflict)
        assert isinstance(ends[1], StoreError)
        assert "UNIQUE constraint failed" in str(ends[1])
        assert len(await store.read("fine")) == 1
        assert await store.read("twice") == ()
        assert await store.transaction(lambda connection: connection.execute("SELECT id FROM jobs").fetchall()) == [
            ("r",)
        ]


async def test_a_transaction_that_raises_is_undone_and_tells_its_own_error(tmp_path: Path) -> None:
    def work(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM entries")
        raise LookupError("no such job")

    async with SqliteStore(tmp_path / "trace.db") as store:
        await store.append("r", 0, [STARTED, ENDED], at=1.0)
        with pytest.raises(LookupError, match="no such job"):
            await store.transaction(work)
        assert len(await store.read("r")) == 2
