"""The state of a run, and every transition of it.

Theory of operation
-------------------
A Run is nothing but the fold of its Trace: ``replay(trace) == reduce(evolve, trace, Run())``. It is a value; `evolve` returns the
next one and refuses a history that cannot have happened (IllegalEvent), because a damaged trace must be seen.

A run goes round in *steps*. A step opens with a ModelTurn. If the turn proposes Actions, each of them is *pending* until its
Observation is folded in, in any order; when none is pending the step *closes* and becomes part of `steps`, whose order and
content never change again: prompts are rendered from closed steps only, so a prompt only ever grows at its end. A Malformed
turn closes at once, with no Observations. A Final stays open until RunEnded.

Between its turn and its Observation an action may be *begun* (ActionStarted: a side effect may have happened), *waiting* (a long
tool or a person has the word) and *decided* (a person or a policy approved, edited or refused it).

What a step's closing teaches the host (nothing new? the same again? an own Observation written?) is kept as Notes, which the
next prompt puts into words. Counters that guards need are folded as we go, so no decision ever rereads the trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias, assert_never

from orchestrator.core.events import (
    Action,
    Actions,
    ActionStarted,
    Anomaly,
    Decision,
    Entry,
    Event,
    Final,
    Malformed,
    ModelTurn,
    Observation,
    RunEnded,
    RunStarted,
    StopReason,
    Usage,
    Waiting,
)
from orchestrator.core.guard import Guard
from orchestrator.core.quick import quick
from orchestrator.core.spec import ToolSpec
from orchestrator.core.summary import Fact, fold
from orchestrator.errors import IllegalEvent

_Fields: TypeAlias = dict[str, Any]


class Note(StrEnum):
    """What the host has to say to the model about a closed step."""

    MALFORMED = "malformed"
    STALLED = "stalled"
    EXTRA_ACTIONS = "extra_actions"
    FORGED_OBSERVATION = "forged_observation"
    FINAL_AND_ACTION = "final_and_action"
    EDITED = "edited"


@quick
@dataclass(frozen=True, slots=True)
class Step:
    """One closed step: the turn, its Observations in action order, and the host's notes on it.

    `edited` are the actions whose input somebody changed before they ran, as they ran.
    """

    turn: ModelTurn
    observations: tuple[Observation, ...] = ()
    notes: tuple[Note, ...] = ()
    edited: tuple[Action, ...] = ()

    @property
    def hidden(self) -> bool:
        """A turn cut at its budget is asked for again with a larger one, and is no part of the conversation."""
        return _cut_at_budget(self.turn)


@dataclass(frozen=True)
class Run:
    """The fold of a Trace. `malformed` and `tool_errors` count consecutive ones; times are unix seconds.

    `tainted`: text from outside stands in its closed steps (or in its tools' descriptions). `waited` is how many seconds others (long tools, people) had the word in; `waiting_since` when the present wait began.
    """

    run_id: str = ""
    seq: int = 0
    at: float = 0.0
    started: RunStarted | None = None
    started_at: float = 0.0
    steps: tuple[Step, ...] = ()
    turn: ModelTurn | None = None
    pending: tuple[Action, ...] = ()
    begun: frozenset[str] = frozenset()
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
    waiting_since: float = 0.0
    waited: float = 0.0
    decided: Mapping[str, Decision] = field(default_factory=dict)
    observed: tuple[Observation, ...] = ()
    facts: Mapping[str, Fact] = field(default_factory=dict)
    outside: frozenset[str] = frozenset()
    tainted: bool = False
    usage: Usage = Usage()
    last_usage: Usage = Usage()
    guard: Guard = Guard()
    malformed: int = 0
    truncated: int = 0
    tool_errors: int = 0
    cancelled: Decision | None = None
    ended: RunEnded | None = None

    @property
    def start(self) -> RunStarted:
        """The first event. IllegalEvent before there is one."""
        if self.started is None:
            raise IllegalEvent("this run has no RunStarted yet: its trace is empty")
        return self.started

    @property
    def step(self) -> int:
        """The number of the open step, or of the one that the next ModelTurn opens; from 1."""
        return len(self.steps) + 1

    def elapsed(self, at: float) -> float:
        """Seconds that the run itself has taken by `at`: time in which others had the word does not count."""
        return (self.waiting_since if self.waiting else at) - self.started_at - self.waited

    def tool(self, name: str) -> ToolSpec | None:
        """The spec of a tool offered to this run."""
        for spec in self.start.tools:
            if spec.name == name:
                return spec
        return None

    def from_outside(self, seen: Observation) -> bool:
        """Does an Observation of the open step bring text from outside? What was not begun, the host said."""
        return seen.tool in self.outside and seen.id in self.begun

    def action(self, action_id: str) -> Action:
        """A pending action. IllegalEvent when it is not pending."""
        for action in self.pending:
            if action.id == action_id:
                return action
        raise IllegalEvent(f"run {self.run_id}: action {action_id!r} is not pending at seq {self.seq}")


def replay(trace: Iterable[Entry], run: Run | None = None) -> Run:
    """Fold a Trace (or the rest of one, onto `run`). IllegalEvent when it cannot have happened."""
    run = run or Run()
    for entry in trace:
        run = evolve(run, entry)
    return run


def evolve(run: Run, entry: Entry) -> Run:
    """The run after one more Entry. IllegalEvent when the entry cannot follow."""
    if entry.seq != run.seq + 1 or (run.seq and entry.run_id != run.run_id):
        raise IllegalEvent(
            f"run {run.run_id or entry.run_id}: entry {entry.run_id}#{entry.seq} cannot follow #{run.seq}"
        )
    if run.ended is not None:
        raise IllegalEvent(f"run {run.run_id}: {entry.event.kind} at #{entry.seq}, after the run ended")
    if (run.started is None) != isinstance(entry.event, RunStarted):
        raise IllegalEvent(f"run {entry.run_id}: {entry.event.kind} at #{entry.seq}: RunStarted comes first, and once")
    # Not `replace`: it checks and sets each of the fields anew, 5 µs for every entry.
    new = vars(run).copy()
    new["run_id"], new["seq"], new["at"] = entry.run_id, entry.seq, entry.at
    _change(run, entry.event, entry.at, new)
    after = object.__new__(Run)
    object.__setattr__(after, "__dict__", new)
    return after


def _change(run: Run, event: Event, at: float, new: _Fields) -> None:
    """Write what an event changes into the fields of the `new` run; `run` is the one before."""
    match event:
        case RunStarted() as started:
            new.update(started=started, started_at=at, guard=Guard().seeded(started.goal), **_foreign(started))
        case ModelTurn() as turn:
            _turned(run, turn, new)
        case ActionStarted(id=action_id):
            new["begun"] = _begun(run, action_id)
        case Observation() as observation:
            _resumed(run, observation.id, at, new)
            _observed(run, observation, new)
        case Waiting() as waiting:
            run.action(waiting.id)
            new["waiting"] = {**run.waiting, waiting.id: waiting}
            new["waiting_since"] = run.waiting_since if run.waiting else at
        case Decision() as decision:
            _resumed(run, decision.id, at, new)
            _decided(run, decision, new)
        case RunEnded() as ended:
            if run.pending:
                raise IllegalEvent(
                    f"run {run.run_id}: ended after #{run.seq} with action {run.pending[0].id} unobserved"
                )
            new["ended"] = ended
        case _ as unknown:
            assert_never(unknown)


def _foreign(started: RunStarted) -> dict[str, Any]:
    """The tools whose results come from outside, and whether any of them has spoken already, in its description."""
    return {
        "outside": frozenset(spec.name for spec in started.tools if not spec.trusted),
        "tainted": any(spec.foreign and not spec.trusted for spec in started.tools),
    }


def _turned(run: Run, turn: ModelTurn, new: _Fields) -> None:
    if run.turn is not None:
        raise IllegalEvent(f"run {run.run_id}: a ModelTurn after #{run.seq} while step {run.step} is still open")
    new["usage"], new["last_usage"] = run.usage + turn.usage, turn.usage
    match turn.intent:
        case Actions(actions=actions):
            expected = [f"{run.step}.{index}" for index in range(len(actions))]
            if not actions or [action.id for action in actions] != expected:
                raise IllegalEvent(
                    f"run {run.run_id}: the actions of step {run.step} must be numbered {expected or 'from 0'}"
                )
            new["turn"], new["pending"], new["malformed"] = turn, actions, 0
        case Malformed():
            _close(run, turn, (), new)
            counted = "truncated" if _cut_at_budget(turn) else "malformed"
            new[counted] += 1
        case Final():
            new["turn"], new["malformed"] = turn, 0
        case _ as unknown:
            assert_never(unknown)


def _cut_at_budget(turn: ModelTurn) -> bool:
    """Did the token budget end this turn? (An unclosed bracket is TRUNCATED too, but a larger budget would not help it.)"""
    if turn.stop is not StopReason.MAX_TOKENS:
        return False
    return isinstance(turn.intent, Malformed) and turn.intent.problem is Anomaly.TRUNCATED


def _begun(run: Run, action_id: str) -> frozenset[str]:
    run.action(action_id)
    if action_id in run.begun:
        raise IllegalEvent(f"run {run.run_id}: action {action_id} started twice, again after #{run.seq}")
    return run.begun | {action_id}


def _decided(run: Run, decision: Decision, new: _Fields) -> None:
    if decision.verdict == "cancel":
        new["cancelled"] = run.cancelled or decision
        return
    action = run.action(decision.id)
    new["decided"] = {**run.decided, decision.id: decision}
    new["waiting"] = _without(run.waiting, decision.id)
    if decision.verdict == "edit":
        if decision.input is None:
            raise IllegalEvent(
                f"run {run.run_id}: the Decision after #{run.seq} edits action {decision.id} but gives no input"
            )
        edited = replace(action, input=decision.input)
        new["pending"] = tuple(edited if each.id == action.id else each for each in run.pending)


def _without(waiting: Mapping[str, Waiting], action_id: str) -> Mapping[str, Waiting]:
    return {key: wait for key, wait in waiting.items() if key != action_id} if action_id in waiting else waiting


def _resumed(run: Run, action_id: str, at: float, new: _Fields) -> None:
    """Has the last of those who were waited for spoken? Then the run's own time goes on."""
    if len(run.waiting) == 1 and action_id in run.waiting:
        new["waited"] = run.waited + at - run.waiting_since


def _observed(run: Run, observation: Observation, new: _Fields) -> None:
    action = run.action(observation.id)
    observed = (*run.observed, observation)
    new["pending"] = pending = tuple([each for each in run.pending if each is not action])
    new["guard"] = guard = run.guard.observe(action, observation)
    new["tool_errors"] = run.tool_errors + 1 if observation.status == "error" else 0
    if not pending and run.turn is not None:
        new["guard"] = guard.closed()
        _close(run, run.turn, observed, new)
    else:
        new["observed"], new["waiting"] = observed, _without(run.waiting, action.id)


_NOTES = (
    (Anomaly.FORGED_OBSERVATION, Note.FORGED_OBSERVATION),
    (Anomaly.EXTRA_ACTIONS, Note.EXTRA_ACTIONS),
    (Anomaly.FINAL_AND_ACTION, Note.FINAL_AND_ACTION),
)


_NOTHING: Mapping[str, Any] = {"turn": None, "observed": (), "begun": frozenset(), "waiting": {}, "decided": {}}


def _close(run: Run, turn: ModelTurn, observed: tuple[Observation, ...], new: _Fields) -> None:
    """The step becomes history. Facts fold in action order, so the order of completion leaves no mark."""
    new.update(_NOTHING)
    observations = (
        tuple(sorted(observed, key=lambda each: int(each.id.partition(".")[2]))) if len(observed) > 1 else observed
    )
    for observation in observations:
        if observation.facts:
            new["facts"] = fold(new["facts"], observation.facts, run.step)
        if not new["tainted"] and run.from_outside(observation):
            new["tainted"] = True
    notes = [note for anomaly, note in _NOTES if anomaly in turn.anomalies] if turn.anomalies else []
    if isinstance(turn.intent, Malformed):
        notes.insert(0, Note.MALFORMED)
    edited = tuple(_edited(run, turn)) if run.decided else ()
    if edited:
        notes.append(Note.EDITED)
    if observations and new["guard"].barren >= run.start.limits.stall:
        notes.append(Note.STALLED)
    new["steps"] = (*run.steps, Step(turn, observations, tuple(notes), edited))


def _edited(run: Run, turn: ModelTurn) -> Iterator[Action]:
    for action in turn.intent.actions if isinstance(turn.intent, Actions) else ():
        decision = run.decided.get(action.id)
        if decision is not None and decision.verdict == "edit" and decision.input is not None:
            yield replace(action, input=decision.input)
