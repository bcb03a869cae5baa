"""Hostile texts: linear in their length, and none raises."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.events import (
    Action,
    Observation,
)
from orchestrator.core.measure import (
    ToolName,
    TurnText,
    error_observations,
    step_bloat,
    thought_actions,
)

DATA = Path(__file__).parent / "health" / "data"
TOOLS = (
    ToolName("get_weather", ("天气接口",)),
    ToolName("search", (), common=True),
    ToolName("send", side_effect=True),
)
GOAL = "Please find out with get_weather what the weather in Oslo is like today 请先用天气接口看看明天奥斯陆的情况"


# -- hostile texts

UNITS = {
    "mentions": "I need to call search then get_weather now ",
    "names": "get_weather",
    "blanks": " a",
    "points": ".a",
    "ticks": "`a`",
    "conditions": "if search fails ",
    "lines": "a\n",
    "digits": "1",
    "numbers": "12,345.6 ",
    "commas": "1,",
    "clauses": "用天气接口不要再先查，",
    "run": "天",
    "marks": "a\u0301\u0316",
    "ligatures": "\ufdfaa",
    "keys": '"a":',
    "underscores": "a_",
    "echo": GOAL,
    "errors": "not timeout error 503 again, ",
    "escapes": "\\_a",
    "pairs": "a=",
    "dates": "2021-07-01T09:40:00 ",
    "brackets": "[{a",
    "negations": "不",
    "calls": "call search ",
    "namespaces": "mcp__",
    "cues": "I'll ",
}


def cost_of(text: str) -> float:
    """Seconds for all three metrics with this text wherever one can stand, per text."""
    call, error = (
        Action("1.0", "get_weather", {"q": "z"}),
        Observation("1.0", "get_weather", "error", "slow", "API_TIMEOUT"),
    )
    said = TurnText(thought=text)
    begun = time.process_time()
    thought_actions(TurnText(thought=text, actions=(call,)), TOOLS, GOAL)
    thought_actions(said, TOOLS, GOAL)
    error_observations(TurnText(actions=(call,), observations=(error,)), said, TOOLS, GOAL)
    shown = TurnText(actions=(call,), observations=(Observation("1.0", "get_weather", "success", text),))
    step_bloat((shown, TurnText(thought=text, final=text)), GOAL, TOOLS, "native", None, None)
    return (time.process_time() - begun) / 6


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_a_megabyte_of_anything_takes_less_than_a_second_and_twice_as_much_less_than_three_times(unit: str) -> None:
    def sized(size: int) -> str:
        return unit * (size // len(unit.encode()))

    half, whole = (min(cost_of(sized(1 << bits)) for _ in range(2)) for bits in (15, 16))
    assert whole * 16 < 1.0
    assert whole < 3 * half + 0.01


HOSTILE = st.text(
    st.one_of(st.characters(), st.sampled_from("`'.,:()[]{}_-0123456789 \n不再用查月日年%万")), max_size=120
)


@settings(max_examples=200, deadline=None)
@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_no_text_raises(thought: str, content: str, code: str, name: str) -> None:
    call = Action("1.0", name, {"q": thought, "n": [1.5, None, {"k": content}]})
    failed = Observation("1.0", name, "error", content, code)
    good = Observation("2.0", "send", "success", content)
    turns = (
        TurnText(thought, content, (call,), None, (), (failed,)),
        TurnText(content, thought, (Action("2.0", "send", {"q": content}),), None, (), (good,)),
        TurnText(thought, None, (), content),
    )
    tools = (*TOOLS, ToolName(name or "x", (content, thought)))
    for each, after in pairwise(turns):
        assert len(thought_actions(each, tools, code)) == 1
        assert len(error_observations(each, after, tools, thought)) == (each is turns[0])
    sample = step_bloat(turns, code, tools, "native", None, None)
    assert sample is not None and 2 <= sample.minimum <= 3 and sample.index >= 1
