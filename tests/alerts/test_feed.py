"""What the monitor sees of a store: everything once, whichever way it was appended, and no damaged trace stops it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.events import ActionStarted, Entry
from orchestrator.core.measure import Sample, measure
from orchestrator.core.run import Run
from orchestrator.monitor import Feed
from orchestrator.monitor import feed as module
from orchestrator.stores.memory import MemoryStore
from orchestrator.stores.sqlite import SqliteStore
from tests.alerts.make import GAP, RULES
from tests.alerts.traffic import happen, healthy, says_another, wanders
from tests.clock import run

NOW = 1_700_000_000.0


class Counted:
    """The measure, counting the entries it was asked for."""

    def __init__(self) -> None:
        self.entries: Counter[tuple[str, int]] = Counter()

    def __call__(self, before: Run, entry: Entry) -> Sequence[Sample]:
        self.entries[(entry.run_id, entry.seq)] += 1
        return measure(before, entry)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 7), st.booleans()), max_size=30))
def test_every_entry_is_counted_once_however_runs_and_looks_interleave(moves: list[tuple[int, int, bool]]) -> None:
    async def play() -> None:
        counted, at = Counted(), NOW
        async with MemoryStore() as store:
            feed = Feed(store, [GAP], counted)
            written: dict[str, int] = {}
            for number, steps, looks in moves:
                run_id, events, at = f"r{number}", wanders(), at + 40
                done = written.get(run_id, 0)
                for event in events[done : done + steps]:
                    await store.append(run_id, written.get(run_id, 0), (event,), at=at)
                    written[run_id] = written.get(run_id, 0) + 1
                if looks:
                    await feed.look(at)
            await feed.look(at + 1)
        assert counted.entries == Counter(
            {(run_id, seq): 1 for run_id, last in written.items() for seq in range(1, last + 1)}
        )

    run(play())


async def test_a_run_that_ends_between_two_looks_is_counted_to_its_end() -> None:
    async with MemoryStore() as store:
        feed, events = Feed(store, [GAP], measure), says_another()
        await happen(store, events[:1], NOW, "r")
        await feed.look(NOW)
        for seq, event in enumerate(events[1:], 1):
            await store.append("r", seq, (event,), at=NOW + 600)
        await feed.look(NOW + 1000)
        assert feed.window.read(GAP, NOW + 700)[("shop", "main")].samples == 1
        assert not feed._folds


async def test_a_run_whose_fold_was_let_go_is_folded_again_and_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 1)
    async with MemoryStore() as store:
        counted = Counted()
        feed = Feed(store, [GAP], counted)
        for name in ("a", "b", "c"):
            await happen(store, wanders()[:4], NOW, name)
        await feed.look(NOW)
        for name in ("a", "b", "c"):
            await store.append(name, 4, wanders()[4:5], at=NOW + 1)
        await feed.look(NOW + 1)
        assert set(counted.entries.values()) == {1}
        assert len(counted.entries) == 15


async def test_a_damaged_trace_is_left_alone_and_the_others_are_counted() -> None:
    async with MemoryStore() as store:
        feed = Feed(store, [GAP], measure)
        await happen(store, (says_another()[0], ActionStarted("9.9")), NOW, "damaged")
        await happen(store, says_another(), NOW, "sound")
        await feed.look(NOW)
        await feed.look(NOW + 15)
        assert feed.window.read(GAP, NOW)[("shop", "main")].runs == ("sound",)


async def test_many_runs_are_paged_and_the_lead_is_kept_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", 7)
    monkeypatch.setattr(module, "BETWEEN", 10)
    renewed = 0

    async def between() -> None:
        nonlocal renewed
        renewed += 1

    async with MemoryStore() as store:
        for number in range(50):
            await happen(store, healthy(), NOW + number)
        feed = Feed(store, [GAP], measure)
        await feed.look(NOW + 60, between)
        assert feed.window.read(GAP, NOW + 60)[("shop", "main")].samples == 100
    assert renewed == 5


async def test_it_sees_what_another_process_writes(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "t.db") as writer, SqliteStore(tmp_path / "t.db") as reader:
        feed = Feed(reader, [GAP], measure)
        await feed.look(NOW)
        await happen(writer, says_another(), NOW + 1)
        await feed.look(NOW + 15)
        assert feed.window.read(GAP, NOW + 15)[("shop", "main")].value == 1.0


async def test_what_was_seen_long_ago_is_forgotten() -> None:
    async with MemoryStore() as store:
        feed = Feed(store, list(RULES.values()), measure)
        for number in range(100):
            await happen(store, healthy(), NOW + 60 * number)
            await feed.look(NOW + 60 * number)
        assert len(feed._seen) < 10


def names(feed: Feed) -> Iterator[str]:
    yield from (gauge.metric for gauge in feed.gauges(NOW))


async def test_an_empty_store_has_no_approval_waiting_and_no_breaker() -> None:
    async with MemoryStore() as store:
        feed = Feed(store, list(RULES.values()), measure)
        await feed.look(NOW)
        assert list(names(feed)) == ["orchestrator_approval_oldest_seconds"]
        assert next(feed.gauges(NOW)).value == 0.0
