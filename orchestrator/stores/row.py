"""RunRow: what is worth knowing of a run without folding its Trace. Every append keeps it, from its own events alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from orchestrator.core.events import Event, ModelTurn, Outcome, RunEnded, RunStarted

Ended: TypeAlias = Outcome | Literal["open"]
"""How to ask for runs by their end; "open" is every run that has not ended."""

EXCERPT = 200
"""Characters of the goal (and of each other text) that the index keeps."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One line of the runs index. Times are unix seconds.

    `kind` is RunStarted.run_kind, `last_kind` the kind of the newest event ("waiting": somebody else has the word),
    `last_at` its time, `epoch` the newest holder's. `steps` counts ModelTurns. `model` is the first of the agent's chain.
    """

    run_id: str
    agent: str = ""
    tenant: str = ""
    goal: str = ""
    protocol: str = ""
    model: str = ""
    kind: str | None = None
    started_at: float = 0.0
    ended_at: float | None = None
    outcome: Outcome | None = None
    steps: int = 0
    last_seq: int = 0
    last_at: float = 0.0
    last_kind: str = ""
    epoch: int = 0

    @property
    def key(self) -> tuple[float, str]:
        """Where the next page begins: give it to `runs(after=...)`."""
        return self.started_at, self.run_id


Head: TypeAlias = tuple[str, str, str, str, str, str | None]
"""agent, tenant, goal, protocol, model, kind."""


class Change(NamedTuple):
    """What one append does to its row: `steps` and the three last facts always, the end and the head only when told.

    All texts are safe for any database: no NUL, no lone surrogate.
    """

    steps: int
    last_kind: str
    ended_at: float | None
    outcome: Outcome | None
    head: Head | None


def change(events: Sequence[Event], at: float) -> Change:
    """The difference that these events, appended together at `at`, make to the row of their run."""
    steps = 0
    ended: Outcome | None = None
    head: Head | None = None
    for event in events:
        if isinstance(event, ModelTurn):
            steps += 1
        elif isinstance(event, RunEnded):
            ended = event.outcome
        elif isinstance(event, RunStarted):
            head = _head(event)
    return Change(steps, events[-1].kind, at if ended else None, ended, head)


def moved(row: RunRow, seq: int, at: float, new: Change) -> RunRow:
    """The row after an append that ended at `seq`: the rule that the SQL stores write in SQL."""
    if new.head:
        agent, tenant, goal, protocol, model, kind = new.head
        row = replace(row, agent=agent, tenant=tenant, goal=goal, protocol=protocol, model=model, kind=kind)
    return replace(
        row,
        started_at=row.started_at if row.last_seq else at,
        ended_at=row.ended_at if new.ended_at is None else new.ended_at,
        outcome=row.outcome if new.outcome is None else new.outcome,
        steps=row.steps + new.steps,
        last_seq=seq,
        last_at=at,
        last_kind=new.last_kind,
    )


def _head(event: RunStarted) -> Head:
    agent, kind = event.agent, event.run_kind
    return (
        excerpt(agent.name),
        excerpt(event.tenant),
        excerpt(event.goal),
        agent.protocol,
        excerpt(next(iter(agent.models), "")),
        None if kind is None else excerpt(kind),
    )


def excerpt(text: str) -> str:
    """The text as the index keeps it: short, and safe for any database."""
    return text[:EXCERPT].replace("\0", "\ufffd").encode("utf-8", "replace").decode()
