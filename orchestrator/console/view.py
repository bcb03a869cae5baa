"""A Trace as the pages show it: steps with their Thoughts, Actions and Observations, and rows on a time axis. Values only.

Every text has lost its control, direction and invisible characters here; escaping it for HTML is the templates' business, always.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.console.waterfall import Axis, Cell, Row, Worst
from orchestrator.core.events import (
    Actions,
    Attempt,
    Decision,
    ModelTurn,
    Observation,
    RunEnded,
    Trace,
    Usage,
    Waiting,
)
from orchestrator.core.measure import BloatSample
from orchestrator.core.run import Run
from orchestrator.core.spec import Json
from orchestrator.show import plain

STEPS = 50
"""Steps of a run that one page shows."""
SHORT = 72
"""Characters of JSON that stand on one line."""
CELLS = 200
"""Cells of the strip above a longer one."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """Who allowed or refused an Action, with which token (its id), and why."""

    verdict: str
    by: str
    reason: str = ""
    via: str = ""

    @property
    def good(self) -> bool:
        """It may run."""
        return self.verdict in {"allow", "approve", "edit"}


@dataclass(slots=True)
class Call:
    """An Action and what became of it. `said`: does the Thought name it (match, gap, unstated)? `noticed`: was its error?

    `rests`: the answer rests on its Observation, which is from `outside` when its tool is not trusted.
    """

    id: str
    tool: str
    input: str
    said: str = ""
    edited: str = ""
    rulings: list[Ruling] = field(default_factory=list)
    waiting: Waiting | None = None
    seen: Observation | None = None
    content: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    tried: Sequence[Attempt] = ()
    noticed: str = ""
    rests: bool = False
    outside: bool = False
    running: bool = False


@dataclass(slots=True)
class Turn:
    """One step. `at` is when its reply was there, in seconds since the run began."""

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

    @property
    def kind(self) -> Worst:
        """The worst that is in it: error, odd, wait or fine."""
        if any(call.seen and call.seen.status == "error" for call in self.calls) or self.malformed is not None:
            return "error"
        if any(call.waiting and call.seen is None for call in self.calls):
            return "wait"
        return "odd" if self.anomalies or any(call.said == "gap" for call in self.calls) else "fine"


@dataclass(slots=True)
class View:
    """A run to be shown. `damaged` says where its trace broke off; `span` is how many seconds it took, waits and all."""

    run: Run = field(default_factory=Run)
    turns: list[Turn] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    cancels: list[Ruling] = field(default_factory=list)
    damaged: str = ""
    span: float = 0.0
    bloat: BloatSample | None = None
    rests: Sequence[str] = ()

    @property
    def errors(self) -> list[Call]:
        """The calls that failed."""
        return [call for turn in self.turns for call in turn.calls if call.seen and call.seen.status == "error"]

    def failed(self, noticed: str) -> list[Call]:
        """The failed calls of which the model took notice (propagated), took none (ignored), or said nothing (unstated)."""
        return [call for call in self.errors if call.noticed == noticed]

    @property
    def untrusted(self) -> bool:
        """The answer rests on text from outside."""
        return any(call.rests and call.outside for turn in self.turns for call in turn.calls)

    @property
    def asked(self) -> list[Call]:
        """The calls that wait for a person."""
        waits = self.run.waiting
        found = [call for turn in self.turns[-1:] for call in turn.calls if call.id in waits]
        return [call for call in found if waits[call.id].reason == "approval"]


@dataclass(frozen=True, slots=True)
class Window:
    """The steps of a View that a page shows: from `first` to `last`, of `total`."""

    turns: Sequence[Turn]
    rows: Sequence[Row]
    axis: Axis
    cells: Sequence[Cell]
    first: int
    last: int
    total: int

    @property
    def before(self) -> int | None:
        """Where the page before begins."""
        return max(1, self.first - STEPS) if self.first > 1 else None

    @property
    def after(self) -> int | None:
        """Where the next page begins."""
        return self.last + 1 if self.last < self.total else None

    @property
    def newest(self) -> int:
        """Where the last page begins."""
        return max(1, self.total - STEPS + 1)


def window(view: View, asked: int | None) -> Window:
    """The steps from `asked` on; without it the last ones."""
    total = len(view.turns)
    first = max(1, total - STEPS + 1) if asked is None else max(1, min(asked, total))
    turns = view.turns[first - 1 : first - 1 + STEPS]
    last = first + len(turns) - 1
    rows = [row for row in view.rows if first <= row.step <= max(last, first)]
    cells = _cells(view.turns, first, last) if total > STEPS else ()
    return Window(turns, rows, Axis.over(rows), tuple(cells), first, last, total)


_WORST: Sequence[Worst] = ("error", "wait", "odd", "fine")


def _cells(turns: Sequence[Turn], first: int, last: int) -> Iterator[Cell]:
    size = -(-len(turns) // CELLS)
    for start in range(0, len(turns), size):
        some = turns[start : start + size]
        kinds = {turn.kind for turn in some}
        kind = next(each for each in _WORST if each in kinds)
        here = some[-1].number >= first and some[0].number <= last
        rests = any(call.rests for turn in some for call in turn.calls)
        yield Cell(some[0].number, some[-1].number, kind, here, rests)


def text_of(value: Json) -> str:
    """JSON as people read it."""
    short = json.dumps(value, ensure_ascii=False, default=str)
    return plain(short if len(short) <= SHORT else json.dumps(value, ensure_ascii=False, indent=2, default=str))


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


def ruling(decision: Decision) -> Ruling:
    """A Decision, made plain."""
    return Ruling(decision.verdict, plain(decision.by), plain(decision.reason), plain(decision.via))


def _plain(text: str | None) -> str | None:
    return None if text is None else plain(text)
