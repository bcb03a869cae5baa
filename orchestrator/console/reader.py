"""Goes along a Trace and makes a View of it: what is still open is remembered, what each turn says of errors is judged."""

from __future__ import annotations

from orchestrator.console.view import Call, Ruling, Turn, View, ruling, text_of
from orchestrator.console.waterfall import Kind, Part, Row, tries
from orchestrator.core.events import (
    Action,
    Actions,
    ActionStarted,
    Decision,
    Entry,
    Final,
    Malformed,
    ModelTurn,
    Observation,
    Outcome,
    Trace,
    Waiting,
)
from orchestrator.core.measure import bloat, judged, rests_on
from orchestrator.core.permission import POLICY
from orchestrator.core.run import Run, evolve
from orchestrator.errors import IllegalEvent
from orchestrator.show import earlier, plain


def view(trace: Trace, now: float) -> View:
    """The run of this trace, as far as it can have happened. `now` (unix seconds) ends what is still going on."""
    shown, reader = View(), _Reader()
    for entry in trace:
        try:
            after = evolve(shown.run, entry)
        except IllegalEvent as error:
            shown.damaged = plain(f"{error}; {len(trace) - shown.run.seq} entries from here on are not shown")
            break
        reader.take(shown, entry)
        shown.run = after
    reader.close(shown, now)
    if shown.run.ended is not None and shown.run.ended.outcome is Outcome.ANSWERED:
        shown.bloat = bloat(shown.run)
    return shown


class _Reader:
    """What is open at this place of the trace."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._rows: dict[str, Row] = {}
        self._begun: dict[str, float] = {}
        self._waits: dict[str, float] = {}

    def take(self, shown: View, entry: Entry) -> None:
        """One more entry; `shown.run` is the run before it."""
        at = entry.at - shown.run.started_at if shown.run.seq else 0.0
        match entry.event:
            case ModelTurn() as turn:
                self._turned(shown, turn, at)
            case ActionStarted() as begun:
                self._started(shown.run, begun, at)
            case Observation() as seen:
                self._calls[seen.id].outside = shown.run.from_outside(seen)
                self._observed(seen, at)
            case Waiting() as waiting:
                self._waiting(waiting, at)
            case Decision() as decision:
                self._decided(shown, decision, at)
            case _:
                pass

    def close(self, shown: View, now: float) -> None:
        """What is still going on goes on until now; what the answer rests on is marked."""
        run = shown.run
        end = run.at if run.ended or shown.damaged else max(now, run.at)
        at = end - run.started_at
        if not run.ended:
            for action_id, since in self._waits.items():
                self._still(action_id, "wait", since, at)
            for action_id in run.begun - run.waiting.keys():
                if self._calls[action_id].seen is None:
                    self._still(action_id, "tool", self._begun[action_id], at)
        if not run.ended and not shown.damaged and run.seq and run.turn is None:
            shown.rows.append(
                Row("…", "trace", run.step, parts=[_part("model", run.at - run.started_at, at)], open=True)
            )
        shown.span = max(0.0, at)
        shown.rests = sorted(rests_on(run) & self._calls.keys(), key=_order)
        for action_id in shown.rests:
            self._calls[action_id].rests = self._rows[action_id].rests = True

    def _still(self, action_id: str, kind: Kind, since: float, at: float) -> None:
        row = self._rows[action_id]
        row.parts.append(_part(kind, since, at))
        row.open = self._calls[action_id].running = True

    def _turned(self, shown: View, turn: ModelTurn, at: float) -> None:
        run = shown.run
        made = _turn(run, turn, at)
        before = min(at, max(0.0, run.at - run.started_at))
        began = at - _share(turn.seconds, sum(each.seconds for each in turn.attempts), at - before)
        before = min(began, before) if turn.attempts else began
        row = Row(f"{run.step} {made.model}".rstrip(), f"s{run.step}", run.step)
        row.parts = [*tries(turn.attempts, before, began), _part("model", began, at)]
        row.error = made.malformed is not None
        shown.rows.append(row)
        shown.turns.append(made)
        for call in made.calls:
            self._calls[call.id] = call
            self._rows[call.id] = Row(f"{call.id} {call.tool}", f"a{call.id}", run.step, call=True)
            shown.rows.append(self._rows[call.id])
        self._judge(run, turn, made)

    def _judge(self, run: Run, turn: ModelTurn, made: Turn) -> None:
        """What this turn says of its own Actions, and of the errors of the step before it."""
        said, errors = judged(run, turn)
        for call, found in zip(made.calls, said, strict=False):
            call.said = found.result.value
        for missed in errors:
            self._calls[missed.id].noticed = missed.result.value

    def _started(self, run: Run, begun: ActionStarted, at: float) -> None:
        self._begun[begun.id] = at
        if begun.rule:
            rules = {rule.name: rule.reason for rule in run.start.permissions}
            why = f"{begun.rule}: {rules.get(begun.rule, '')}".rstrip(": ")
            self._calls[begun.id].rulings.append(Ruling("allow", POLICY, plain(why)))

    def _waiting(self, waiting: Waiting, at: float) -> None:
        self._calls[waiting.id].waiting = waiting
        if waiting.reason == "approval":
            self._calls[waiting.id].rulings.append(Ruling("ask", POLICY, plain(waiting.why)))
        begun = self._begun.get(waiting.id)
        if begun is not None and waiting.id not in self._waits:
            self._rows[waiting.id].parts.append(_part("tool", begun, at))
        self._waits.setdefault(waiting.id, at)

    def _observed(self, seen: Observation, at: float) -> None:
        call, row = self._calls[seen.id], self._rows[seen.id]
        call.seen, call.tried, call.content = seen, earlier(seen), plain(seen.content)
        call.facts = {plain(name): plain(value) for name, value in seen.facts.items()}
        row.error = seen.status == "error"
        began = self._begun.get(seen.id, at - seen.seconds)
        if (waited := self._waits.pop(seen.id, None)) is not None:
            row.parts.append(_part("wait", waited, at))
            began = at
        own = min(at - began, _own(seen)) if call.tried else at - began
        row.parts += [*tries(call.tried, began, at - own), _part("error" if row.error else "tool", at - own, at)]

    def _decided(self, shown: View, decision: Decision, at: float) -> None:
        call = self._calls.get(decision.id)
        if call is None:
            shown.cancels.append(ruling(decision))
            return
        call.rulings.append(ruling(decision))
        if decision.input is not None:
            call.edited = text_of(decision.input)
        waited = self._waits.pop(decision.id, None)
        if waited is not None:
            self._rows[decision.id].parts.append(_part("wait", waited, at))


def _share(own: float, others: float, room: float) -> float:
    """Seconds of the successful try, where it and the failed ones must fit into `room`."""
    return own if own + others <= room or own + others <= 0 else room * own / (own + others)


def _own(seen: Observation) -> float:
    """Seconds of the try that this Observation is about; of a success a guess: its share of what the failed ones left."""
    if seen.status == "error":
        return seen.attempts[-1].seconds
    free = seen.seconds - sum(each.seconds for each in seen.attempts)
    return max(0.0, free / (len(seen.attempts) + 1))


def _order(action_id: str) -> tuple[int, int]:
    step, _, index = action_id.partition(".")
    return int(step), int(index)


def _part(kind: Kind, start: float, end: float) -> Part:
    """A part that does not end before it begins."""
    return Part(kind, max(0.0, start), max(0.0, start, end))


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
