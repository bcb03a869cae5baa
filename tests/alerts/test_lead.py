"""Who leads, and what a page in the book means that another one wrote, or that nobody knows whether it was written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from orchestrator.core.measure import measure
from orchestrator.errors import StoreError
from orchestrator.monitor import Feed, MemoryBook, Monitor
from orchestrator.stores.memory import MemoryStore
from tests.alerts.traffic import healthy, says_another
from tests.alerts.watch import HEALTH, Inbox, clock, ended, monitored, traffic

pytestmark = pytest.mark.virtual


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as opened:
        yield opened


async def test_a_leader_that_stood_still_while_another_led_begins_from_what_that_one_wrote(store: MemoryStore) -> None:
    book, first, second = MemoryBook(), Inbox(), Inbox()
    one = Monitor(lambda: Feed(store, HEALTH, measure), book, HEALTH, [first.hook()], clock=clock)
    await one.look()
    await traffic(store, healthy, 5)
    two, task = await monitored(store, second.hook(), book=book)
    await traffic(store, says_another, 40)
    assert (two.leading, second.told()) == (True, [("thought_action_gap", "firing")])
    await ended(task)
    await one.look()
    assert one.leading
    assert [each.rule for each in one.standing] == ["thought_action_gap"]
    await traffic(store, healthy, 150)
    await one.look()
    await asyncio.sleep(1)
    await one.stop()
    assert first.told() == [("thought_action_gap", "resolved")]


@pytest.mark.parametrize("came_through", [False, True])
async def test_what_could_not_be_written_down_is_told_at_a_later_look(store: MemoryStore, came_through: bool) -> None:
    class Torn(MemoryBook):
        torn = 0

        async def save(self, who: str, body: bytes) -> bool:
            if b'"phase":"firing"' in body and self.torn < 3:
                self.torn += 1
                if came_through:
                    await super().save(who, body)
                raise StoreError("the connection was lost")
            return await super().save(who, body)

    book, inbox = Torn(), Inbox()
    _, task = await monitored(store, inbox.hook(), book=book)
    await traffic(store, says_another, 40)
    await traffic(store, healthy, 150)
    await ended(task)
    assert book.torn == 3
    assert inbox.told() == [("thought_action_gap", "firing"), ("thought_action_gap", "resolved")]
