"""Builders of values for tests, and a model that reads from a script: the seam's second implementation, no mock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from orchestrator.core.decide import AskModel
from orchestrator.core.events import (
    Action,
    Actions,
    Anomaly,
    Entry,
    Event,
    Final,
    Malformed,
    ModelTurn,
    Observation,
    RunStarted,
    StopReason,
    Usage,
)
from orchestrator.core.prompt import Delta
from orchestrator.core.run import Run, replay
from orchestrator.core.spec import AgentSpec, JsonObject, Limits, ToolSpec

ANY_INPUT: JsonObject = {"type": "object"}


def spec(
    name: str = "search", *, repeatable: bool = True, requires_approval: bool = False, reconcilable: bool = False
) -> ToolSpec:
    return ToolSpec(
        name,
        f"{name}s",
        ANY_INPUT,
        repeatable=repeatable,
        requires_approval=requires_approval,
        reconcilable=reconcilable,
    )


def started(
    *tools: ToolSpec, goal: str = "Who wrote it?", limits: Limits | None = None, protocol: str = "native"
) -> RunStarted:
    agent = AgentSpec(protocol="text" if protocol == "text" else "native")
    return RunStarted(goal, agent, limits or Limits(), tools or (spec(),))


def acts(
    step: int, *calls: tuple[str, JsonObject], thought: str = "", tokens: int = 10, anomalies: tuple[Anomaly, ...] = ()
) -> ModelTurn:
    """A turn that proposes these calls."""
    actions = tuple(Action(f"{step}.{index}", tool, given) for index, (tool, given) in enumerate(calls))
    return ModelTurn(thought, Actions(actions), StopReason.TOOL_USE, Usage(tokens, tokens), anomalies)


def final(answer: str = "done", *, missing: str | None = None, thought: str = "") -> ModelTurn:
    return ModelTurn(thought, Final(answer, missing), usage=Usage(10, 10))


def malformed(problem: Anomaly = Anomaly.NO_ACTION, detail: str = "Write one Action.") -> ModelTurn:
    stop = StopReason.MAX_TOKENS if problem is Anomaly.TRUNCATED else StopReason.END_TURN
    return ModelTurn("", Malformed(problem, detail), stop, Usage(10, 10), (problem,))


def observed(
    action_id: str, content: str = "a new thing", *, tool: str = "search", code: str | None = None
) -> Observation:
    return Observation(
        action_id,
        tool,
        "success" if code is None else "error",
        content,
        code=code,
        digest=str(hash(content)),
        size=len(content),
    )


def trace(*events: Event, run_id: str = "r1", at: float = 1000.0) -> tuple[Entry, ...]:
    """Entries a second apart."""
    return tuple(Entry(run_id, seq, at + seq, event) for seq, event in enumerate(events, 1))


def run_of(*events: Event) -> Run:
    return replay(trace(*events))


class ScriptedModel:
    """Gives turn n of its script at step n, whoever asks: so a resumed run hears what it would have heard.

    A script is a sequence of turns (the last one repeats) or a function of the run and what is asked.
    """

    def __init__(self, script: Sequence[ModelTurn] | Callable[[Run, AskModel], ModelTurn]) -> None:
        self.script = script
        self.asked: list[AskModel] = []

    def open(self, run: Run) -> ScriptedModel:
        assert run.started is not None
        return self

    async def turn(self, run: Run, ask: AskModel, listen: Callable[[Delta], None]) -> ModelTurn:
        self.asked.append(ask)
        turn = self.script(run, ask) if callable(self.script) else self.script[min(run.step, len(self.script)) - 1]
        if isinstance(turn.intent, Actions):
            actions = tuple(
                replace(action, id=f"{run.step}.{index}") for index, action in enumerate(turn.intent.actions)
            )
            turn = replace(turn, intent=Actions(actions))
        listen(Delta(turn.thought))
        return turn
