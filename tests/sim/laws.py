"""What must hold in every world, whatever went wrong in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256

from orchestrator.audit import Chains, verify
from orchestrator.core.events import (
    Action,
    Actions,
    ActionStarted,
    Decision,
    Entry,
    ModelTurn,
    Observation,
    RunEnded,
    Trace,
)
from orchestrator.core.run import Run, evolve, replay
from orchestrator.errors import IllegalEvent
from tests.clock import run as virtually
from tests.sim.cast import ONCE
from tests.sim.mutants import MUTANTS
from tests.sim.world import BOUND, Mutation, Verdict, World

NOT_RUN = frozenset(
    {"REFUSED", "APPROVAL_EXPIRED", "REPEATED_ACTION", "CANCELLED", "DEADLINE", "OUT_OF_STEPS", "CIRCUIT_OPEN"}
)
"""Codes of Observations that say: nothing was done."""


def verdict(seed: int, runs: int, mutant: str | None = None) -> Verdict:
    """Play a world and judge it; `mutant` names the fault of ours that it has."""
    world = World(seed, runs, Mutation() if mutant is None else MUTANTS[mutant])
    return virtually(_judged(world))


async def _judged(world: World) -> Verdict:
    await world.play()
    traces = {run_id: await world.disk.read(run_id) for run_id in sorted(world.disk._entries)}
    violations = (*_violations(world, traces), *await _forgeries(world, traces))
    outcomes = Counter(
        entry.event.outcome.value for trace in traces.values() for entry in trace if isinstance(entry.event, RunEnded)
    )
    outcomes["OUTCOME_UNKNOWN"] = sum(
        isinstance(entry.event, Observation) and entry.event.code == "OUTCOME_UNKNOWN"
        for trace in traces.values()
        for entry in trace
    )
    digest = sha256(repr((traces, sorted(world.chaos.happened.items()))).encode()).hexdigest()[:16]
    return Verdict(world.seed, len(traces), violations, world.chaos.happened, outcomes, world.ended_at or BOUND, digest)


async def _forgeries(world: World, traces: Iterable[str]) -> list[str]:
    """Whatever crashed and was taken over: every trace is one chain."""
    chains = Chains()
    found = [verify(await world.disk.evidence(run_id), chains) for run_id in traces]
    return [f"{each.run_id}: not intact: {problem}" for each in found for problem in each.problems]


def _violations(world: World, traces: dict[str, Trace]) -> Iterator[str]:
    yield from world.broken
    for key, run_id in world.people.promised.items():
        if run_id not in traces:
            yield f"{run_id}: lost: promised to {key} and not there"
        if key.endswith(" again"):
            yield f"{run_id}: a second run for {key}"
    for link in world.links:
        yield from (f"{what}: written twice: the store took the same append a second time" for what in link.told_twice)
    for acknowledged in world.acknowledged:
        for entry in acknowledged:
            trace = traces.get(entry.run_id, ())
            if entry.seq > len(trace) or trace[entry.seq - 1] != entry:
                yield f"{entry.run_id}#{entry.seq}: acknowledged {entry.event.kind} is not in the trace"
    for run_id, trace in traces.items():
        yield from (f"{run_id}: {what}" for what in _of_run(world, run_id, trace))


def _of_run(world: World, run_id: str, trace: Trace) -> Iterator[str]:
    try:
        run = replay(trace)
    except IllegalEvent as error:
        yield f"the trace cannot be replayed: {error}"
        return
    if run.ended is None:
        ticket = world.board.tickets.get(run_id)
        place = f"{ticket.state} {ticket.worker}" if ticket else "without a ticket"
        yield f"not ended within {BOUND:g} s: {trace[-1].event.kind} is its last word, in the queue it is {place}"
    ends = sum(isinstance(entry.event, RunEnded) for entry in trace)
    if ends > 1:
        yield f"ended {ends} times"
    yield from _folds(world, run_id, trace)
    yield from _actions(run, trace)
    yield from _effects(world, run_id, trace)


def _folds(world: World, run_id: str, trace: Trace) -> Iterator[str]:
    """What a worker held in memory is what the trace says."""
    for (worker, told), (before, entry) in world.folded.items():
        if told == run_id and evolve(before, entry) != replay(trace[: entry.seq]):
            yield f"{worker} held another run at #{entry.seq} than the trace tells"


def _actions(run: Run, trace: Trace) -> Iterator[str]:
    proposed = [action.id for entry in trace if isinstance(entry.event, ModelTurn) for action in _of(entry.event)]
    observed = Counter(entry.event.id for entry in trace if isinstance(entry.event, Observation))
    for action_id in proposed:
        count = observed[action_id]
        if count > 1 or (count == 0 and run.ended is not None):
            yield f"action {action_id} was observed {count} times"


def _of(turn: ModelTurn) -> tuple[Action, ...]:
    return turn.intent.actions if isinstance(turn.intent, Actions) else ()


def _effects(world: World, run_id: str, trace: Trace) -> Iterator[str]:
    """Once; after its ActionStarted; after a person's word where one is needed; and never told otherwise."""
    turns = (entry.event for entry in trace if isinstance(entry.event, ModelTurn))
    tools = {action.id: action.tool for turn in turns for action in _of(turn)}
    said = {entry.event.id: entry.event for entry in trace if isinstance(entry.event, Observation)}
    for key, lengths in world.stage.effects.items():
        owner, _, action_id = key.partition(":")
        tool = tools.get(action_id, "")
        if owner != run_id or (tool and tool not in ONCE):
            continue
        if not tool:
            yield f"{key}: an effect of an action that is not in the trace"
            continue
        if len(lengths) > 1:
            yield f"{key}: {tool} took effect {len(lengths)} times"
        if not _durable(trace[: lengths[0]], ActionStarted, action_id):
            yield f"{key}: {tool} took effect before its ActionStarted was durable"
        if tool == "ship" and not _durable(trace[: lengths[0]], Decision, action_id):
            yield f"{key}: {tool} took effect and nobody had approved it"
        if (observation := said.get(action_id)) is not None and observation.code in NOT_RUN:
            yield f"{key}: {tool} took effect and the Observation says {observation.code}"
    for action_id, observation in said.items():
        tool, effects = tools.get(action_id, ""), world.stage.effects.get(f"{run_id}:{action_id}", [])
        if tool in ONCE and observation.status == "success" and not effects:
            yield f"{run_id}:{action_id}: {tool} is told to have succeeded and took no effect"


def _durable(trace: tuple[Entry, ...], kind: type[ActionStarted | Decision], action_id: str) -> bool:
    return any(isinstance(entry.event, kind) and entry.event.id == action_id for entry in trace)
