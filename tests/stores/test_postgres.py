"""What only a server can suffer: cut wires, restarts, deadlocks, many machines at once."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from orchestrator.core.events import ActionStarted
from orchestrator.errors import ConfigError, Conflict, StoreError
from orchestrator.stores.postgres import PostgresStore
from tests.postgres import OwnServer
from tests.stores.wire import Cut, Wire
from tests.stores.words import ACTING, SEEN, STARTED, TURN, WHOLE


@pytest.mark.parametrize("cut", ["request", "reply"])
async def test_an_append_whose_fate_is_unknown_is_written_exactly_once(postgres_url: str, cut: Cut) -> None:
    async with Wire(postgres_url) as wire, PostgresStore(wire.url) as store:
        await store.append("r", 0, [STARTED], at=1.0)
        wire.cut(cut, "raw body")
        written = await store.append("r", 1, [TURN, ACTING], at=2.0, blobs={"a" * 64: b"raw body"})
        assert wire.lost.is_set()
        assert (await store.read("r"))[1:] == written
        await store.append("r", 3, [SEEN], at=3.0)


@pytest.mark.parametrize("cut", ["request", "reply"])
async def test_a_run_whose_first_append_was_cut_starts_exactly_once(postgres_url: str, cut: Cut) -> None:
    async with Wire(postgres_url) as wire, PostgresStore(wire.url) as store:
        await store.append("warm", 0, [STARTED], at=1.0)
        wire.cut(cut, "r7")
        await asyncio.gather(*(store.append(f"r{n}", 0, [STARTED, TURN], at=2.0) for n in range(10)))
        assert wire.lost.is_set()
        rows = await store.runs()
        assert len(rows) == 11
        assert {(row.steps, row.last_seq) for row in rows[:10]} == {(1, 2)}


async def test_what_another_wrote_while_the_wire_was_cut_is_a_conflict(postgres_url: str) -> None:
    async with Wire(postgres_url) as wire, PostgresStore(wire.url) as store, PostgresStore(postgres_url) as rival:
        await store.append("r", 0, [STARTED], at=1.0)
        wire.cut("request", "model_turn")
        wire.down = True
        mine = asyncio.ensure_future(store.append("r", 1, [TURN], at=2.0))
        await wire.lost.wait()
        theirs = await rival.append("r", 1, [ACTING], at=2.0)
        wire.down = False
        with pytest.raises(Conflict):
            await mine
        assert (await rival.read("r"))[1:] == theirs


async def test_a_server_that_stays_away_fails_the_append_within_patience(postgres_url: str) -> None:
    async with Wire(postgres_url) as wire, PostgresStore(wire.url, patience=1.0) as store:
        await store.append("r", 0, [STARTED], at=1.0)
        wire.cut("request", "model_turn")
        wire.down = True
        with pytest.raises(StoreError, match=r"run r: PostgreSQL: .*could not be reached"):
            await store.append("r", 1, [TURN], at=2.0)
        wire.down = False
        await store.append("r", 1, [TURN], at=2.0)


async def test_closing_does_not_wait_for_a_server_that_is_away(postgres_url: str) -> None:
    async with Wire(postgres_url) as wire:
        store = PostgresStore(wire.url, patience=60)
        await store.open()
        await store.append("r", 0, [STARTED], at=1.0)
        wire.cut("request", "model_turn")
        wire.down = True
        lost = asyncio.ensure_future(store.append("r", 1, [TURN], at=2.0))
        await wire.lost.wait()
        async with asyncio.timeout(5):
            await store.close()
        with pytest.raises(StoreError):
            await lost


async def test_appends_outlast_a_restart_of_the_server() -> None:
    server = await asyncio.to_thread(OwnServer)
    async with PostgresStore(server.url) as store:
        await store.append("r", 0, [STARTED], at=1.0)
        await asyncio.to_thread(server.stop)
        waiting = asyncio.ensure_future(store.append("r", 1, [TURN], at=2.0))
        await asyncio.sleep(0)
        await asyncio.to_thread(server.start)
        await waiting
        await store.append("r", 2, [ACTING], at=3.0)
        assert len(await store.read("r")) == 3
    await asyncio.to_thread(server.remove)


async def test_two_machines_writing_the_same_runs_conflict_but_never_fail(postgres_url: str) -> None:
    async with PostgresStore(postgres_url) as one, PostgresStore(postgres_url) as two:

        async def climb(store: PostgresStore, run_id: str) -> int:
            won = seq = 0
            while seq < 10:
                try:
                    seq = (await store.append(run_id, seq, [ACTING], at=1.0))[-1].seq
                    won += 1
                except Conflict:
                    seq = len(await store.read(run_id))
            return won

        names = [f"r{n}" for n in range(20)]
        await asyncio.gather(*(climb(one, name) for name in names), *(climb(two, name) for name in reversed(names)))
        assert {row.last_seq for row in await one.runs(limit=50)} <= {10, 11}
        assert {row.run_id: row.last_seq for row in await one.runs(limit=50)} == {
            name: len(await two.read(name)) for name in names
        }


async def test_many_processes_may_open_a_new_database_at_once(postgres_url: str) -> None:
    stores = [PostgresStore(postgres_url) for _ in range(6)]
    await asyncio.gather(*(store.open() for store in stores))
    await asyncio.gather(*(store.append(f"r{n}", 0, [STARTED], at=1.0) for n, store in enumerate(stores)))
    assert len(await stores[0].runs()) == 6
    await asyncio.gather(*(store.close() for store in stores))


async def test_a_database_of_a_newer_release_is_left_alone(postgres_url: str) -> None:
    async with PostgresStore(postgres_url) as store, store.pool.connection() as connection:
        await connection.execute("INSERT INTO orchestrator_schema VALUES (99)")
    with pytest.raises(StoreError, match="version 99 is newer"):
        await PostgresStore(postgres_url).open()


async def test_enlisted_statements_stand_or_fall_with_their_append(postgres_url: str) -> None:
    def row(name: str) -> tuple[str, tuple[str]]:
        return ("INSERT INTO waiting VALUES (%s)", (name,))

    async with PostgresStore(postgres_url) as store, store.pool.connection() as connection:
        await connection.execute("CREATE TABLE waiting (id text PRIMARY KEY)")
        await store.append("r", 0, [STARTED], at=1.0, enlist=[row("r")])
        ends = await asyncio.gather(
            store.append("r", 0, [STARTED], at=1.0, enlist=[row("conflict")]),
            store.append("twice", 0, [STARTED], at=1.0, enlist=[row("r")]),
            store.append("fine", 0, [STARTED], at=1.0, enlist=[row("fine")]),
            store.append("plain", 0, [STARTED], at=1.0),
            return_exceptions=True,
        )
        assert isinstance(ends[0], Conflict)
        assert isinstance(ends[1], StoreError)
        assert "duplicate key" in str(ends[1])
        assert await store.read("twice") == ()
        assert [len(await store.read(name)) for name in ("r", "fine", "plain")] == [1, 1, 1]
        found = await (await connection.execute("SELECT id FROM waiting ORDER BY id")).fetchall()
        assert found == [("fine",), ("r",)]


@pytest.mark.parametrize("cut", ["request", "reply"])
async def test_an_enlisted_append_that_was_cut_is_written_exactly_once(postgres_url: str, cut: Cut) -> None:
    async with Wire(postgres_url) as wire, PostgresStore(wire.url) as store, store.pool.connection() as connection:
        await connection.execute("CREATE TABLE waiting (id text)")
        await store.append("warm", 0, [STARTED], at=1.0)
        wire.cut(cut, "COMMIT")
        await store.append("r", 0, [STARTED], at=1.0, enlist=[("INSERT INTO waiting VALUES (%s)", ("r",))])
        assert wire.lost.is_set()
    async with PostgresStore(postgres_url) as store, store.pool.connection() as connection:
        assert await (await connection.execute("SELECT id FROM waiting")).fetchall() == [("r",)]
        assert len(await store.read("r")) == 1


async def test_one_append_that_the_server_refuses_spoils_nobody_elses(postgres_url: str) -> None:
    async with PostgresStore(postgres_url) as store, store.pool.connection() as connection:
        await connection.execute("ALTER TABLE entries ADD CHECK (run_id <> 'r3')")
        ends = await asyncio.gather(
            *(store.append(f"r{n}", 0, WHOLE, at=1.0) for n in range(6)), return_exceptions=True
        )
        assert [isinstance(end, StoreError) for end in ends] == [n == 3 for n in range(6)]
        assert await store.row("r3") is None


async def test_a_follower_hears_other_machines_without_looking(postgres_url: str) -> None:
    async with PostgresStore(postgres_url, look=60) as here, PostgresStore(postgres_url) as there:
        await there.append("r", 0, [STARTED], at=1.0)
        heard: asyncio.Queue[int] = asyncio.Queue()

        async def follow() -> None:
            async for entry in here.follow("r"):
                heard.put_nowait(entry.seq)

        follower = asyncio.ensure_future(follow())
        async with asyncio.timeout(10):
            for seq in range(1, 6):
                assert await heard.get() == seq
                await there.append("r", seq, [ActionStarted(f"1.{seq}")], at=2.0)
        follower.cancel()


async def test_a_url_that_leads_nowhere_says_what_to_do(postgres_server: str) -> None:
    with pytest.raises(ConfigError, match="write postgresql://"):
        PostgresStore("not a url")
    with pytest.raises(StoreError, match="is the server up"):
        await PostgresStore("postgresql://127.0.0.1:1/x").open()
    absent = psycopg.conninfo.make_conninfo(postgres_server, dbname="absent")
    with pytest.raises(StoreError, match="open: PostgreSQL: "):
        await PostgresStore(absent).open()
