"""The worker on the virtual clock: taking, waiting, cancelling, losing, failing, draining."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from orchestrator.core.decide import AskModel
from orchestrator.core.events import Decision, ModelTurn, Observation, Outcome, RunStarted
from orchestrator.core.prompt import Delta
from orchestrator.core.run import Run
from orchestrator.dispatch import Slice, needs_of
from orchestrator.dispatch.memory import MemoryDispatcher
from orchestrator.errors import StoreError
from orchestrator.worker import WorkerRules
from tests.build import ScriptedModel, acts, final
from tests.worker.station import EFFECTS, Script, Station, clock, station, working

pytestmark = pytest.mark.virtual

ONE_LOOK = [acts(1, ("look", {"q": "a"})), final("found")]
STOPPED_WITHIN = 0.1


class SlowModel(ScriptedModel):
    """Takes ten seconds for a turn; counts those it began and those it gave."""

    def __init__(self, script: Script, seconds: float = 10.0) -> None:
        super().__init__(script)
        self.seconds, self.begun, self.given = seconds, 0, 0

    async def turn(self, run: Run, ask: AskModel, listen: Callable[[Delta], None]) -> ModelTurn:
        self.begun += 1
        await asyncio.sleep(self.seconds)
        self.given += 1
        return await super().turn(run, ask, listen)


async def test_a_worker_answers_what_was_submitted() -> None:
    async with station(ONE_LOOK) as place:
        names = [f"r{number}" for number in range(300)]
        await place.submit(*names)
        async with working(place) as worker:
            ends = await place.ended(*names)
            await place.until(lambda: not worker.held)
        assert {end.outcome for end in ends} == {Outcome.ANSWERED}
        assert (worker.figures.taken, worker.figures.ended) == (300, 300)
        assert place.board.tickets == {}


async def test_no_more_runs_than_the_concurrency_are_in_hand() -> None:
    async with station(ONE_LOOK) as place:
        names = [f"r{number}" for number in range(20)]
        await place.submit(*names)
        seen: list[int] = []
        async with working(place, WorkerRules(concurrency=3), models=SlowModel(ONE_LOOK)) as worker:
            watch = asyncio.create_task(place.ended(*names, within=3600))
            while not watch.done():
                seen.append(len(worker.held))
                await asyncio.sleep(1)
        assert max(seen) == 3


async def test_a_worker_without_the_needed_versions_leaves_the_run_for_one_that_has_them() -> None:
    async with station(ONE_LOOK) as place:
        await place.submit("r1")
        async with working(place, has=frozenset({"agent:default@2"})) as old:
            await asyncio.sleep(30)
            assert old.figures.taken == 0
            async with working(place):
                await place.ended("r1")
        assert old.figures.taken == 0


async def test_a_cancel_ends_a_run_within_a_tenth_of_a_second_in_this_process() -> None:
    async with station(ONE_LOOK) as place:
        await place.submit("r1")
        model = SlowModel(ONE_LOOK, seconds=3600)
        async with working(place, models=model) as worker:
            await place.until(lambda: model.begun == 1)
            asked = clock()
            await place.inbox.cancel("r1", by="ann", reason="enough")
            await worker.nudge("r1")
            (end,) = await place.ended("r1")
            assert clock() - asked <= STOPPED_WITHIN
        assert (end.outcome, model.begun) == (Outcome.CANCELLED, 1)


async def test_a_cancel_by_another_process_is_felt_at_the_next_look() -> None:
    async with station(ONE_LOOK) as place:
        await place.submit("r1")
        model = SlowModel(ONE_LOOK, seconds=3600)
        async with working(place, models=model):
            await place.until(lambda: model.begun == 1)
            asked = clock()
            await place.inbox.cancel("r1", by="ann")
            (end,) = await place.ended("r1")
            assert clock() - asked <= WorkerRules().look + STOPPED_WITHIN
        assert end.outcome is Outcome.CANCELLED


async def test_a_tool_that_swallows_its_cancellation_does_not_keep_the_run_alive() -> None:
    """bug_reports C2 and C10: the run ends cancelled, each call has exactly one result, no model is asked again."""
    script = [acts(1, ("stubborn", {"q": "a"}), ("pay", {"q": "b", "seconds": 900.0})), final()]
    async with station(script) as place:
        await place.submit("r1")
        async with working(place) as worker:
            await place.until(lambda: EFFECTS["r1:1.1"] == 1)
            await place.inbox.cancel("r1", by="ann")
            await worker.nudge("r1")
            (end,) = await place.ended("r1")
        observed = [e.event for e in await place.store.read("r1") if isinstance(e.event, Observation)]
        assert end.outcome is Outcome.CANCELLED
        assert [(each.id, each.status, each.code) for each in observed] == [
            ("1.0", "error", "OUTCOME_UNKNOWN"),
            ("1.1", "error", "OUTCOME_UNKNOWN"),
        ]
        assert len(place.model.asked) == 1


async def test_a_word_that_is_no_cancel_leaves_a_tool_under_way_alone() -> None:
    script = [acts(1, ("fire", {"q": "a"}), ("pay", {"q": "b", "seconds": 30.0})), final()]
    async with station(script) as place:
        await place.submit("r1")
        async with working(place):
            await place.until(lambda: EFFECTS["r1:1.1"] == 1)
            await place.inbox.decide("r1", "1.0", "approve", by="ann")
            (end,) = await place.ended("r1")
        assert (end.outcome, EFFECTS["r1:1.0"], EFFECTS["r1:1.1"]) == (Outcome.ANSWERED, 1, 1)


class Faulty(MemoryDispatcher):
    """A queue that can be cut off, hang, and lose calls on command."""

    beats_hang = cut = False
    refused = 0

    async def beat(self, *, now: float) -> bool:
        if self.beats_hang:
            await asyncio.sleep(1e9)
        return await super().beat(now=now)

    async def done(self, taken: Slice) -> None:
        if self.refused:
            self.refused -= 1
            raise StoreError("the queue is away")
        await super().done(taken)

    async def take(self, most: int, *, now: float, has: frozenset[str], wait: float = 1.0) -> Sequence[Slice]:
        if self.cut:
            raise StoreError("the queue is away")
        return await super().take(most, now=now, has=has, wait=wait)


async def test_a_heartbeat_that_hangs_costs_the_lease_before_it_ends() -> None:
    """bug_reports B8: the worker lets go of everything by itself, before another may take it."""
    async with station(ONE_LOOK) as place:
        await place.submit("r1")
        queue, model = Faulty(place.store, place.rules, place.board), SlowModel(ONE_LOOK, seconds=3600)
        async with working(place, models=model, dispatcher=queue) as worker:
            await place.until(lambda: model.begun == 1)
            await asyncio.sleep(30)
            queue.beats_hang, cut = True, clock()
            await place.until(lambda: worker.figures.lost == 1)
            assert clock() - cut < place.rules.lease
            assert worker.problem is not None
            await asyncio.sleep(0.1)
            assert "r1" not in worker.held
            queue.beats_hang = False
            await place.until(lambda: worker.problem is None)


async def test_a_frozen_worker_appends_nothing_once_another_has_its_run() -> None:
    """bug_reports B7: the epoch fences it off, one terminal event, the tool ran once."""
    async with station([acts(1, ("pay", {"q": "a"})), final()]) as place:
        await place.submit("r1")
        queue, model = Faulty(place.store, place.rules, place.board), SlowModel(ONE_LOOK, seconds=40)
        async with working(place, models=model, dispatcher=queue) as frozen:
            await place.until(lambda: model.begun == 1)
            del place.board.workers[queue.worker]
            async with working(place):
                (end,) = await place.ended("r1")
            await asyncio.sleep(60)
        kinds = [entry.event.kind for entry in await place.store.read("r1")]
        assert (end.outcome, kinds.count("run_ended"), kinds.count("model_turn")) == (Outcome.ANSWERED, 1, 2)
        assert EFFECTS["r1:1.0"] == 1
        assert frozen.figures.lost == 1


async def test_a_queue_that_is_away_is_asked_again_and_no_claim_is_kept() -> None:
    async with station(ONE_LOOK) as place:
        await place.submit("r1")
        queue = Faulty(place.store, place.rules, place.board)
        queue.cut, queue.refused = True, 5
        async with working(place, dispatcher=queue) as worker:
            await asyncio.sleep(30)
            assert worker.figures.failures > 2
            queue.cut = False
            await place.ended("r1")
            await place.until(lambda: not worker.held)
        assert place.board.tickets == {}


async def test_one_bug_in_one_run_neither_kills_the_worker_nor_is_tried_for_ever() -> None:
    def script(run: Run, ask: AskModel) -> ModelTurn:
        if run.run_id == "bad":
            raise ZeroDivisionError("a bug")
        return final("fine")

    async with station(script) as place:
        await place.submit("bad", "good")
        async with working(place, WorkerRules(crashes=3, aside=7200.0)) as worker:
            (end,) = await place.ended("good")
            await asyncio.sleep(300)
            assert (worker.figures.crashed, worker.figures.aside) == (3, 1)
            assert (await place.front.depth(now=clock())).waiting == 1
        assert end.outcome is Outcome.ANSWERED
        assert len(await place.store.read("bad")) == 1


async def test_a_drain_lets_calls_end_and_pays_for_no_turn_twice() -> None:
    async with station([acts(1, ("look", {"q": "a"})), acts(2, ("look", {"q": "b"})), final()]) as place:
        names = [f"r{number}" for number in range(200)]
        await place.submit(*names)
        first, second = SlowModel(place.script), SlowModel(place.script)
        async with working(place, models=first) as worker:
            await place.until(lambda: first.begun == 200)
        assert (first.given, worker.figures.released, worker.held) == (200, 200, {})
        asked = clock()
        async with working(place, models=second):
            await place.until(lambda: second.begun == 200)
            assert clock() - asked < 1.0
            ends = await place.ended(*names, within=3600)
        assert {end.outcome for end in ends} == {Outcome.ANSWERED}
        assert second.begun == 400, "the finished first turns are not asked for again"


async def test_what_outlasts_the_grace_is_cut_off_and_handed_back() -> None:
    async with station(ONE_LOOK) as place:
        await place.submit("r1")
        model = SlowModel(ONE_LOOK, seconds=3600)
        async with working(place, WorkerRules(grace=5.0), models=model):
            await place.until(lambda: model.begun == 1)
            asked = clock()
        assert clock() - asked <= 5.0 + 2.0
        async with working(place):
            await place.ended("r1", within=1.0)


async def test_a_second_stop_does_not_wait() -> None:
    async with station(ONE_LOOK) as place:
        await place.submit("r1")
        model = SlowModel(ONE_LOOK, seconds=3600)
        async with working(place, models=model) as worker:
            await place.until(lambda: model.begun == 1)
            asked = clock()
            worker.stop()
        assert clock() - asked <= 2.0
        assert (await place.front.depth(now=clock())).queued == 1


async def test_a_killed_workers_runs_are_taken_over_within_fifteen_seconds() -> None:
    async with station(ONE_LOOK) as place:
        names = [f"r{number}" for number in range(50)]
        await place.submit(*names)
        model = SlowModel(ONE_LOOK, seconds=3600)
        dead = place.dispatcher()
        await dead.open()
        assert await dead.beat(now=clock())
        assert len(await dead.take(50, now=clock(), has=place_needs(place))) == 50
        killed = clock()
        async with working(place):
            await place.ended(*names)
            assert clock() - killed <= 15.0
        assert model.begun == 0


def place_needs(place: Station) -> frozenset[str]:
    return needs_of(RunStarted("", tools=place.toolbox.specs))


async def test_a_cancelled_run_says_who_cancelled_it() -> None:
    async with station([acts(1, ("order", {"q": "a"})), final()]) as place:
        await place.submit("r1")
        async with working(place) as worker:
            await place.until(lambda: worker.figures.parked == 1)
            await place.inbox.cancel("r1", by="ann", reason="too dear")
            await place.inbox.cancel("r1", by="bob")
            (end,) = await place.ended("r1")
        assert "ann: too dear" in end.detail
        decisions = [e.event for e in await place.store.read("r1") if isinstance(e.event, Decision)]
        assert len(decisions) == 1
