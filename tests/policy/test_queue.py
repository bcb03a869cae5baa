from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.policy.queue import FairQueue


def drained(queue: FairQueue[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    return [queue.pop() for _ in range(len(queue))]


def test_tenants_take_turns_then_runs_then_first_come_first_served() -> None:
    queue: FairQueue[tuple[str, str, int]] = FairQueue()
    for item in [("a", "1", 0), ("a", "1", 1), ("a", "2", 2), ("b", "3", 3), ("a", "1", 4), ("b", "3", 5)]:
        queue.push(item[0], item[1], item)
    assert [each[2] for each in drained(queue)] == [0, 3, 2, 5, 1, 4]


def test_nobody_is_next_in_an_empty_queue() -> None:
    with pytest.raises(LookupError):
        FairQueue[int]().first()


ITEMS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("12"), st.integers()), unique=True, max_size=60)


@given(ITEMS, st.data())
def test_everyone_who_stays_is_served_once_in_the_order_of_his_run(
    items: list[tuple[str, str, int]], data: st.DataObject
) -> None:
    queue: FairQueue[tuple[str, str, int]] = FairQueue()
    for item in items:
        queue.push(item[0], item[1], item)
    gone = data.draw(st.lists(st.sampled_from(items), unique=True)) if items else []
    for item in gone * 2:
        queue.discard(item[0], item[1], item)
    served = drained(queue)
    staying = [each for each in items if each not in gone]
    assert sorted(served) == sorted(staying)
    for line in {each[:2] for each in staying}:
        assert [each for each in served if each[:2] == line] == [each for each in staying if each[:2] == line]


@given(ITEMS)
def test_between_two_turns_of_a_tenant_every_waiting_tenant_has_at_most_one(items: list[tuple[str, str, int]]) -> None:
    queue: FairQueue[tuple[str, str, int]] = FairQueue()
    for item in items:
        queue.push(item[0], item[1], item)
    served = [each[0] for each in drained(queue)]
    for i, tenant in enumerate(served):
        following = served[i + 1 :]
        turn = following[: following.index(tenant)] if tenant in following else []
        assert len(turn) == len(set(turn))
