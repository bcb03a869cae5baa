"""drive() and the run's deadline: what hangs is cut, what is done stays, and nothing of a run stays in the loop."""

from __future__ import annotations

import asyncio

import pytest

from orchestrator.core.events import ModelTurn, Outcome
from orchestrator.core.run import Run
from orchestrator.core.spec import Limits
from orchestrator.runner import drive
from orchestrator.stores.memory import MemoryStore
from tests.build import ScriptedModel, acts, final
from tests.test_runner import begin, loop_clock, ports_for, slow


@pytest.mark.virtual
async def test_the_deadline_of_the_run_ends_all_that_hang_beside_what_was_done_in_time() -> None:
    store = MemoryStore()
    await begin(store, limits=Limits(deadline=20.0))
    calls = (("slow", {"q": "a"}), ("look", {"q": "b"}), ("slow", {"q": "c"}))
    run = await drive("r1", ports_for(ScriptedModel([acts(1, ("look", {"q": "d"})), acts(2, *calls), final()]), store))
    assert run.ended is not None and run.ended.outcome is Outcome.DEADLINE
    assert [each.code for each in run.steps[1].observations] == ["OUTCOME_UNKNOWN", None, "OUTCOME_UNKNOWN"]
    assert loop_clock() == pytest.approx(20.0, abs=0.1)


@pytest.mark.virtual
async def test_a_run_that_ended_or_was_given_up_leaves_no_timer_for_its_deadline() -> None:
    async def driven(run_id: str, *turns: ModelTurn) -> Run:
        await begin(store, run_id, limits=Limits(deadline=600.0))
        return await drive(run_id, ports_for(ScriptedModel(list(turns)), store))

    store, loop = MemoryStore(), asyncio.get_running_loop()
    both = acts(2, ("look", {"q": "b"}), ("pay", {"q": "c"}))
    await asyncio.gather(*(driven(f"r{each}", acts(1, ("look", {"q": "a"})), both, final()) for each in range(9)))
    hung = asyncio.create_task(driven("hung", acts(1, ("slow", {"q": "a"})), final()))
    await asyncio.sleep(1)
    hung.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hung
    timers = [each.when() for each in loop._scheduled if not each.cancelled()]  # type: ignore[attr-defined]
    assert not [when for when in timers if when > loop.time() + slow.spec.timeout]
