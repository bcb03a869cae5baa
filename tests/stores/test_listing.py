"""The index of runs: kept by append, listed by keys, emptied by purge."""

from __future__ import annotations

import dataclasses

import pytest

from orchestrator.core.events import Outcome, RunEnded
from orchestrator.core.spec import AgentSpec
from orchestrator.stores import RunRow, Store
from tests.stores.words import ACTING, ENDED, STARTED, TURN, WHOLE


async def test_a_row_tells_the_run_without_its_trace(store: Store) -> None:
    await store.append("r", 0, [dataclasses.replace(STARTED, run_kind="research")], at=10.0)
    await store.append("r", 1, WHOLE[1:-1], at=11.0)
    open_row = await store.row("r")
    assert open_row == RunRow(
        "r", "scout", "acme", STARTED.goal, "native", "m-1", "research", 10.0, None, None, 2, 5, 11.0, "model_turn", 0
    )
    await store.append("r", 5, [ENDED], at=12.5)
    row = await store.row("r")
    assert row == dataclasses.replace(
        open_row, ended_at=12.5, outcome=Outcome.ANSWERED, last_seq=6, last_at=12.5, last_kind="run_ended"
    )
    assert isinstance(row.outcome, Outcome)


async def test_a_run_written_at_once_has_the_same_row(store: Store) -> None:
    await store.append("a", 0, WHOLE, at=1.0)
    for seq, event in enumerate(WHOLE):
        await store.append("b", seq, [event], at=1.0)
    a, b = await store.row("a"), await store.row("b")
    assert a is not None
    assert b == dataclasses.replace(a, run_id="b")


async def test_the_row_keeps_an_excerpt_of_a_long_goal(store: Store) -> None:
    await store.append("r", 0, [dataclasses.replace(STARTED, goal="长" * 10_000)], at=1.0)
    row = await store.row("r")
    assert row is not None
    assert row.goal == "长" * 200


async def test_the_row_tells_the_epoch(store: Store) -> None:
    await store.append("r", 0, [STARTED], at=1.0)
    await store.bump("r")
    row = await store.row("r")
    assert row is not None
    assert row.epoch == 1


async def fill(store: Store) -> None:
    for n in range(10):
        started = dataclasses.replace(STARTED, tenant=f"t{n % 2}", agent=AgentSpec(f"agent{n % 3}"))
        await store.append(f"r{n}", 0, [started], at=float(n // 2))
        if n >= 4:
            await store.append(f"r{n}", 1, [RunEnded(Outcome.ANSWERED if n < 8 else Outcome.CANCELLED)], at=20.0 + n)


async def test_runs_are_listed_newest_first(store: Store) -> None:
    await fill(store)
    assert [row.run_id for row in await store.runs()] == [f"r{n}" for n in range(9, -1, -1)]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"since": 2.0}, "987654"),
        ({"until": 2.0}, "3210"),
        ({"since": 1.0, "until": 3.0}, "5432"),
        ({"tenant": "t1"}, "97531"),
        ({"agent": "agent0"}, "9630"),
        ({"outcome": Outcome.CANCELLED}, "98"),
        ({"outcome": "open"}, "3210"),
        ({"outcome": Outcome.ANSWERED, "tenant": "t0"}, "64"),
        ({"tenant": "nobody"}, ""),
        ({"tenant": ""}, ""),
        ({"limit": 3}, "987"),
        ({"limit": 0}, ""),
    ],
)
async def test_runs_are_found_by_what_is_asked(store: Store, asked: dict[str, object], found: str) -> None:
    await fill(store)
    assert "".join(row.run_id[1:] for row in await store.runs(**asked)) == found  # type: ignore[arg-type]


async def test_pages_by_key_cover_all_runs_once_even_with_equal_times(store: Store) -> None:
    await fill(store)
    seen: list[str] = []
    page = await store.runs(limit=3)
    while page:
        seen += [row.run_id for row in page]
        page = await store.runs(limit=3, after=page[-1].key)
    assert seen == [f"r{n}" for n in range(9, -1, -1)]


async def test_a_new_run_does_not_shift_the_next_page(store: Store) -> None:
    await fill(store)
    first = await store.runs(limit=5)
    await store.append("newest", 0, [STARTED], at=99.0)
    assert [row.run_id for row in await store.runs(limit=5, after=first[-1].key)] == ["r4", "r3", "r2", "r1", "r0"]


async def test_purge_deletes_runs_that_ended_long_ago_and_nothing_else(store: Store) -> None:
    await fill(store)
    await store.append("old", 0, [STARTED, ENDED], at=0.5, blobs={"a" * 64: b"body"})
    assert await store.purge(26.0) == 3
    assert await store.purge(26.0) == 0
    assert await store.read("old") == ()
    assert await store.blob("a" * 64) is None
    assert await store.row("r4") is None
    assert {row.run_id for row in await store.runs()} == {f"r{n}" for n in (0, 1, 2, 3, 6, 7, 8, 9)}
    assert len(await store.read("r6")) == 2


async def test_purge_goes_on_beyond_one_batch(store: Store) -> None:
    for n in range(120):
        await store.append(f"r{n}", 0, [STARTED, ENDED], at=1.0)
    assert await store.purge(2.0) == 120


async def test_steps_are_model_turns(store: Store) -> None:
    await store.append("r", 0, [STARTED, TURN, ACTING], at=1.0)
    await store.append("r", 3, [TURN, TURN], at=1.0)
    row = await store.row("r")
    assert row is not None
    assert row.steps == 3
