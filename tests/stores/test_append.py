"""Append and read: what every store promises about one run."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from orchestrator.core.events import ActionStarted, Decision, ModelTurn, Observation, RunStarted
from orchestrator.errors import Conflict, StoreError
from orchestrator.stores import UNFENCED, Store
from tests.stores.conftest import Connect
from tests.stores.words import ACTING, ENDED, SEEN, STARTED, TURN, WHOLE, shape


async def test_an_unknown_run_has_an_empty_trace(store: Store) -> None:
    assert await store.read("nobody") == ()
    assert await store.row("nobody") is None


async def test_what_was_appended_is_read_in_order(store: Store) -> None:
    written = await store.append("r", 0, [STARTED, TURN], at=1.5)
    written += await store.append("r", 2, [ACTING], at=2.25)
    assert await store.read("r") == written
    assert shape(written) == [(1, "run_started"), (2, "model_turn"), (3, "action_started")]
    assert [entry.at for entry in written] == [1.5, 1.5, 2.25]
    assert {entry.run_id for entry in written} == {"r"}


async def test_reading_after_a_seq_gives_only_what_follows(store: Store) -> None:
    await store.append("r", 0, WHOLE, at=1.0)
    assert shape(await store.read("r", after=4)) == [(5, "model_turn"), (6, "run_ended")]
    assert await store.read("r", after=6) == ()
    assert len(await store.read("r", after=0)) == 6


async def test_runs_do_not_see_each_other(store: Store) -> None:
    await store.append("a", 0, [STARTED], at=1.0)
    await store.append("b", 0, [STARTED, TURN], at=1.0)
    assert (len(await store.read("a")), len(await store.read("b"))) == (1, 2)


async def test_traces_that_are_read_at_once_do_not_mix_and_none_spoils_another(store: Store) -> None:
    for run in range(40):
        await store.append(f"r{run}", 0, WHOLE[: 1 + run % 3], at=float(run))
    odd = [store.read("r7", after=1), store.read("r7"), store.read("nobody"), store.read("no\0body")]
    *read, after, again, nobody, impossible = await asyncio.gather(
        *(store.read(f"r{run}") for run in range(40)), *odd, return_exceptions=True
    )
    for run, trace in enumerate(read):
        assert not isinstance(trace, BaseException)
        assert [(entry.run_id, entry.seq, entry.at) for entry in trace] == [
            (f"r{run}", seq, run) for seq in range(1, 2 + run % 3)
        ]
    assert again == read[7]
    assert after == read[7][1:]  # type: ignore[index]
    assert nobody == ()
    assert impossible == () or isinstance(impossible, StoreError)


async def test_who_gives_up_on_a_trace_holds_up_no_other_reader(store: Store) -> None:
    await store.append("r", 0, [STARTED], at=1.0)
    given_up, kept = (asyncio.ensure_future(store.read("r")) for _ in range(2))
    await asyncio.sleep(0)
    given_up.cancel()
    assert len(await kept) == 1


@pytest.mark.parametrize("seen", [0, 1, 3, 100])
async def test_an_append_that_has_not_seen_exactly_the_trace_is_a_conflict(store: Store, seen: int) -> None:
    await store.append("r", 0, [STARTED, TURN], at=1.0)
    with pytest.raises(Conflict, match="run r: expected"):
        await store.append("r", seen, [ACTING, SEEN], at=2.0)
    assert len(await store.read("r")) == 2


async def test_an_append_is_whole_or_absent(store: Store) -> None:
    await store.append("r", 0, [STARTED], at=1.0)
    body = b"raw"
    with pytest.raises(Conflict):
        await store.append("r", 0, [TURN, ACTING], at=2.0, blobs={"e" * 64: body})
    assert len(await store.read("r")) == 1
    assert await store.blob("e" * 64) is None


async def test_one_of_many_writers_at_the_same_seq_wins(store: Store) -> None:
    await store.append("r", 0, [STARTED], at=1.0)
    tries = [store.append("r", 1, [ActionStarted(f"1.{n}")], at=2.0) for n in range(20)]
    ends = await asyncio.gather(*tries, return_exceptions=True)
    winners = [end for end in ends if not isinstance(end, BaseException)]
    assert len(winners) == 1
    assert all(isinstance(end, Conflict | tuple) for end in ends)
    assert (await store.read("r"))[1:] == winners[0]


async def test_a_conflict_spoils_nobody_elses_append_of_the_same_batch(store: Store) -> None:
    await store.append("r", 0, [STARTED], at=1.0)
    tries = [store.append(f"r{n}", 0, [STARTED, TURN], at=1.0) for n in range(30)]
    tries.insert(15, store.append("r", 0, [STARTED], at=1.0))
    ends = await asyncio.gather(*tries, return_exceptions=True)
    assert [type(end) for end in ends if isinstance(end, BaseException)] == [Conflict]
    assert [len(await store.read(f"r{n}")) for n in range(30)] == [2] * 30


async def test_appends_of_one_run_sent_without_waiting_stay_in_order(store: Store) -> None:
    await asyncio.gather(*(store.append("r", n, [event], at=1.0) for n, event in enumerate(WHOLE)))
    assert [entry.event for entry in await store.read("r")] == list(WHOLE)


async def test_many_runs_write_at_once(store: Store) -> None:
    async def live(run_id: str) -> None:
        for seq, event in enumerate(WHOLE):
            await store.append(run_id, seq, [event], at=float(seq))

    await asyncio.gather(*(live(f"r{n}") for n in range(100)))
    assert [len(await store.read(f"r{n}")) for n in (0, 50, 99)] == [6, 6, 6]
    assert len(await store.runs(limit=1000)) == 100


async def test_a_cancelled_append_is_whole_or_absent_and_the_store_goes_on(store: Store) -> None:
    task = asyncio.ensure_future(store.append("r", 0, [STARTED, TURN], at=1.0))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await store.append("other", 0, [STARTED], at=1.0)
    assert len(await store.read("r")) in {0, 2}


HARD_TEXTS = ["\ud83d lone", "\udcff\x00nul", "语言 🌉 \u202e", "\u2028 and \x7f", 'quote " back \\ slash']


@pytest.mark.parametrize("text", HARD_TEXTS)
async def test_any_text_comes_back_as_it_went(store: Store, text: str) -> None:
    started = RunStarted(
        text, dataclasses.replace(STARTED.agent, name=text, models=(text,)), tenant=text, run_kind=text
    )
    seen = Observation("1.0", "search", "success", text, facts={text: text})
    await store.append("r", 0, [started, seen, Decision("1.0", text, "edit", {text: [text]})], at=1.0)
    assert [entry.event for entry in await store.read("r")] == [
        started,
        seen,
        Decision("1.0", text, "edit", {text: [text]}),
    ]
    assert [row.run_id for row in await store.runs(tenant=text, agent=text)] == ["r"]


async def test_numbers_beyond_json_come_back_as_they_went(store: Store) -> None:
    odd = Decision("1.0", "me", "edit", {"big": 2**80, "inf": float("inf"), "tiny": 5e-324, "neg": -0.0})
    await store.append("r", 0, [STARTED, odd], at=1.0)
    assert (await store.read("r"))[1].event == odd


async def test_a_large_event_and_a_large_blob_are_kept(store: Store) -> None:
    seen, body = dataclasses.replace(SEEN, content="x" * 3_000_000), bytes(range(256)) * 20_000
    await store.append("r", 0, [STARTED, seen], at=1.0, blobs={"f" * 64: body})
    assert (await store.read("r"))[1].event == seen
    assert await store.blob("f" * 64) == body


async def test_two_runs_may_keep_the_same_blob(store: Store) -> None:
    for run_id in ("a", "b"):
        await store.append(run_id, 0, [STARTED], at=1.0, blobs={"f" * 64: b"same"})
    await store.append("b", 1, [ENDED], at=2.0)
    assert await store.purge(3.0) == 1
    assert await store.blob("f" * 64) == b"same"


@pytest.mark.parametrize("run_id", ["", "a\x00b", "a\nb", "x" * 201, "\ud800"])
async def test_a_run_id_that_no_database_holds_is_refused(store: Store, run_id: str) -> None:
    with pytest.raises(StoreError, match="a run id is"):
        await store.append(run_id, 0, [STARTED], at=1.0)


async def test_an_append_of_nothing_or_from_nowhere_is_refused(store: Store) -> None:
    for seq, events, epoch in ((0, [], 0), (-1, [STARTED], 0), (0, [STARTED], -1), (2**63, [STARTED], 0)):
        with pytest.raises(StoreError):
            await store.append("r", seq, events, at=1.0, epoch=epoch)


async def test_what_is_no_json_is_refused_and_the_store_goes_on(store: Store) -> None:
    wrong = ModelTurn("t", TURN.intent, opaque={"raw": object()})  # type: ignore[dict-item]
    with pytest.raises(StoreError, match="model_turn cannot be written"):
        await store.append("r", 0, [wrong], at=1.0)
    await store.append("r", 0, [STARTED], at=1.0)


async def test_a_new_epoch_fences_the_older_holder(store: Store) -> None:
    await store.append("r", 0, [STARTED], at=1.0)
    assert await store.bump("r") == 1
    await store.append("r", 1, [TURN], at=2.0, epoch=1)
    assert await store.bump("r") == 2
    with pytest.raises(Conflict, match="lost its claim to epoch 2"):
        await store.append("r", 2, [ACTING], at=3.0, epoch=1)
    await store.append("r", 2, [ACTING], at=3.0, epoch=2)
    assert len(await store.read("r")) == 3


async def test_one_who_holds_no_claim_is_guarded_by_seq_alone(store: Store) -> None:
    await store.append("r", 0, [STARTED], at=1.0)
    await store.bump("r")
    await store.append("r", 1, [Decision("1.0", "ann", "approve")], at=2.0, epoch=UNFENCED)
    with pytest.raises(Conflict):
        await store.append("r", 1, [TURN], at=2.0, epoch=1)


async def test_epochs_of_many_claimers_are_all_different(store: Store) -> None:
    assert sorted(await asyncio.gather(*(store.bump("r") for _ in range(20)))) == list(range(1, 21))


async def test_a_run_may_be_bumped_before_it_starts(store: Store) -> None:
    await store.bump("r")
    assert await store.row("r") is None
    assert await store.runs() == ()
    with pytest.raises(Conflict):
        await store.append("r", 0, [STARTED], at=1.0)
    await store.append("r", 0, [STARTED], at=1.0, epoch=1)


async def test_another_store_on_the_same_data_sees_and_is_fenced(store: Store, connect: Connect) -> None:
    await store.append("r", 0, [STARTED], at=1.0)
    other = connect()
    await other.open()
    assert len(await other.read("r")) == 1
    epoch = await other.bump("r")
    await other.append("r", 1, [TURN], at=2.0, epoch=epoch)
    with pytest.raises(Conflict):
        await store.append("r", 1, [TURN], at=2.0)
    await other.close()


async def test_a_store_that_was_closed_says_so_and_opens_again(connect: Connect) -> None:
    store = connect()
    async with store:
        await store.append("r", 0, [STARTED], at=1.0)
    for use in (store.append("r", 1, [TURN], at=2.0), store.read("r"), store.bump("r"), store.blob("x"), store.runs()):
        with pytest.raises(StoreError, match="closed"):
            await use
    await store.close()
    async with connect() as again:
        assert len(await again.read("r")) == 1


async def test_closing_writes_what_was_handed_over(connect: Connect) -> None:
    store = connect()
    await store.open()
    tasks = [asyncio.ensure_future(store.append(f"r{n}", 0, [STARTED], at=1.0)) for n in range(50)]
    await asyncio.sleep(0)
    await store.close()
    assert len(await asyncio.gather(*tasks)) == 50


async def test_after_a_bump_returned_nothing_of_an_older_epoch_is_written(store: Store, connect: Connect) -> None:
    async def climb(run_id: str) -> None:
        seq = 0
        while True:
            seq = (await store.append(run_id, seq, [ACTING], at=1.0))[-1].seq

    names = [f"r{n}" for n in range(10)]
    climbers = [asyncio.ensure_future(climb(name)) for name in names]
    other = connect()
    await other.open()
    await store.append("busy", 0, [STARTED], at=1.0)
    await asyncio.gather(*map(other.bump, names))
    frozen = [len(await other.read(name)) for name in names]
    ends = await asyncio.gather(*climbers, return_exceptions=True)
    assert {type(end) for end in ends} == {Conflict}
    assert [len(await other.read(name)) for name in names] == frozen
    await other.close()
