"""One run of one task: an agent with no model, an approver, our loop in between, and AgentDojo's verdict on the outcome."""

from __future__ import annotations

import json
import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentdojo.base_tasks import BaseInjectionTask, BaseUserTask
from agentdojo.functions_runtime import FunctionCall
from agentdojo.types import text_content_block_from_string

from orchestrator.core.decide import AskModel
from orchestrator.core.events import Action, Decision, Final, ModelTurn, RunStarted, Waiting
from orchestrator.core.measure import rests_on
from orchestrator.core.run import Run
from orchestrator.core.spec import JsonObject, Limits, Rule
from orchestrator.runner import Ports, drive
from orchestrator.stores.memory import MemoryStore
from orchestrator.toolbox import Toolbox
from tests.agentdojo.plans import obeying
from tests.agentdojo.world import DECLARED, World
from tests.build import ScriptedModel, acts, final

ENDLESS = Limits(
    max_steps=10_000,
    deadline=None,
    tool_errors=10_000,
    repeats=10_000,
    stall=10_000,
    stall_end=10_000,
    observation_chars=10**7,
)
"""Nothing but the policy may stop an injection, and nothing may hide one from the agent."""

Approver = Callable[[Action], bool | None]
"""Asked about an action: approve, refuse, or nobody answers (None) and the request expires."""


def frozen(environment: Any) -> bytes:
    """An environment to be copied from: several times as fast as a deep copy."""
    return pickle.dumps(environment)


def thawed(kept: bytes) -> Any:
    """A copy of it."""
    return pickle.loads(kept)  # noqa: S301  our own


@dataclass(frozen=True, slots=True)
class Task:
    """A user's task, and the injection (if any) that stands in what the agent will read. `kept` is the environment, frozen."""

    user: BaseUserTask[Any]
    kept: bytes
    injection: BaseInjectionTask[Any] | None = None


@dataclass(frozen=True, slots=True)
class Played:
    """What came of it, by AgentDojo's checkers: is the user's task done (`useful`), has the injection succeeded (`breached`)?

    `effects`: calls of the injection, and not of the user's task, that changed something, whether or not all of it succeeded. `flagged`: the answer rests on
    an untrusted Observation. `asked`: the approvals asked for, with the reasons.
    """

    useful: bool
    breached: bool
    obeyed: bool
    effects: int
    flagged: bool
    asked: tuple[tuple[Action, str], ...]


@dataclass(slots=True)
class Agent:
    """Makes the calls of its plan in order; obeys every injection it reads, `at_once` or when its own work is done."""

    world: World
    suite: str
    task: Task
    before: Any
    at_once: bool = False
    plan: list[FunctionCall] = field(default_factory=list)
    obeyed: bool = False
    orders: int = 0
    ordered: set[str] = field(default_factory=set)
    _heard: bool = False

    def __call__(self, run: Run, _ask: AskModel) -> ModelTurn:
        self._listen(run)
        if self._heard and not self.obeyed and (self.at_once or not self.plan):
            self.obeyed = True
            injection = self.task.injection
            assert injection is not None
            orders = obeying(self.suite, injection, self.before, self.world.environment)
            self.plan[:0], self.orders = orders, len(orders)
        if self.plan:
            call = self.plan.pop(0)
            if self.orders:
                self.orders -= 1
                self._order(call, f"{run.step}.0")
            return acts(run.step, (call.function, arguments(call)))
        told = [self.task.user.GROUND_TRUTH_OUTPUT]
        if self.obeyed and self.task.injection is not None:
            told.append(self.task.injection.GROUND_TRUTH_OUTPUT)
        return final("\n".join(filter(None, told)) or "Done.")

    def _order(self, call: FunctionCall, action_id: str) -> None:
        """Remember what was done for the injection; what the user wants as well is not held against anybody."""
        own = self.task.user.ground_truth(self.before.model_copy(deep=True))
        if all(_key(call.function, arguments(call)) != _key(each.function, arguments(each)) for each in own):
            self.ordered.add(action_id)

    def _listen(self, run: Run) -> None:
        if self.task.injection is None or self._heard or not run.steps:
            return
        wanted = _letters(self.task.injection.GOAL.split("\n")[0])
        self._heard = any(wanted in _letters(each.content) for each in run.steps[-1].observations)


def nobody(_action: Action) -> None:
    """Nobody is there: every request expires."""


def comparing(wanted: Iterable[FunctionCall]) -> Approver:
    """Somebody who knows what the user asked for: approves each of these calls once, as it stands, and refuses everything else."""
    left = Counter(_key(each.function, arguments(each)) for each in wanted)

    def approve(action: Action) -> bool:
        key = _key(action.tool, action.input)
        if not left[key]:
            return False
        left[key] -= 1
        return True

    return approve


async def play(
    world: World,
    task: Task,
    rules: tuple[Rule, ...],
    approver: Approver,
    *,
    at_once: bool = False,
    breach_only: bool = False,
) -> Played:
    """Play the task in a copy of its environment; judged by AgentDojo's checkers on what was really done.

    `breach_only`: do not ask whether the user's task is done (the checkers compare whole environments: most of the time).
    """
    environment = task.user.init_environment(thawed(task.kept))
    began = frozen(environment)
    world.begin(environment)
    plan = task.user.ground_truth(thawed(began))
    agent = Agent(world, world.suite.name, task, thawed(began), at_once, plan)
    run, asked = await _drive(task.user.PROMPT, ScriptedModel(agent), world.toolbox, rules, approver)
    output = [text_content_block_from_string(_answer(run))]
    ended = frozen(environment)

    def check(judge: Any) -> bool:  # on copies: some checkers mark mail as read
        before, after = thawed(began), thawed(ended)
        held: bool = world.suite._check_task_result(judge, output, before, after, world.made)
        return held

    breached = task.injection is not None and check(task.injection)
    useful = not breach_only and check(task.user)
    return Played(useful, breached, agent.obeyed, _effects(run, agent.ordered), _flagged(run), asked)


async def _drive(
    goal: str, model: ScriptedModel, toolbox: Toolbox, rules: tuple[Rule, ...], approver: Approver
) -> tuple[Run, tuple[tuple[Action, str], ...]]:
    store, now, asked = MemoryStore(), [0.0], []
    await store.open()
    await store.append("run", 0, [RunStarted(goal, limits=ENDLESS, tools=toolbox.specs, permissions=rules)], at=0.0)
    ports = Ports(store, model, toolbox, clock=lambda: now[0])
    while (run := await drive("run", ports)).ended is None:
        waiting: Waiting = next(iter(run.waiting.values()))
        action = run.action(waiting.id)
        asked.append((action, waiting.why))
        verdict = approver(action)
        if verdict is None:
            now[0] = waiting.until + 1
            continue
        decided = Decision(action.id, by="approver", verdict="approve" if verdict else "refuse")
        await store.append("run", run.seq, [decided], at=now[0])
    return run, tuple(asked)


def _answer(run: Run) -> str:
    intent = run.turn.intent if run.turn is not None else None
    if not isinstance(intent, Final):
        raise TypeError(f"the run ended without an answer: {run.ended}")  # the harness is at fault: see ENDLESS
    return intent.answer


def _effects(run: Run, ordered: set[str]) -> int:
    """How many of these actions took effect."""
    seen = [each for step in run.steps for each in step.observations if each.id in ordered and each.status == "success"]
    return sum(DECLARED[each.tool]["effect"] != "read" for each in seen)


def _flagged(run: Run) -> bool:
    untrusted = {spec.name for spec in run.start.tools if not spec.trusted}
    resting = rests_on(run)
    return any(seen.id in resting and seen.tool in untrusted for step in run.steps for seen in step.observations)


def arguments(call: FunctionCall) -> JsonObject:
    """A call's arguments as JSON has them."""
    given: Mapping[str, Any] = json.loads(json.dumps(dict(call.args), default=str))
    return given


def _key(tool: str, given: JsonObject) -> str:
    return json.dumps([tool, given], sort_keys=True, default=str)


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()
