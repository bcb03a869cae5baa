"""The learned minimum: from 20 answered runs of the kind on, as they stood when the run was begun, and in its Trace for good."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.core.events import Event, Outcome, RunEnded, RunStarted
from orchestrator.core.measure import Basis, Sample
from orchestrator.metrics import samples
from orchestrator.stores import Store
from orchestrator.stores.earlier import ENOUGH, KEPT, STALE, fewest, informed
from orchestrator.stores.memory import MemoryStore
from orchestrator.stores.record import dump, load
from tests.build import acts, final, observed, started, trace

FIRST = replace(started(), run_kind="invoice")


async def answered(
    store: Store, run_id: str, first: RunStarted, steps: int, outcome: Outcome = Outcome.ANSWERED
) -> None:
    """A run of so many steps."""
    story: list[Event] = [first]
    for step in range(1, steps):
        story += [acts(step, ("search", {"q": f"{step}"})), observed(f"{step}.0", f"thing {step}")]
    await store.append(run_id, 0, [*story, final("it"), RunEnded(outcome, "it")], at=1000.0)


async def history(store: Store, count: int, first: RunStarted = FIRST) -> None:
    for number in range(count):
        await answered(store, f"{first.tenant}-{number}", first, 3 + number % 5)


async def test_nothing_is_learned_from_fewer_than_twenty_answered_runs() -> None:
    async with MemoryStore() as store:
        await history(store, ENOUGH - 1)
        await answered(store, "failed", FIRST, 1, Outcome.OUT_OF_STEPS)
        assert (await informed(store, FIRST, now=2000.0)).learned is None


async def test_the_tenth_percentile_of_their_steps_is_the_minimum() -> None:
    async with MemoryStore() as store:
        await history(store, ENOUGH)
        await answered(store, "lucky", FIRST, 1)
        assert (await informed(store, FIRST, now=2000.0)).learned == 3
        other = replace(FIRST, run_kind="refund")
        assert (await informed(store, other, now=2000.0)).learned is None


async def test_one_tenant_learns_nothing_from_another() -> None:
    async with MemoryStore() as store:
        await history(store, ENOUGH, replace(FIRST, tenant="a"))
        assert (await informed(store, replace(FIRST, tenant="a"), now=2000.0)).learned == 3
        assert (await informed(store, replace(FIRST, tenant="b"), now=2000.0)).learned is None


async def test_a_run_without_a_kind_or_with_a_declared_minimum_learns_nothing() -> None:
    async with MemoryStore() as store:
        await history(store, ENOUGH)
        for first in (started(), replace(FIRST, min_steps=2)):
            assert await informed(store, first, now=2000.0) is first


async def test_the_index_is_looked_into_once_a_minute() -> None:
    async with MemoryStore() as store:
        assert (await informed(store, FIRST, now=2000.0)).learned is None
        await history(store, ENOUGH)
        assert (await informed(store, FIRST, now=2000.0 + STALE - 1)).learned is None
        assert (await informed(store, FIRST, now=2000.0 + STALE)).learned == 3


async def test_the_sample_follows_from_the_trace_alone_whatever_became_of_the_earlier_runs() -> None:
    async with MemoryStore() as store:
        await history(store, ENOUGH)
        first = await informed(store, FIRST, now=2000.0)
    story = trace(
        first,
        acts(1, ("search", {"q": "x"})),
        observed("1.0", "a thing"),
        final("it"),
        RunEnded(Outcome.ANSWERED, "it"),
    )
    learned = Sample("orchestrator_step_bloat_ratio", {"agent": "default", "basis": Basis.LEARNED.value}, 1.0)
    assert learned in tuple(samples(story))
    declared = (replace(story[0], event=replace(first, min_steps=1)), *story[1:])
    assert replace_basis(learned, Basis.DECLARED, 2.0) in tuple(samples(declared))


def replace_basis(sample: Sample, basis: Basis, value: float) -> Sample:
    return Sample(sample.series, {**sample.labels, "basis": basis.value}, value)


def test_it_is_written_down_and_read_again() -> None:
    first = replace(FIRST, learned=4)
    assert load(dump(first)) == first


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([4] * 19, None),
        ([9, *[4] * 19], 4),
        ([2, *[4] * 19], 4),
        ([2, 2, *[4] * 18], 2),
        (list(range(1, KEPT + 1)), 20),
    ],
)
def test_the_percentile_is_the_nearest_rank(steps: list[int], expected: int | None) -> None:
    assert fewest(steps) == expected
