"""What the engines share: the heartbeat against its lease, and claims whose answer was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from orchestrator.core.events import RunStarted
from orchestrator.dispatch import DispatchRules, Job, Slice
from orchestrator.dispatch.gathered import Gathered
from orchestrator.dispatch.memory import Board, MemoryDispatcher
from orchestrator.dispatch.ticket import Ticket, admit, depth, full, parked, safe, submitted, woken
from orchestrator.errors import StoreError
from orchestrator.stores.memory import MemoryStore

pytestmark = pytest.mark.virtual


class Moody(MemoryDispatcher):
    """Its database hangs, fails, or loses the answer to a claim."""

    hangs = fails = forgets = False

    async def _renew(self, now: float) -> bool:
        if self.hangs:
            await asyncio.sleep(3600)
        if self.fails:
            raise StoreError("the queue is away")
        return await super()._renew(now)

    async def _claim(self, most: int, now: float, has: frozenset[str]) -> Sequence[Slice]:
        taken = await super()._claim(most, now, has)
        if self.forgets:
            raise StoreError("the answer was lost")
        return taken


def now() -> float:
    return asyncio.get_running_loop().time()


async def moody() -> Moody:
    made = Moody(MemoryStore(), DispatchRules(beat=2.0, lease=10.0))
    await made.open()
    return made


@pytest.mark.parametrize("mood", ["hangs", "fails"])
async def test_a_heartbeat_that_gets_no_answer_gives_up_before_the_lease_ends(mood: str) -> None:
    one = await moody()
    assert await one.beat(now=now())
    start = now()
    setattr(one, mood, True)
    told: bool | None = None
    while told is None:
        try:
            told = await one.beat(now=now())
        except StoreError:
            await asyncio.sleep(1.0)
    assert told is False
    assert now() - start <= 10.0


async def test_a_single_heartbeat_takes_less_than_its_interval() -> None:
    one = await moody()
    one.hangs = True
    start = now()
    with pytest.raises(StoreError, match="beat again"):
        await one.beat(now=now())
    assert now() - start <= 2.0


async def test_a_claim_whose_answer_was_lost_is_put_back() -> None:
    one = await moody()
    await one.submit(Job("r"), RunStarted("g"), now=now())
    one.forgets = True
    with pytest.raises(StoreError):
        await one.take(1, now=now(), has=frozenset())
    one.forgets = False
    (taken,) = await one.take(1, now=now(), has=frozenset(), wait=1.0)
    assert taken.run_id == "r"


async def test_waiting_for_an_hour_takes_a_few_looks_and_no_tasks() -> None:
    store, board = MemoryStore(), Board()
    one, two = (MemoryDispatcher(store, DispatchRules(lease=1e9), board) for _ in range(2))
    await one.open()
    await two.open()
    await one.submit(Job("r", at=now() + 3600), RunStarted("g"), now=now())
    taking = asyncio.create_task(two.take(1, now=now(), has=frozenset(), wait=7200))
    tasks = len(asyncio.all_tasks())
    assert [each.run_id for each in await taking] == ["r"]
    assert 3600 <= now() < 3601
    assert len(asyncio.all_tasks()) < tasks


async def test_works_that_come_while_one_is_under_way_go_together() -> None:
    batches: list[list[int]] = []

    async def work(batch: Sequence[int]) -> None:
        batches.append(list(batch))
        await asyncio.sleep(1)
        if 3 in batch:
            raise StoreError("not three")

    gathered = Gathered(work)
    await asyncio.gather(*(gathered.add(n) for n in (1, 2, 4)))
    assert batches == [[1, 2, 4]]
    first = asyncio.create_task(gathered.add(5))
    await asyncio.sleep(0.5)
    said = await asyncio.gather(first, gathered.add(3), gathered.add(6), return_exceptions=True)
    assert batches[1:] == [[5], [3, 6]]
    assert [type(each) for each in said] == [type(None), StoreError, StoreError]


def test_admission_keeps_the_order_and_the_limits() -> None:
    rules = DispatchRules(tenant_limit=2, tenant_limits={"b": 1, "c": 0})
    ready = [Ticket(f"r{n}", n, tenant) for n, tenant in enumerate("aabbaac")]
    assert [each.number for each in admit(ready, 9, {"a": 1}, rules)] == [0, 2]
    assert [each.number for each in admit(ready, 2, {}, rules)] == [0, 1]
    assert full({"a": 2, "d": 1}, rules) == {"a", "c"}


def test_a_ticket_that_was_woken_while_held_does_not_wait() -> None:
    held = Ticket("r", 1, state="held", worker="w")
    assert parked(held, 99.0, approval=True, now=5.0).state == "waiting"
    assert parked(woken(held, 4.0), 99.0, approval=True, now=5.0) == Ticket("r", 1, since=5.0)
    later = submitted(Job("r", at=9.0), 1, 1.0)
    assert (later.state, woken(later, 2.0).state, woken(later, 2.0).since) == ("later", "queued", 2.0)
    assert depth([later, held], 0, 10.0).oldest == 1.0


def test_names_that_no_database_keeps_become_their_digest() -> None:
    assert safe("tenant") == "tenant"
    assert safe("") == ""
    digests = {safe(name) for name in ("\0", "\ud800", "x" * 201, "y" * 201)}
    assert len(digests) == 4
    assert all(digest.startswith("sha256:") and digest.isprintable() for digest in digests)
