"""What happens next: one ladder, in reading order. A function of the run and the time, and of nothing else.

So resuming after a crash is not a feature: the same question is asked of the same trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from orchestrator.core.clean import Head, clean
from orchestrator.core.events import (
    Action,
    Actions,
    Anomaly,
    Decision,
    Event,
    Final,
    Malformed,
    Observation,
    Outcome,
    RunEnded,
    Waiting,
)
from orchestrator.core.guard import REPEATED_ACTION, call_key
from orchestrator.core.permission import POLICY, Ruling, permit
from orchestrator.core.quick import quick
from orchestrator.core.run import Run
from orchestrator.core.spec import Limits, ToolSpec

APPROVAL_SECONDS = 86_400.0
"""How long an action waits for a person before it counts as refused."""

_LONGEST_SOUGHT = 2000


@quick
@dataclass(frozen=True, slots=True)
class AskModel:
    """Ask for the next turn, with at most `max_output` tokens; `finish` when it is the last one.

    `out`: tools that are withdrawn for now, with the seconds until they are expected back; the shell that asks knows them.
    """

    max_output: int
    finish: bool = False
    out: tuple[tuple[str, int], ...] = ()


@quick
@dataclass(frozen=True, slots=True)
class CallTools:
    """Perform these actions side by side. `rules`: by id, the rule of the permissions that allowed it (none: a person did)."""

    actions: tuple[Action, ...]
    rules: Mapping[str, str] = field(default_factory=dict, compare=False)


@quick
@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until then (unix seconds), or until somebody appends to the trace."""

    until: float


@quick
@dataclass(frozen=True, slots=True)
class Record:
    """Nothing to perform: append this, and `more` behind it."""

    event: Event
    more: tuple[Event, ...] = ()


Command: TypeAlias = AskModel | CallTools | Wait | Record


def decide(run: Run, now: float) -> Command | None:
    """The next command; None once the run has ended."""
    if run.ended is not None:
        return None
    if (stop := _stopped(run, now)) is not None:
        if run.pending:
            return Record(_unfinished(run, run.pending[0], stop))
        return Record(stop)
    if run.pending:
        return _act(run, now)
    if run.turn is not None and isinstance(run.turn.intent, Final):
        return Record(_finished(run.turn.intent))
    if (end := _exhausted(run)) is not None:
        return Record(end)
    return _ask(run)


def _stopped(run: Run, now: float) -> RunEnded | None:
    """Ends that do not wait for the open step: somebody cancelled, or the time is up."""
    limits = run.start.limits
    if run.cancelled is not None:
        return RunEnded(
            Outcome.CANCELLED, code="CANCELLED", detail=f"cancelled by {run.cancelled.by}: {run.cancelled.reason}"
        )
    if run.turn is not None and isinstance(run.turn.intent, Final):
        return None
    if limits.deadline is not None and run.elapsed(now) >= limits.deadline:
        return RunEnded(Outcome.DEADLINE, code="DEADLINE", detail=f"the run took longer than {limits.deadline:g} s")
    if run.pending and run.step >= limits.max_steps and not run.begun and not run.waiting:
        return RunEnded(Outcome.OUT_OF_STEPS, code="OUT_OF_STEPS", detail=f"no answer after {run.step} steps")
    return None


def _act(run: Run, now: float) -> Command:
    """The open step's actions: those that need no tool first, then all that can run, then the wait for the rest."""
    told: list[Event] = []
    runnable: list[Action] = []
    rules: dict[str, str] = {}
    for action in run.pending:
        spec = run.tool(action.tool)
        verdict = _ruled(run, action, spec, now)
        if not (verdict is None or isinstance(verdict, Ruling)):
            told.append(verdict)
            continue
        if verdict is not None:
            rules[action.id] = verdict.rule
        waiting = run.waiting.get(action.id)
        if waiting is None or (waiting.poll is not None and waiting.poll <= now):
            runnable.append(action)
    if told:
        return Record(told[0], tuple(told[1:]))
    if runnable:
        return CallTools(tuple(runnable), rules)
    return Wait(min(min(wait.until, wait.poll or wait.until) for wait in run.waiting.values()))


def _ruled(
    run: Run, action: Action, spec: ToolSpec | None, now: float
) -> Observation | Waiting | Decision | Ruling | None:
    """What the host says of an action without running it; None or the ruling that allows it when it may run."""
    decision, waiting = run.decided.get(action.id), run.waiting.get(action.id)
    if waiting is not None:
        return _overdue(action, waiting) if now >= waiting.until else None
    if decision is not None and decision.verdict == "refuse":
        return _refused(action, decision)
    if action.id in run.begun:
        if spec is not None and (spec.repeatable or spec.reconcilable):
            return None
        return _unknown(action)
    if spec is not None and not spec.repeatable and decision is None and _stands_before(run, action):
        return _host(
            action, REPEATED_ACTION, f"Not run: this very call of {action.tool} stands in the same reply before."
        )
    ruling = (
        permit(run, action, spec) if spec is not None and (decision is None or decision.verdict == "edit") else None
    )
    if ruling is not None and ruling.verdict == "refuse":
        return Decision(action.id, POLICY, "refuse", reason=ruling.why)
    if ruling is not None and ruling.verdict == "ask" and decision is None:
        return Waiting(action.id, until=now + APPROVAL_SECONDS, reason="approval", why=ruling.why)
    if run.guard.repeats(action) >= run.start.limits.repeats:
        return _host(
            action,
            REPEATED_ACTION,
            f"Not run: {action.tool} was called with exactly this input {run.guard.repeats(action)} times and the result was the same. "
            "Do something else, or finish with what is known.",
        )
    return ruling if decision is None else None


def _refused(action: Action, decision: Decision) -> Observation:
    """Who refused it, why, and the way out."""
    reason = decision.reason.rstrip(".") or "no reason given"
    if decision.by != POLICY:
        return _host(action, "REFUSED", f"{decision.by} refused this action: {reason}.")
    way_out = "Do not try it again; go on without it, or finish and say what you were not allowed to do."
    return _host(action, "REFUSED", f"Not run: the permissions of this run refuse it by the rule {reason}. {way_out}")


def _stands_before(run: Run, action: Action) -> bool:
    """Does the open turn hold the same call earlier? A side effect is made once, however often one reply asks for it."""
    intent = run.turn.intent if run.turn is not None else None
    if not isinstance(intent, Actions) or len(intent.actions) == 1:
        return False
    earlier = intent.actions[: int(action.id.partition(".")[2])]
    return any(each.tool == action.tool and call_key(each) == call_key(action) for each in earlier)


def _overdue(action: Action, waiting: Waiting) -> Observation:
    if waiting.reason == "approval":
        return _host(action, "APPROVAL_EXPIRED", "Not run: nobody approved this action in time.")
    return _host(
        action, "TOOL_TIMEOUT", f"{action.tool} did not report a result by its deadline; it may still complete."
    )


def _unknown(action: Action) -> Observation:
    return _host(
        action,
        "OUTCOME_UNKNOWN",
        f"{action.tool} was started and the worker was interrupted before its result was recorded. It may or may not have taken "
        "effect, and it was not run again. Check before you repeat it.",
    )


def _unfinished(run: Run, action: Action, stop: RunEnded) -> Observation:
    """The Observation that closes an action of a run that must stop: never a lie about what happened."""
    if action.id in run.begun:
        return _unknown(action)
    return _host(action, stop.code or stop.outcome.value.upper(), f"Not run: {stop.detail}.")


def _host(action: Action, code: str, text: str) -> Observation:
    return Observation(action.id, action.tool, "error", clean(text, Head("error", code)).text, code=code)


def _finished(final: Final) -> RunEnded:
    if final.missing is not None:
        return RunEnded(Outcome.GAVE_UP, answer=final.answer, missing=final.missing)
    return RunEnded(Outcome.ANSWERED, answer=final.answer)


_PROBLEMS = {
    Anomaly.EMPTY: Outcome.EMPTY,
    Anomaly.EMPTY_FINAL: Outcome.EMPTY,
    Anomaly.REFUSAL: Outcome.REFUSED,
    Anomaly.CONTENT_FILTERED: Outcome.REFUSED,
}


def _exhausted(run: Run) -> RunEnded | None:
    """Ends between two steps: the budgets and the guards, the most telling reason first."""
    limits, last = run.start.limits, run.steps[-1] if run.steps else None
    problem = last.turn.intent.problem if last and isinstance(last.turn.intent, Malformed) else None
    if problem in {Anomaly.REFUSAL, Anomaly.CONTENT_FILTERED}:
        return RunEnded(Outcome.REFUSED, code=problem.upper(), detail="the model refused to go on")
    if run.truncated > 1:  # once with the usual budget; from then on the larger one holds
        return RunEnded(
            Outcome.TRUNCATED,
            code="TRUNCATED_OUTPUT",
            detail=f"the reply was cut at {_cap(limits)} output tokens: raise limits.max_output_cap",
        )
    if problem is not None and run.malformed >= limits.malformed:
        outcome = _PROBLEMS.get(problem, Outcome.FORMAT)
        return RunEnded(
            outcome,
            code=f"{outcome.upper()}_ERROR",
            detail=f"{run.malformed} unusable turns in a row, the last: {problem}",
        )
    if len(run.steps) >= limits.max_steps:
        last_word = f"; the last reply was unusable: {problem}" if problem is not None else ""
        return RunEnded(
            Outcome.OUT_OF_STEPS, code="OUT_OF_STEPS", detail=f"no answer after {len(run.steps)} steps{last_word}"
        )
    if run.tool_errors >= limits.tool_errors:
        codes = ", ".join(observation.code or "?" for observation in last.observations) if last else ""
        return RunEnded(
            Outcome.TOOL_ERRORS, code="TOOL_ERRORS", detail=f"{run.tool_errors} tool errors in a row, the last: {codes}"
        )
    if run.guard.barren >= limits.stall_end:
        return RunEnded(
            Outcome.NO_PROGRESS,
            missing=_sought(run),
            code="NO_PROGRESS",
            detail=f"{run.guard.barren} steps brought nothing new",
        )
    return _over_budget(run)


def _over_budget(run: Run) -> RunEnded | None:
    """Money and tokens. A turn whose cost nobody knows is never a free one."""
    limits = run.start.limits
    if limits.max_cost is not None and run.steps and run.last_usage.cost is None:
        return RunEnded(
            Outcome.OUT_OF_BUDGET,
            code="UNKNOWN_COST",
            detail=f"nobody knows what the last turn cost: give the model {_model(run)} a price, or remove max_cost",
        )
    if limits.max_cost is not None and (run.usage.cost or 0.0) >= limits.max_cost:
        return RunEnded(
            Outcome.OUT_OF_BUDGET,
            code="OUT_OF_BUDGET",
            detail=f"the run cost {run.usage.cost}, its budget is {limits.max_cost}",
        )
    if limits.max_tokens is not None and _tokens_left(run) <= 0:
        return RunEnded(
            Outcome.OUT_OF_BUDGET,
            code="OUT_OF_BUDGET",
            detail=f"the next turn does not fit in {limits.max_tokens} tokens",
        )
    return None


def _sought(run: Run) -> str:
    """What the run was looking for in vain: the inputs of its last barren steps."""
    steps = run.steps[-run.guard.barren :]
    inputs = [action.input for step in steps for action in getattr(step.turn.intent, "actions", ())]
    sought = "; ".join(dict.fromkeys(", ".join(str(value) for value in each.values()) for each in inputs if each))
    return sought if len(sought) <= _LONGEST_SOUGHT else sought[: _LONGEST_SOUGHT - 1] + "…"


def _model(run: Run) -> str:
    return run.steps[-1].turn.model or run.start.agent.models[0]


def _cap(limits: Limits) -> int:
    """The budget of a second try: never smaller than the first one's."""
    return max(limits.max_output, limits.max_output_cap)


def _tokens_left(run: Run) -> int:
    """Tokens for the next reply, its prompt (at least as long as the last one) reserved."""
    return (run.start.limits.max_tokens or 0) - run.usage.tokens - run.last_usage.input_tokens


def _ask(run: Run) -> AskModel:
    limits = run.start.limits
    wanted = _cap(limits) if run.truncated else limits.max_output
    budget = wanted if limits.max_tokens is None else min(wanted, _tokens_left(run))
    return AskModel(budget, finish=len(run.steps) + 1 >= limits.max_steps)
