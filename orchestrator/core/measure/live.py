"""From entries to samples: `measure(run, entry)` is pure, so live series and a recomputation from stored traces are equal.

An entry costs the same at step 2 as at step 2,000; only the end of an answered run looks at the whole of it, once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from orchestrator.core.clean import EMPTY, END
from orchestrator.core.events import (
    Actions,
    Anomaly,
    Attempt,
    Entry,
    Malformed,
    ModelTurn,
    Observation,
    RunEnded,
    RunStarted,
)
from orchestrator.core.events import Final as FinalAnswer
from orchestrator.core.guard import REPEATED_ACTION
from orchestrator.core.measure.bloat import Basis, BloatSample, evidence, known, traced
from orchestrator.core.measure.errors import ErrorObservation, error_observations
from orchestrator.core.measure.gap import Said, ThoughtAction, TurnText, of_calls, thought_actions, verdicts
from orchestrator.core.measure.ledger import Source, Story
from orchestrator.core.measure.lens import Lens, TurnLabels, lens, tool_names
from orchestrator.core.measure.names import ToolName
from orchestrator.core.measure.series import CODES, OTHER, SANITISERS, Sample
from orchestrator.core.run import Run, Step

REPEATED: Final = "repeated"
NO_PROGRESS: Final = "no_progress"
DECLARED_TOO_HIGH: Final = "declared_minimum_too_high"
"""Kinds of anomalies besides those of a turn."""

_CALM: Final = "status: success\n"
_TAIL: Final = f"\n{END}"
_HEAD: Final = re.compile(r"status: (?:success|error)[^\n]*\n?")
_UNFLAGGED: Final = frozenset(
    {
        Anomaly.NO_ACTION,
        Anomaly.EMPTY,
        Anomaly.EMPTY_FINAL,
        Anomaly.ACTION_IN_THINKING,
        Anomaly.REFUSAL,
        Anomaly.CONTENT_FILTERED,
        Anomaly.PAUSED,
    }
)
"""Turns that were read well and hold no call: what they announce is a narrated call."""


class Before(NamedTuple):
    """What an entry is measured by, of the run before it. It can stand for that run, and is cheap to keep."""

    start: RunStarted
    steps: tuple[Step, ...] = ()
    turn: ModelTurn | None = None


def measure(run: Run | Before, entry: Entry) -> Sequence[Sample]:
    """The samples of an entry, given the run before it."""
    match entry.event:
        case ModelTurn() as turn:
            return _turn(run, turn)
        case Observation() as observation:
            return _observation(run, observation)
        case RunEnded() as ended:
            found = tuple(_ended(run, ended))
            lens.forget(run.start)
            return found
        case _:
            return ()


def turn_text(turn: ModelTurn, observations: tuple[Observation, ...] = ()) -> TurnText:
    """A stored turn, and the Observations of its step, as the health metrics see them."""
    intent = turn.intent
    return TurnText(
        turn.reasoning,
        turn.thought,
        intent.actions if isinstance(intent, Actions) else (),
        intent.answer if isinstance(intent, FinalAnswer) else None,
        _flags(turn) if isinstance(intent, Malformed) else (),
        tuple(map(_unframed, observations)),
    )


def judged(run: Run, turn: ModelTurn) -> tuple[tuple[ThoughtAction, ...], tuple[ErrorObservation, ...]]:
    """What a turn says of its own Actions, and what it makes of the errors of the step before it. `run` is the run before it."""
    start, now = run.start, turn_text(turn)
    tools = tool_names(start.tools)
    return thought_actions(now, tools, start.goal), _errors(run, now, tools) if run.steps else ()


def bloat(run: Run | Before) -> BloatSample | None:
    """The step bloat of a run that is about to end, or has: None without a Final, or when nothing is seen to be used."""
    if run.turn is None or not isinstance(run.turn.intent, FinalAnswer):
        return None
    start = run.start
    told = known(len(run.steps) + 1, start.min_steps, start.learned)
    return told or traced(_story(run, run.turn.intent), lens(start).known.effects, start.agent.protocol)


def rests_on(run: Run) -> frozenset[str]:
    """The ids of the Observations that the answer of this run rests on, as the backward slice sees it; none without a Final."""
    if run.turn is None or not isinstance(run.turn.intent, FinalAnswer):
        return frozenset()
    return evidence(_story(run, run.turn.intent))


def _story(run: Run | Before, final: FinalAnswer) -> Story:
    sources = [
        Source(number, action, seen.id, seen.status, unframed(seen.content))
        for number, step in enumerate(run.steps, 1)
        if isinstance(step.turn.intent, Actions)
        for action, seen in zip(step.turn.intent.actions, step.observations, strict=True)
    ]
    return Story(run.start.goal, final.answer, sources, len(run.steps) + 1, lambda: list(_written(run)))


def _written(run: Run | Before) -> Iterator[str]:
    for step in run.steps:
        yield turn_text(step.turn).written
    if run.turn is not None:
        yield turn_text(run.turn).written


def _flags(turn: ModelTurn) -> tuple[str, ...]:
    odd = {*turn.anomalies, *((turn.intent.problem,) if isinstance(turn.intent, Malformed) else ())}
    known = tuple(each.value for each in (Anomaly.MALFORMED, Anomaly.TRUNCATED, Anomaly.UNPARSED_MARKUP) if each in odd)
    unread = isinstance(turn.intent, Malformed) and turn.intent.problem not in _UNFLAGGED
    return known or (("malformed",) if unread else ())


def _unframed(observation: Observation) -> Observation:
    content = unframed(observation.content)
    if content == observation.content:
        return observation
    return Observation(observation.id, observation.tool, observation.status, content, observation.code)


def unframed(content: str) -> str:
    """What the tool returned: without the host's frame."""
    if content.startswith(_CALM) and content.endswith(_TAIL):
        content = content[len(_CALM) : max(len(_CALM), len(content) - len(_TAIL))]
        return "" if content == EMPTY else content
    if head := _HEAD.match(content):
        content = content[head.end() :]
    if (body := content.rstrip()).endswith(END):
        content = body.removesuffix(END).removesuffix("\n")
    return content.replace(EMPTY, "")


def _code(code: str | None) -> str:
    return code if code in CODES else OTHER


def _turn(run: Run | Before, turn: ModelTurn) -> list[Sample]:
    of = lens(run.start)
    labels = of.turn(turn.model)
    found = [labels.one, Sample("orchestrator_model_seconds", labels.pair, turn.seconds)]
    if turn.first_token is not None:
        found.append(Sample("orchestrator_first_token_seconds", labels.pair, turn.first_token))
    used = turn.usage
    told, written, cached, reasoning = labels.tokens
    if used.input_tokens:
        found.append(Sample("orchestrator_tokens_total", told, used.input_tokens))
    if used.output_tokens:
        found.append(Sample("orchestrator_tokens_total", written, used.output_tokens))
    if used.cached_tokens:
        found.append(Sample("orchestrator_tokens_total", cached, used.cached_tokens))
    if used.reasoning_tokens:
        found.append(Sample("orchestrator_tokens_total", reasoning, used.reasoning_tokens))
    if used.cost:
        found.append(Sample("orchestrator_cost_total", labels.pair, used.cost))
    if turn.attempts:
        found += _retries(of, "model", turn.attempts)
    for anomaly in turn.anomalies:
        found.append(Sample("orchestrator_anomalies_total", {**labels.pair, "kind": anomaly.value}))
    found += [labels.said[said] for said in _said(turn, of, run.start.goal)]
    for each in run.steps[-1].observations if run.steps else ():
        if each.status == "error":
            found += _noticed(run, turn, labels)
            break
    return found


def _said(turn: ModelTurn, of: Lens, goal: str) -> list[Said]:
    if isinstance(turn.intent, Actions):
        return of_calls(turn.intent.actions, turn.thought, turn.reasoning, of.known, goal)
    return [each.result for each in verdicts(turn_text(turn), of.known, goal)]


def _failed(step: Step) -> tuple[str, ...]:
    """The ids of its failed calls."""
    return tuple([each.id for each in step.observations if each.status == "error"])


def _noticed(run: Run | Before, turn: ModelTurn, labels: TurnLabels) -> Iterator[Sample]:
    """What this turn makes of the errors of the step before it."""
    for noticed in _errors(run, turn_text(turn), lens(run.start).known.tools):
        yield labels.noticed[noticed.result]
    for _ in range(_corrections(run.steps[-1], turn)):
        yield Sample("orchestrator_corrected_total", labels.turn)


def _errors(run: Run | Before, now: TurnText, tools: tuple[ToolName, ...]) -> tuple[ErrorObservation, ...]:
    before = run.steps[-1]
    return error_observations(turn_text(before.turn, before.observations), now, tools, run.start.goal)


def _corrections(before: Step, turn: ModelTurn) -> int:
    """How many failed calls of the step before are made again by this turn with another input."""
    if not isinstance(before.turn.intent, Actions) or not isinstance(turn.intent, Actions):
        return 0
    failed = _failed(before)
    return sum(
        any(each.tool == action.tool and each.input != action.input for each in turn.intent.actions)
        for action in before.turn.intent.actions
        if action.id in failed
    )


def _observation(run: Run | Before, observation: Observation) -> list[Sample]:
    of = lens(run.start)
    label = of.tool_label(observation.tool)
    found = [Sample("orchestrator_tool_seconds", label, observation.seconds)]
    if observation.attempts:
        found += _retries(of, "tool", _again(observation.attempts, observation.code))
    for action in observation.sanitised:
        found.append(Sample("orchestrator_sanitised_total", {"action": action if action in SANITISERS else OTHER}))
    if observation.status == "error":
        found.append(Sample("orchestrator_tool_errors_total", {**label, "code": _code(observation.code)}))
    if observation.code == REPEATED_ACTION:
        found.append(_anomaly(run, REPEATED))
    return found


def _ended(run: Run | Before, ended: RunEnded) -> Iterator[Sample]:
    of = lens(run.start)
    agent = of.agent
    outcome = {**agent, "outcome": ended.outcome.value}
    steps = len(run.steps) + (run.turn is not None)
    yield Sample("orchestrator_runs_total", outcome)
    yield Sample("orchestrator_run_steps", agent, steps)
    yield from _retries(of, "model", _again(ended.attempts, ended.code))
    if ended.outcome.value == NO_PROGRESS:
        yield _anomaly(run, NO_PROGRESS)
    found = bloat(run)
    if found:
        yield Sample("orchestrator_step_bloat_ratio", {**agent, "basis": found.basis.value}, found.index)
        if found.basis is Basis.DECLARED and found.minimum > found.actual:
            yield _anomaly(run, DECLARED_TOO_HIGH)


def _anomaly(run: Run | Before, kind: str) -> Sample:
    turn = run.turn or (run.steps[-1].turn if run.steps else None)
    of = lens(run.start)
    labels = {**of.agent, "model": of.model(turn.model) if turn else OTHER, "kind": kind}
    return Sample("orchestrator_anomalies_total", labels)


def _again(attempts: tuple[Attempt, ...], code: str | None) -> tuple[Attempt, ...]:
    """The tries after which there was another: not the one whose failure is the end."""
    return attempts[:-1] if attempts and attempts[-1].code == code else attempts


def _retries(of: Lens, kind: str, attempts: tuple[Attempt, ...]) -> Iterator[Sample]:
    for attempt in attempts:
        target = of.model(attempt.target) if kind == "model" else of.tool(attempt.target)
        yield Sample("orchestrator_retries_total", {"kind": kind, "target": target, "code": _code(attempt.code)})
