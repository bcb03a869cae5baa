"""drive(): the loop end to end over the memory store, a scripted model and real tools; and the crash law."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.decide import AskModel
from orchestrator.core.events import (
    ActionStarted,
    Anomaly,
    Decision,
    Event,
    ModelTurn,
    Observation,
    Outcome,
    RunStarted,
    Trace,
)
from orchestrator.core.prompt import Delta
from orchestrator.core.run import Run, replay
from orchestrator.core.spec import Limits
from orchestrator.errors import Conflict, StoreError, Timeout, Unavailable
from orchestrator.runner import Ports, drive
from orchestrator.stores import UNFENCED, Statement
from orchestrator.stores.memory import MemoryStore
from orchestrator.tool import Tool, context, tool
from orchestrator.toolbox import Toolbox
from tests.build import ScriptedModel, acts, final, malformed
from tests.clock import run as virtually

EFFECTS: Counter[str] = Counter()


@tool(repeatable=True)
async def look(q: str) -> str:
    """Looks."""
    EFFECTS[context().key] += 1
    return f"seen {q} {q}1 {q}2 {q}3"


@tool
async def pay(q: str) -> str:
    """Pays, once."""
    EFFECTS[context().key] += 1
    await asyncio.sleep(0)
    return f"paid {q} {q}1 {q}2 {q}3"


@tool
async def slow(q: str) -> str:
    """Takes an hour."""
    await asyncio.sleep(3600)
    return q


@tool
async def broken(q: str) -> str:
    """Fails."""
    raise ValueError(q)


TOOLS: tuple[Tool, ...] = (look, pay, slow, broken)


def ports_for(model: ScriptedModel, store: MemoryStore, **more: object) -> Ports:
    return Ports(store, model, Toolbox(TOOLS), clock=loop_clock, **more)  # type: ignore[arg-type]


async def begin(store: MemoryStore, run_id: str = "r1", *, limits: Limits | None = None, at: float = 0.0) -> None:
    await store.open()
    await store.append(run_id, 0, [RunStarted("Who?", limits=limits or Limits(), tools=Toolbox(TOOLS).specs)], at=at)


def loop_clock() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.virtual
async def test_a_run_goes_from_question_to_answer() -> None:
    store = MemoryStore()
    await begin(store)
    run = await drive(
        "r1", ports_for(ScriptedModel([acts(1, ("look", {"q": "a"}), ("look", {"q": "b"})), final("a and b")]), store)
    )
    assert run.ended is not None
    assert (run.ended.outcome, run.ended.answer, len(run.steps)) == (Outcome.ANSWERED, "a and b", 1)
    assert [entry.event.kind for entry in await store.read("r1")] == [
        "run_started", "model_turn", "action_started", "action_started", "observation", "observation", "model_turn", "run_ended",
    ]  # fmt: skip


@pytest.mark.virtual
async def test_one_failing_call_never_cancels_its_siblings() -> None:
    store = MemoryStore()
    await begin(store)
    batch = acts(1, ("unheard_of", {"q": "a"}), ("broken", {"q": "boom"}), ("look", {"q": "b"}))
    run = await drive("r1", ports_for(ScriptedModel([batch, final()]), store))
    assert [(each.status, each.code) for each in run.steps[0].observations] == [
        ("error", "TOOL_NOT_FOUND"), ("error", "TOOL_EXECUTION_ERROR"), ("success", None),
    ]  # fmt: skip
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.virtual
async def test_the_deadline_of_the_run_ends_a_tool_that_hangs() -> None:
    store = MemoryStore()
    await begin(store, limits=Limits(deadline=20.0))
    run = await drive("r1", ports_for(ScriptedModel([acts(1, ("slow", {"q": "a"})), final()]), store))
    assert run.ended is not None
    assert run.ended.outcome is Outcome.DEADLINE
    assert run.steps[0].observations[0].code == "OUTCOME_UNKNOWN"
    assert loop_clock() == pytest.approx(20.0, abs=0.1)


@pytest.mark.virtual
async def test_a_model_that_fails_for_good_ends_the_run_by_that_name() -> None:
    def refuse(run: Run, ask: AskModel) -> ModelTurn:
        raise Unavailable("OVERLOADED", "529 from the endpoint")

    store = MemoryStore()
    await begin(store)
    run = await drive("r1", ports_for(ScriptedModel(refuse), store))
    assert run.ended is not None
    assert (run.ended.outcome, run.ended.code) == (Outcome.MODEL_FAILED, "OVERLOADED")


@pytest.mark.virtual
async def test_a_model_that_had_no_time_left_has_not_failed() -> None:
    def late(run: Run, ask: AskModel) -> ModelTurn:
        raise Timeout("DEADLINE", "no time left to ask main")

    store = MemoryStore()
    await begin(store)
    run = await drive("r1", ports_for(ScriptedModel(late), store))
    assert run.ended is not None
    assert (run.ended.outcome, run.ended.code) == (Outcome.DEADLINE, "DEADLINE")


@pytest.mark.virtual
async def test_what_a_model_failed_with_never_tells_a_secret() -> None:
    def refuse(run: Run, ask: AskModel) -> ModelTurn:
        raise Unavailable("SERVER_ERROR", "no such key: hunter2-hunter2")

    store = MemoryStore()
    await begin(store)
    run = await drive("r1", ports_for(ScriptedModel(refuse), store, secrets=("hunter2-hunter2",)))
    assert run.ended is not None
    assert run.ended.detail == "no such key: [REDACTED]"


class SlowStore(MemoryStore):
    """Takes a second to confirm an Observation."""

    async def append(self, run_id: str, seq: int, events: Sequence[Event], **more: Any) -> Trace:
        entries = await super().append(run_id, seq, events, **more)
        if isinstance(events[0], Observation):
            await asyncio.sleep(1)
        return entries


@pytest.mark.virtual
async def test_a_deadline_that_falls_into_an_append_loses_nothing() -> None:
    store = SlowStore()
    await begin(store, limits=Limits(deadline=0.5))
    run = await drive("r1", ports_for(ScriptedModel([acts(1, ("pay", {"q": "a"})), final()]), store))
    assert run.ended is not None
    assert run.ended.outcome is Outcome.DEADLINE
    assert [each.status for each in run.steps[0].observations] == ["success"]


@pytest.mark.virtual
async def test_a_tool_knows_the_runs_deadline() -> None:
    told: list[float | None] = []

    @tool
    async def ask_when() -> str:
        """Notes its deadline."""
        told.append(context().deadline)
        return "noted"

    store = MemoryStore()
    await store.open()
    box = Toolbox((ask_when,))
    for name, deadline in (("r1", 20.0), ("r2", None)):
        await store.append(name, 0, [RunStarted("When?", limits=Limits(deadline=deadline), tools=box.specs)], at=0.0)
        await drive(name, Ports(store, ScriptedModel([acts(1, ("ask_when", {})), final()]), box, clock=loop_clock))
    assert told == [20.0, None]


@pytest.mark.virtual
async def test_a_larger_budget_is_asked_for_after_silence() -> None:
    model = ScriptedModel([malformed(Anomaly.TRUNCATED), final("zeta-9: 蓝鲸实验室")])
    store = MemoryStore()
    await begin(store)
    run = await drive("r1", ports_for(model, store))
    assert [ask.max_output for ask in model.asked] == [4096, 16384]
    assert run.ended is not None
    assert run.ended.outcome is Outcome.ANSWERED


@pytest.mark.virtual
async def test_a_worker_that_lost_its_run_lets_go_before_it_performs_anything_more() -> None:
    store = MemoryStore()
    await begin(store)
    calls = 0
    EFFECTS.clear()

    def overtaken(run: Run, ask: AskModel) -> ModelTurn:
        nonlocal calls
        calls += 1
        return acts(1, ("pay", {"q": "overtaken"}))

    epoch = await store.bump("r1")
    await store.bump("r1")
    with pytest.raises(Conflict):
        await drive("r1", ports_for(ScriptedModel(overtaken), store), epoch=epoch)
    assert calls == 1
    assert EFFECTS["r1:1.0"] == 0
    assert len(await store.read("r1")) == 1


@pytest.mark.virtual
async def test_a_run_is_let_go_between_steps_and_taken_up_again() -> None:
    store = MemoryStore()
    await begin(store)
    model = ScriptedModel([acts(1, ("look", {"q": "a"})), final()])
    asked = iter([False, True])
    paused = await drive("r1", ports_for(model, store, stopping=lambda: next(asked)))
    assert (paused.ended, paused.seq, len(paused.steps)) == (None, 4, 1)
    run = await drive("r1", ports_for(model, store))
    assert run.ended is not None


@pytest.mark.virtual
async def test_observers_hear_of_an_entry_after_it_is_durable_and_see_the_run_before_it() -> None:
    store = MemoryStore()
    await begin(store)
    heard: list[tuple[int, int]] = []
    await drive(
        "r1",
        ports_for(ScriptedModel([final()]), store, observers=(lambda run, entry: heard.append((run.seq, entry.seq)),)),
    )
    assert heard == [(1, 2), (2, 3)]


@pytest.mark.virtual
async def test_a_cancel_that_comes_while_the_model_thinks_starts_no_action_and_says_so() -> None:
    store = MemoryStore()
    await begin(store)

    async def cancelled_meanwhile() -> None:
        await store.append("r1", 1, [Decision("", "ann", "cancel", reason="enough")], at=1.0, epoch=UNFENCED)

    class Slow(ScriptedModel):
        async def turn(self, run: Run, ask: AskModel, listen: Callable[[Delta], None]) -> ModelTurn:
            await cancelled_meanwhile()
            return await super().turn(run, ask, listen)

    EFFECTS.clear()
    run = await drive("r1", ports_for(Slow([acts(1, ("pay", {"q": "a"}))]), store))
    assert run.ended is not None
    assert run.ended.outcome is Outcome.CANCELLED
    assert [observation.code for observation in run.steps[0].observations] == ["CANCELLED"]
    assert not EFFECTS


class Crash(StoreError):
    """The process dies here."""


class CrashingStore(MemoryStore):
    """Dies before or after the appends it is told, once each."""

    def __init__(self, crashes: Mapping[int, bool]) -> None:
        super().__init__()
        self.crashes = dict(crashes)
        self.appends = 0

    async def append(
        self,
        run_id: str,
        seq: int,
        events: Sequence[Event],
        *,
        at: float,
        epoch: int = 0,
        blobs: Mapping[str, bytes] = {},
        enlist: Sequence[Statement] = (),
    ) -> Trace:
        self.appends += 1
        after = self.crashes.pop(self.appends, None)
        if after is False:
            raise Crash
        entries = await super().append(run_id, seq, events, at=at, epoch=epoch, blobs=blobs, enlist=enlist)
        if after is True:
            raise Crash
        return entries


CALL = st.sampled_from(["look", "pay"])
SCRIPT = st.lists(st.lists(CALL, min_size=1, max_size=3), max_size=4)


@settings(max_examples=300, deadline=None)
@given(SCRIPT, st.dictionaries(st.integers(1, 30), st.booleans(), max_size=6))
def test_a_crash_before_or_after_any_append_repeats_nothing_and_loses_nothing(
    script: list[list[str]], crashes: dict[int, bool]
) -> None:
    turns = [
        acts(step, *((name, {"q": f"{step}{index}"}) for index, name in enumerate(batch)))
        for step, batch in enumerate(script, 1)
    ]
    run, trace = virtually(_crash_and_resume(ScriptedModel([*turns, final()]), crashes))
    proposed = {action.id: action.tool for turn in turns for action in turn.intent.actions}  # type: ignore[union-attr]
    observed = Counter(entry.event.id for entry in trace if isinstance(entry.event, Observation))
    assert observed == Counter(proposed.keys())
    assert all(count == 1 for key, count in EFFECTS.items() if proposed[key.partition(":")[2]] == "pay")
    assert replay(trace) == run
    assert run.ended is not None
    unknown = [e.event for e in trace if isinstance(e.event, Observation) and e.event.code == "OUTCOME_UNKNOWN"]
    assert all(event.tool == "pay" for event in unknown)
    started = {entry.event.id for entry in trace if isinstance(entry.event, ActionStarted)}
    assert {key.partition(":")[2] for key in EFFECTS} <= started


async def _crash_and_resume(model: ScriptedModel, crashes: Mapping[int, bool]) -> tuple[Run, Trace]:
    EFFECTS.clear()
    store = CrashingStore({number + 1: after for number, after in crashes.items()})
    await begin(store, limits=Limits(tool_errors=99, stall_end=99))
    while True:
        try:
            run = await drive("r1", ports_for(model, store))
        except Crash:
            continue
        return run, await store.read("r1")
