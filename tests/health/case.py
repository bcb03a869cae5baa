"""A labelled trace, and what the code says of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from orchestrator.core.events import Action, Observation
from orchestrator.core.measure import ToolName, TurnText, error_observations, step_bloat, thought_actions

Samples = dict[str, list[str]]
"""Sample -> verdicts: "turn 2 search" may have been called twice in one turn."""


@dataclass(frozen=True)
class Case:
    id: str
    why: str
    expected: Samples
    got: Samples
    minimum: tuple[Any, Any]


def cases(path: Path) -> Iterator[Case]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield case(json.loads(line))


def case(row: dict[str, Any]) -> Case:
    expect = row["expect"]
    tools = tuple(
        ToolName(each["name"], tuple(each["aliases"]), each["common"], each["side_effect"]) for each in row["tools"]
    )
    turns = tuple(turn(each) for each in row["turns"])
    said = [
        {"turn": number, "tool": sample.tool, "result": sample.result.value}
        for number, each in enumerate(turns, 1)
        for sample in thought_actions(each, tools, row["goal"])
    ]
    noticed = [
        {"turn": number, "id": sample.id, "result": sample.result.value}
        for number, (each, after) in enumerate(pairwise(turns), 1)
        for sample in error_observations(each, after, tools, row["goal"])
    ]
    bloat = step_bloat(turns, row["goal"], tools, row["protocol"], row["min_steps"], None)
    found = bloat and {"actual": bloat.actual, "minimum": bloat.minimum, "basis": bloat.basis.value}
    return Case(
        row["id"],
        row["why"],
        samples(expect["thought_actions"], expect["error_observations"]),
        samples(said, noticed),
        (expect["step_bloat"], found),
    )


def turn(row: dict[str, Any]) -> TurnText:
    actions = tuple(Action(each["id"], each["tool"], each["input"]) for each in row["actions"])
    tool = {action.id: action.tool for action in actions}
    observations = tuple(
        Observation(each["id"], tool.get(each["id"], ""), each["status"], each["content"], each["code"])
        for each in row["observations"]
    )
    return TurnText(row["reasoning"], row["thought"], actions, row["final"], tuple(row["flags"]), observations)


def samples(said: list[dict[str, Any]], noticed: list[dict[str, Any]]) -> Samples:
    found: Samples = {}
    for each in said:
        found.setdefault(f"turn {each['turn']} {each['tool']}", []).append(each["result"])
    for each in noticed:
        found.setdefault(f"error {each['id']}", []).append(each["result"])
    return found
