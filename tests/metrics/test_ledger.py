"""Passing over texts that cannot show what is asked for changes no step bloat."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.events import Action, Observation
from orchestrator.core.measure import ToolName, TurnText, step_bloat
from orchestrator.core.measure.ledger import Ledger
from tests.health.case import turn

CASES = [
    json.loads(line)
    for path in sorted((Path(__file__).parent.parent / "health" / "data").glob("*.jsonl"))
    for line in path.read_text("utf-8").splitlines()
    if line.strip()
]
WORDS = st.sampled_from(
    [
        "Lyra",
        "the",
        "THE",
        "DL-41",
        "x-5",
        "é-5",
        "1,234-x",
        "1,234",
        "2026-01-02T10:00",
        "12:30",
        "山西省",
        "iOS",
        "NASA",
        "v4",
        "a=b",
        "key:",
        "-3",
        "5km",
        "\\u0041",
        "{",
        ";",
        "\n",
    ]
)
TEXTS = st.lists(WORDS, max_size=8).map(" ".join)


def bloats(turns: tuple[TurnText, ...], goal: str, tools: tuple[ToolName, ...]) -> list[object]:
    return [step_bloat(turns, goal, tools, protocol, None, None) for protocol in ("native", "text")]


def closely(turns: tuple[TurnText, ...], goal: str, tools: tuple[ToolName, ...]) -> list[object]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "_may_show", lambda *_: True)
        return bloats(turns, goal, tools)


def test_the_labelled_cases_come_out_the_same() -> None:
    for row in CASES:
        tools = tuple(
            ToolName(each["name"], tuple(each["aliases"]), each["common"], each["side_effect"]) for each in row["tools"]
        )
        turns = tuple(turn(each) for each in row["turns"])
        assert bloats(turns, row["goal"], tools) == closely(turns, row["goal"], tools), row["id"]


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4), TEXTS, TEXTS)
def test_any_run_comes_out_the_same(steps: list[tuple[str, str]], goal: str, final: str) -> None:
    turns = [
        TurnText(
            None,
            asked,
            (Action(f"{n}.0", "t", {"q": asked}),),
            None,
            (),
            (Observation(f"{n}.0", "t", "success", seen),),
        )
        for n, (asked, seen) in enumerate(steps, 1)
    ]
    whole = (*turns, TurnText(None, None, (), final, (), ()))
    assert bloats(whole, goal, ()) == closely(whole, goal, ())
