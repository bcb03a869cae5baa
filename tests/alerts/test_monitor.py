"""The built-in monitor with no Prometheus: the three alerts, one leader, restarts, and hooks that hang. In virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace

import pytest

from orchestrator.alerts import Gauge, Wording
from orchestrator.core.events import Attempt, ModelTurn, Outcome, RunEnded, Waiting
from orchestrator.dispatch import Depth
from orchestrator.errors import Rejected, StoreError, Unavailable
from orchestrator.hooks.webhook import Webhook
from orchestrator.monitor import MemoryBook, of_depth
from orchestrator.monitor.page import load
from orchestrator.stores.memory import MemoryStore
from tests.alerts.make import RULES
from tests.alerts.traffic import begun, happen, healthy, ignores, says_another, wanders
from tests.alerts.watch import Inbox, clock, ended, monitored, traffic

pytestmark = pytest.mark.virtual


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as opened:
        yield opened


async def test_each_of_the_three_alerts_is_told_once_with_its_figure_and_resolves_once(store: MemoryStore) -> None:
    inbox = Inbox()
    _, task = await monitored(store, inbox.hook())
    await traffic(store, healthy, 60)
    assert inbox.told() == []
    bad = {
        "thought_action_gap": await traffic(store, says_another, 60),
        "error_propagation": await traffic(store, ignores, 60),
        "step_bloat": await traffic(store, wanders, 200),
    }
    await traffic(store, healthy, 400)
    await asyncio.sleep(60)
    await ended(task)
    for rule, runs in bad.items():
        first, last = [each for each in inbox.notes if each.rule == rule]
        assert (first.status, last.status) == ("firing", "resolved")
        assert first.labels["agent"] == "shop"
        assert set(first.runs) <= set(runs)
        assert first.runs
        assert RULES[rule].breached(first.value)
        assert RULES[rule].eased(last.value)
        assert first.samples >= 20
    assert len(inbox.notes) == 6


async def test_a_healthy_run_of_two_hundred_tells_nothing(store: MemoryStore) -> None:
    inbox = Inbox()
    monitor, task = await monitored(store, inbox.hook(), rules=list(RULES.values()))
    await traffic(store, healthy, 200)
    assert monitor.leading
    assert monitor.standing == ()
    await ended(task)
    assert inbox.notes == []


async def test_nineteen_bad_runs_are_no_data(store: MemoryStore) -> None:
    inbox = Inbox()
    _, task = await monitored(store, inbox.hook())
    await traffic(store, says_another, 19)
    await asyncio.sleep(1800)
    await ended(task)
    assert inbox.notes == []


async def test_of_two_monitors_one_tells_and_the_other_takes_over_when_it_dies(store: MemoryStore) -> None:
    book, first, second = MemoryBook(), Inbox(), Inbox()
    one, one_task = await monitored(store, first.hook(), book=book)
    two, two_task = await monitored(store, second.hook(), book=book)
    await traffic(store, says_another, 40)
    assert (one.leading, two.leading) == (True, False)
    assert first.told() == [("thought_action_gap", "firing")]
    await ended(one_task)
    await asyncio.sleep(120)
    assert two.leading
    await traffic(store, healthy, 150)
    await ended(two_task)
    assert first.told() == [("thought_action_gap", "firing")]
    assert second.told() == [("thought_action_gap", "resolved")]


async def test_a_restarted_monitor_tells_nothing_twice(store: MemoryStore) -> None:
    book, inbox = MemoryBook(), Inbox()
    _, task = await monitored(store, inbox.hook(), book=book)
    await traffic(store, says_another, 40)
    for _ in range(3):
        await ended(task)
        _, task = await monitored(store, inbox.hook(), book=book)
        await traffic(store, says_another, 5)
    await ended(task)
    assert inbox.told() == [("thought_action_gap", "firing")]


async def test_what_was_not_delivered_before_a_restart_is_delivered_after_it(store: MemoryStore) -> None:
    book, dead, alive = MemoryBook(), Inbox(hang=True), Inbox()
    _, task = await monitored(store, dead.hook(), book=book)
    await traffic(store, says_another, 40)
    await ended(task)
    page = load(await book.peek())
    assert page is not None
    assert [each.note.rule for each in page.owed] == ["thought_action_gap"]
    _, task = await monitored(store, alive.hook(), book=book)
    await asyncio.sleep(30)
    assert alive.told() == [("thought_action_gap", "firing")]
    assert load(await book.peek()) is not None
    await ended(task)
    page = load(await book.peek())
    assert page is not None
    assert page.owed == ()


async def test_a_hook_that_hangs_holds_up_nothing(store: MemoryStore) -> None:
    stuck, fine = Inbox(hang=True), Inbox()
    monitor, task = await monitored(store, stuck.hook("stuck"), fine.hook("fine"))
    await traffic(store, says_another, 40)
    await traffic(store, healthy, 150)
    assert fine.told() == [("thought_action_gap", "firing"), ("thought_action_gap", "resolved")]
    assert monitor.leading
    await ended(task)


async def test_a_hook_that_fails_is_told_again_later_in_order_and_one_that_refuses_is_not(store: MemoryStore) -> None:
    shaky, refusing = (
        Inbox(fails=[Unavailable("HOOK_FAILED", "down")] * 5),
        Inbox(fails=[Rejected("HOOK_REJECTED", "no")]),
    )
    _, task = await monitored(store, shaky.hook("shaky"), refusing.hook("refusing"))
    await traffic(store, says_another, 40)
    await traffic(store, healthy, 150)
    await ended(task)
    assert shaky.told() == [("thought_action_gap", "firing"), ("thought_action_gap", "resolved")]
    assert refusing.told() == [("thought_action_gap", "resolved")]


async def test_a_hook_that_is_no_longer_configured_is_owed_nothing(store: MemoryStore) -> None:
    book = MemoryBook()
    _, task = await monitored(store, Inbox(hang=True).hook("old"), book=book)
    await traffic(store, says_another, 40)
    await ended(task)
    _, task = await monitored(store, book=book)
    await asyncio.sleep(30)
    await ended(task)
    page = load(await book.peek())
    assert page is not None
    assert page.owed == ()


async def test_a_page_of_another_release_is_begun_anew(store: MemoryStore) -> None:
    book, inbox = MemoryBook(), Inbox()
    await book.lead("x", now=0.0, until=0.0)
    await book.save("x", b"{not json")
    _, task = await monitored(store, inbox.hook(), book=book)
    await traffic(store, says_another, 40)
    await ended(task)
    assert inbox.told() == [("thought_action_gap", "firing")]


async def test_a_store_that_cannot_be_read_blinds_the_monitor_and_ends_nothing(store: MemoryStore) -> None:
    inbox = Inbox()
    monitor, task = await monitored(store, inbox.hook())
    await store.close()
    await asyncio.sleep(600)
    await store.open()
    await traffic(store, says_another, 40)
    await ended(task)
    assert inbox.told() == [("thought_action_gap", "firing")]
    assert not monitor.leading


async def test_queue_and_workers_are_told_from_the_queue(store: MemoryStore) -> None:
    depth, inbox = Depth(workers=1), Inbox()

    async def present(_: float) -> Iterable[Gauge]:
        if depth.oldest < 0:
            raise StoreError("gone")
        return of_depth(depth)

    rules = [RULES["queue_age"], RULES["worker_absent"]]
    _, task = await monitored(store, inbox.hook(), rules=rules, gauges=present)
    await asyncio.sleep(600)
    assert inbox.notes == []
    depth = Depth(queued=5, oldest=400.0, workers=0)
    await asyncio.sleep(300)
    assert sorted(inbox.told()) == [("queue_age", "firing"), ("worker_absent", "firing")]
    depth = Depth(oldest=-1.0)
    await asyncio.sleep(600)
    assert len(inbox.notes) == 2
    depth = Depth(workers=3)
    await asyncio.sleep(60)
    assert sorted(inbox.told()[2:]) == [("queue_age", "resolved"), ("worker_absent", "resolved")]
    await ended(task)


async def test_an_approval_that_waits_too_long_is_told_and_over_once_decided(store: MemoryStore) -> None:
    inbox = Inbox()
    _, task = await monitored(store, inbox.hook(), rules=[RULES["approvals_waiting"]])
    events = list(healthy())
    await happen(store, (*events[:2], Waiting("1.0", clock() + 9999, reason="approval")), clock(), "waits")
    await asyncio.sleep(1700)
    assert inbox.notes == []
    await asyncio.sleep(200)
    assert inbox.told() == [("approvals_waiting", "firing")]
    await store.append("waits", 3, (events[2],), at=clock())
    await asyncio.sleep(60)
    await ended(task)
    assert inbox.told()[1:] == [("approvals_waiting", "resolved")]


async def test_a_model_whose_breaker_refuses_is_told_until_it_answers(store: MemoryStore) -> None:
    inbox = Inbox()
    _, task = await monitored(store, inbox.hook(), rules=[RULES["model_breaker_open"]])
    refused = RunEnded(Outcome.MODEL_FAILED, code="CIRCUIT_OPEN", attempts=(Attempt("main", "CIRCUIT_OPEN", 0.0),))
    await happen(store, (begun(), refused), clock())
    await asyncio.sleep(120)
    assert [each.labels for each in inbox.notes] == [{"target": "main"}]
    await happen(store, healthy(), clock())
    await asyncio.sleep(60)
    await ended(task)
    assert inbox.told() == [("model_breaker_open", "firing"), ("model_breaker_open", "resolved")]


async def test_a_hostile_name_in_a_row_is_told_like_any_other(store: MemoryStore) -> None:
    inbox = Inbox()
    _, task = await monitored(store, inbox.hook())
    await traffic(store, lambda: says_another("\0\ud800" + "x" * 5000), 40)
    await ended(task)
    (told,) = inbox.notes
    assert len(told.labels["agent"]) == 200
    assert json.loads(Webhook("/", Wording()).encode(told, 0.0).body)["alerts"][0]["labels"]["model"] == "main"


async def test_cost_is_told_from_what_turns_cost_and_resolves_when_spending_ends(store: MemoryStore) -> None:
    inbox = Inbox()
    _, task = await monitored(store, inbox.hook(), rules=[RULES["cost_burn"]])
    dear = tuple(
        replace(event, usage=replace(event.usage, cost=9.0)) if isinstance(event, ModelTurn) else event
        for event in healthy()
    )
    await happen(store, dear, clock())
    await asyncio.sleep(60)
    assert [each.value for each in inbox.notes] == [27.0]
    await asyncio.sleep(7200)
    await ended(task)
    assert inbox.told() == [("cost_burn", "firing"), ("cost_burn", "resolved")]
