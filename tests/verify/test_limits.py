"""What a chain alone cannot show, as facts: and what shows it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orchestrator.audit import Anchor, Chains, compare, verify, verify_stored
from orchestrator.core.chain import Chain, digest_of
from orchestrator.stores.sqlite import SqliteStore
from tests.verify.vault import SqliteVault
from tests.verify.world import KEY, fill

RUN = "run-open"
FORGED = '{"id":"1.0","key":"forged","kind":"action_started"}'


def rewrite(vault: SqliteVault, chain: Chain, last: int, row_kind: str) -> None:
    """What somebody does who can write the database and has read our source: the trace up to `last`, its third entry forged, hashed anew."""
    vault.do("DELETE FROM entries WHERE run_id = ? AND seq > ?", RUN, last)
    vault.do("UPDATE entries SET body = ? WHERE run_id = ? AND seq = 3", FORGED, RUN)
    newest = b""
    ((at, _),) = vault.ask("SELECT at, epoch FROM entries WHERE run_id = ? AND seq = ?", RUN, last)
    for seq, when, epoch, body in vault.ask(
        "SELECT seq, at, epoch, body FROM entries WHERE run_id = ? ORDER BY seq", RUN
    ):
        (newest,) = chain.links(newest, RUN, seq - 1, when, epoch, [digest_of(body.encode())])
        vault.do("UPDATE entries SET hash = ? WHERE run_id = ? AND seq = ?", newest, RUN, seq)
    head = chain.head(RUN, last, newest)
    vault.do(
        "UPDATE runs SET head = ?, last_seq = ?, last_at = ?, last_kind = ?, steps = 1 WHERE run_id = ?",
        *(head, last, at, row_kind, RUN),
    )


async def problems_after_rewriting(path: Path, key: bytes, by: Chain) -> tuple[Sequence[str], Sequence[str]]:
    """What `verify` says of it, and what an anchor says that was written before."""
    async with SqliteStore(path, key=key) as store:
        await fill(store)
        before = await store.evidence(RUN)
        anchor = Anchor(RUN, before.entries[-1].seq, before.entries[-1].hash, None)
        vault = SqliteVault(path)
        rewrite(vault, by, 4, "observation")
        vault.close()
        found = await store.evidence(RUN)
    return verify(found, Chains(key)).problems, tuple(compare(anchor, found, 0))


async def test_without_a_key_who_can_write_the_database_can_write_a_trace_anew_and_only_an_anchor_tells(
    tmp_path: Path,
) -> None:
    told, against_anchor = await problems_after_rewriting(tmp_path / "t.db", b"", Chain())
    assert told == ()
    assert against_anchor == ("entry 7 is missing, and the anchor knows it: the trace was cut off",)


async def test_with_a_key_he_cannot(tmp_path: Path) -> None:
    told, _ = await problems_after_rewriting(tmp_path / "t.db", KEY, Chain(b"another key, not the operator's"))
    assert "entries 1 to 4 are hashed with the key" in told[0]
    assert "neither `trace.key` nor one of `trace.old_keys`" in told[0]


async def test_a_trace_written_anew_without_the_key_is_said_to_have_none(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    await problems_after_rewriting(path, KEY, Chain())
    async with SqliteStore(path, key=KEY) as store:
        found = verify(await store.evidence(RUN), Chains(KEY))
    assert (found.plain, found.keyed) == (4, 0)
    assert "4 hashed without a key" in found.summary


async def test_with_a_key_the_end_cannot_be_cut_off_even_with_its_hashes(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    async with SqliteStore(path, key=KEY) as store:
        await fill(store)
        vault = SqliteVault(path)
        ((kept, at),) = vault.ask("SELECT hash, at FROM entries WHERE run_id = ? AND seq = 4", RUN)
        vault.do("DELETE FROM entries WHERE run_id = ? AND seq > 4", RUN)
        vault.do(
            "UPDATE runs SET head = ? || substr(head, 37), last_seq = 4, last_at = ?, steps = 1 WHERE run_id = ?",
            *(kept, at, RUN),
        )
        vault.close()
        told = verify(await store.evidence(RUN), Chains(KEY)).problems
    assert told == (
        "index: the seal over the head does not fit entry 4: entries were cut off, or the head was changed",
    )


async def test_a_key_that_was_changed_is_known_by_its_old_one(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    async with SqliteStore(path, key=b"the first key of the operator") as store:
        await fill(store)
    async with SqliteStore(path, key=KEY) as store:
        run = await store.read("run-answered")
        await store.append("run-2", 0, [run[0].event], at=1.0)
        assert verify(await store.evidence("run-answered"), Chains(KEY, b"the first key of the operator")).intact
        (problem, *_) = verify(await store.evidence("run-answered"), Chains(KEY)).problems
    assert "neither `trace.key` nor one of `trace.old_keys`" in problem


async def test_a_process_without_the_key_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    async with SqliteStore(path, key=KEY) as store, SqliteStore(path) as forgetful:
        await fill(store, forgetful)
        found = [await verify_stored(store, run_id, Chains(KEY)) for run_id in ("run-answered", "run-taken-over")]
    assert found[0].intact
    assert "entry 8 is hashed without the key, though entry 1 has it" in found[1].problems[0]


async def test_a_run_that_is_gone_is_known_to_an_anchor_alone_and_may_be_gone_after_its_retention(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.db"
    async with SqliteStore(path) as store:
        await fill(store)
        entry = (await store.evidence("run-answered")).entries[-1]
        anchor = Anchor("run-answered", entry.seq, entry.hash, entry.at)
        assert await store.purge(entry.at + 100) == 2
        assert sorted(await store.traced()) == ["run-open", "run-waiting"]
        for run_id in await store.traced():
            assert verify(await store.evidence(run_id), Chains()).intact
        gone = await verify_stored(store, "run-answered", Chains(), anchor)
        purged = await verify_stored(store, "run-answered", Chains(), anchor, entry.at + 100)
    assert "gone: the anchor knows 9 entries" in gone.problems[0]
    assert purged.intact
