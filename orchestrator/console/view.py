"""A Trace as the pages show it: steps with their Thoughts, Actions and Observations, and bars on a time axis. Values only.

Every text has lost its control, direction and invisible characters here; escaping it for HTML is the templates' business, always.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.core.events import (
    Action,
    Actions,
    ActionStarted,
    Attempt,
    Decision,
    Entry,
    Final,
    Malformed,
    ModelTurn,
    Observation,
    Outcome,
    RunEnded,
    Trace,
    Usage,
    Waiting,
)
from orchestrator.core.measure import (
    BloatSample,
    ToolName,
    TurnText,
    bloat,
    error_observations,
    thought_actions,
    turn_text,
)
from orchestrator.core.run import Run, evolve
from orchestrator.core.spec import Json
from orchestrator.errors import IllegalEvent
from orchestrator.show import earlier, plain

MOST_BARS = 400


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that took time: `start` and `end` in seconds since the run began. `kind`: model, tool, error, wait, tried."""

    label: str
    kind: str
    start: float
    end: float
    anchor: str

    @property
    def seconds(self) -> float:
        """How long."""
        return self.end - self.start


@dataclass(slots=True)
class Call:
    """An Action and what became of it. `said`: does the Thought name it (match, gap, unstated)? `noticed`: was its error?"""

    id: str
    tool: str
    input: str
    said: str = ""
    edited: str = ""
    decisions: list[Decision] = field(default_factory=list)
    waiting: Waiting | None = None
    seen: Observation | None = None
    content: str = ""
    tried: Sequence[Attempt] = ()
    noticed: str = ""


@dataclass(slots=True)
class Turn:
    """One step. `at` is in seconds since the run began."""

    number: int
    at: float
    thought: str
    reasoning: str
    model: str
    seconds: float
    first_token: float | None
    usage: Usage
    stop: str
    anomalies: Sequence[str]
    tried: Sequence[Attempt]
    calls: list[Call] = field(default_factory=list)
    answer: str | None = None
    missing: str | None = None
    malformed: str | None = None


@dataclass(slots=True)
class View:
    """A run to be shown. `damaged` says where its trace broke off; `span` is the length of the time axis in seconds."""

    run: Run = field(default_factory=Run)
    turns: list[Turn] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    cancels: list[Decision] = field(default_factory=list)
    damaged: str = ""
    span: float = 1.0
    bloat: BloatSample | None = None


def view(trace: Trace, now: float) -> View:
    """The run of this trace, as far as it can have happened. `now` (unix seconds) ends what is still going on."""
    shown, builder = View(), _Builder()
    for entry in trace:
        try:
            after = evolve(shown.run, entry)
        except IllegalEvent as error:
            shown.damaged = plain(f"{error}; {len(trace) - shown.run.seq} entries from here on are not shown")
            break
        builder.take(shown, entry)
        shown.run = after
    builder.close(shown, now)
    if shown.run.ended is not None and shown.run.ended.outcome is Outcome.ANSWERED:
        shown.bloat = bloat(shown.run)
    return shown


def text_of(value: Json) -> str:
    """JSON as people read it."""
    return plain(json.dumps(value, ensure_ascii=False, indent=2, default=str))


class _Builder:
    """Goes along the trace and remembers what is open."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._begun: dict[str, float] = {}
        self._waits: dict[str, float] = {}
        self._last: ModelTurn | None = None

    def take(self, shown: View, entry: Entry) -> None:
        """One more entry; `shown.run` is the run before it."""
        at = entry.at - shown.run.started_at if shown.run.seq else 0.0
        match entry.event:
            case ModelTurn() as turn:
                self._turned(shown, turn, at)
            case ActionStarted(id=action_id):
                self._begun[action_id] = at
            case Observation() as seen:
                self._observed(shown, seen, at)
            case Waiting() as waiting:
                self._calls[waiting.id].waiting = waiting
                self._waits[waiting.id] = at
            case Decision() as decision:
                self._decided(shown, decision, at)
            case _:
                pass

    def close(self, shown: View, now: float) -> None:
        """What is still going on goes on until now."""
        run = shown.run
        end = run.at if run.ended or shown.damaged else max(now, run.at)
        at = end - run.started_at
        if not run.ended:
            for action_id, since in self._waits.items():
                shown.bars.append(_bar(self._calls[action_id], "wait", since, at))
            for action_id in run.begun - run.waiting.keys():
                shown.bars.append(_bar(self._calls[action_id], "tool", self._begun[action_id], at))
        shown.bars.sort(key=lambda bar: (bar.start, bar.end))
        del shown.bars[MOST_BARS:]
        shown.span = max([at, 0.001, *(bar.end for bar in shown.bars)])

    def _turned(self, shown: View, turn: ModelTurn, at: float) -> None:
        run = shown.run
        tried = sum(each.seconds for each in turn.attempts)
        began = max(0.0, at - turn.seconds)
        anchor, label = f"s{run.step}", f"{run.step} {plain(turn.model)}"
        if tried:
            shown.bars.append(Bar(label, "tried", began, min(at, began + tried), anchor))
        shown.bars.append(Bar(label, "model", min(at, began + tried), at, anchor))
        made = _turn(run, turn, at)
        shown.turns.append(made)
        self._calls |= {call.id: call for call in made.calls}
        self._judge(run, turn, made)
        self._last = turn

    def _judge(self, run: Run, turn: ModelTurn, made: Turn) -> None:
        """What this turn says of its own Actions, and of the errors of the step before it."""
        start, now = run.start, turn_text(turn)
        tools = tuple(ToolName(spec.name, spec.aliases, spec.common, spec.side_effect) for spec in start.tools)
        for call, found in zip(made.calls, thought_actions(now, tools, start.goal), strict=False):
            call.said = found.result.value
        for missed in error_observations(_before(run), now, tools, start.goal) if run.steps else ():
            self._calls[missed.id].noticed = missed.result.value

    def _observed(self, shown: View, seen: Observation, at: float) -> None:
        call = self._calls[seen.id]
        call.seen, call.tried, call.content = seen, earlier(seen), plain(seen.content)
        kind = "error" if seen.status == "error" else "tool"
        waited = self._waits.pop(seen.id, None)
        if waited is not None:
            shown.bars.append(_bar(call, "wait", waited, at))
        began = self._begun.get(seen.id, at - seen.seconds) if waited is None else at
        shown.bars.append(_bar(call, kind, max(0.0, began), at))

    def _decided(self, shown: View, decision: Decision, at: float) -> None:
        call = self._calls.get(decision.id)
        if call is None:
            shown.cancels.append(decision)
            return
        call.decisions.append(decision)
        if decision.input is not None:
            call.edited = text_of(decision.input)
        waited = self._waits.pop(decision.id, None)
        if waited is not None:
            shown.bars.append(_bar(call, "wait", waited, at))


def _bar(call: Call, kind: str, start: float, end: float) -> Bar:
    return Bar(f"{call.id} {call.tool}", kind, start, end, f"a{call.id}")


def _before(run: Run) -> TurnText:
    step = run.steps[-1]
    return turn_text(step.turn, step.observations)


def _turn(run: Run, turn: ModelTurn, at: float) -> Turn:
    made = Turn(
        run.step,
        at,
        plain(turn.thought),
        plain(turn.reasoning),
        plain(turn.model),
        turn.seconds,
        turn.first_token,
        turn.usage,
        turn.stop.value,
        [each.value for each in turn.anomalies],
        turn.attempts,
    )
    match turn.intent:
        case Actions(actions=actions):
            made.calls = list(map(_call, actions))
        case Final(answer=answer, missing=missing):
            made.answer, made.missing = plain(answer), None if missing is None else plain(missing)
        case Malformed(problem=problem, detail=detail):
            made.malformed = plain(f"{problem.value}: {detail}")
    return made


def _call(action: Action) -> Call:
    return Call(action.id, plain(action.tool), text_of(action.input))


def ended(run: Run) -> RunEnded | None:
    """How it ended, its texts made plain."""
    end = run.ended
    if end is None:
        return None
    return RunEnded(end.outcome, _plain(end.answer), _plain(end.missing), _plain(end.code), plain(end.detail))


def tools_of(trace: Trace) -> Iterator[str]:
    """The tools that were called."""
    for entry in trace:
        if isinstance(entry.event, ModelTurn) and isinstance(entry.event.intent, Actions):
            yield from (action.tool for action in entry.event.intent.actions)


def anomalies_of(trace: Trace) -> Iterator[str]:
    """What was odd about the turns."""
    for entry in trace:
        if isinstance(entry.event, ModelTurn):
            yield from (each.value for each in entry.event.anomalies)


def labels_of(run: Run) -> Mapping[str, str]:
    """The run's labels, made plain."""
    return {plain(name): plain(value) for name, value in run.start.labels.items()}


def _plain(text: str | None) -> str | None:
    return None if text is None else plain(text)
