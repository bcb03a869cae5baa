"""Ctrl-C lets a run go between two effects: what only waits for a model at once, a started tool first to its Observation."""

from __future__ import annotations

import asyncio

import pytest

from orchestrator.cli.interrupt import Interrupt
from orchestrator.core.events import ActionStarted, Event
from orchestrator.core.run import Run
from tests import build

pytestmark = pytest.mark.virtual


class Driven:
    """A run that somebody drives until `end` is set; what its trace tells goes to the interrupt."""

    def __init__(self, run_id: str, interrupt: Interrupt, *events: Event) -> None:
        self.run_id, self.interrupt, self.end = run_id, interrupt, asyncio.Event()
        for entry in build.trace(*events, run_id=run_id):
            interrupt.observe(Run(), entry)

    async def go(self) -> Run | None:
        return await self.interrupt.run(self.run_id, self._drive())

    async def _drive(self) -> Run:
        await self.end.wait()
        return Run(run_id=self.run_id)


async def test_a_run_that_waits_for_a_model_is_cut_off_at_once() -> None:
    interrupt = Interrupt(print)
    driven = asyncio.create_task(Driven("r1", interrupt, build.started()).go())
    await asyncio.sleep(0)
    interrupt.interrupt()
    assert await driven is None
    assert interrupt.stopping()


async def test_a_started_tool_is_waited_for_and_the_second_signal_is_not_patient() -> None:
    told: list[str] = []
    interrupt = Interrupt(told.append)
    story = (build.started(), build.acts(1, ("pay", {})), ActionStarted("1.0"))
    patient = Driven("r1", interrupt, *story)
    driven = asyncio.create_task(patient.go())
    await asyncio.sleep(0)
    interrupt.interrupt()
    await asyncio.sleep(100)
    assert not driven.done()
    assert "Ctrl-C again" in told[0]
    interrupt.interrupt()
    assert await driven is None


async def test_a_tool_that_ends_after_the_signal_lets_its_run_stop_by_itself() -> None:
    interrupt = Interrupt(lambda _: None)
    patient = Driven("r1", interrupt, build.started(), build.acts(1, ("pay", {})), ActionStarted("1.0"))
    driven = asyncio.create_task(patient.go())
    await asyncio.sleep(0)
    interrupt.interrupt()
    patient.end.set()
    run = await driven
    assert run is not None
    assert run.run_id == "r1"


async def test_an_observed_tool_holds_nobody_up() -> None:
    interrupt = Interrupt(lambda _: None)
    story = (build.started(), build.acts(1, ("pay", {})), ActionStarted("1.0"), build.observed("1.0", tool="pay"))
    driven = asyncio.create_task(Driven("r1", interrupt, *story).go())
    await asyncio.sleep(0)
    interrupt.interrupt()
    assert await driven is None


async def test_each_run_is_judged_by_its_own_tools() -> None:
    interrupt = Interrupt(lambda _: None)
    paying = Driven("r1", interrupt, build.started(), build.acts(1, ("pay", {})), ActionStarted("1.0"))
    asking = Driven("r2", interrupt, build.started())
    tasks = [asyncio.create_task(each.go()) for each in (paying, asking)]
    await asyncio.sleep(0)
    interrupt.interrupt()
    assert await tasks[1] is None
    assert not tasks[0].done()
    paying.end.set()
    assert await tasks[0] is not None
