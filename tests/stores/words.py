"""Events for the store suites."""

from __future__ import annotations

from orchestrator.core.events import (
    Action,
    Actions,
    ActionStarted,
    Entry,
    Event,
    Final,
    ModelTurn,
    Observation,
    Outcome,
    RunEnded,
    RunStarted,
    StopReason,
    Usage,
)
from orchestrator.core.spec import AgentSpec

STARTED = RunStarted("Which city has the most bridges?", AgentSpec("scout", models=("m-1", "m-2")), tenant="acme")
TURN = ModelTurn(
    "I look it up.",
    Actions((Action("1.0", "search", {"q": "bridges", "n": [1, 2.5, None, {"deep": True}]}),)),
    StopReason.TOOL_USE,
    Usage(1200, 80, cost=0.25),
)
ACTING = ActionStarted("1.0", "r/1.0")
SEEN = Observation("1.0", "search", "success", "Hamburg: 2,500", facts={"city": "Hamburg"}, size=14, digest="d" * 64)
ANSWER = ModelTurn("Enough.", Final("Hamburg"))
ENDED = RunEnded(Outcome.ANSWERED, "Hamburg")
WHOLE: tuple[Event, ...] = (STARTED, TURN, ACTING, SEEN, ANSWER, ENDED)


def shape(entries: tuple[Entry, ...]) -> list[tuple[int, str]]:
    return [(entry.seq, entry.event.kind) for entry in entries]
