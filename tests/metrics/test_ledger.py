"""Passing over texts, and words, that cannot be what is asked for changes no step bloat."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.events import Action, Observation
from orchestrator.core.measure import ToolName, TurnText, ledger, step_bloat
from orchestrator.core.measure.look import Look
from orchestrator.core.measure.tokens import stands_plainly
from orchestrator.core.measure.values import shown_in
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
        "value",
        "march",
        "million",
        "a=b",
        "key:",
        "-3",
        "5km",
        "12",
        "12%",
        "0.12",
        "1.2k",
        "1200",
        "1,200.5",
        "1201",
        "6.97",
        "7",
        "1.234,56",
        "5,12,345",
        "1e3",
        "万",
        "May 12",
        "6月12日",
        "2026.05.12",
        "下午3点半",
        '{"a": [12.0, "7 万", -3e2]}',
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
        patch.setattr(Look, "holds", lambda *_: None)
        patch.setattr(Look, "may_show", lambda *_: True)
        patch.setattr(Look, "may_show_between", lambda *_: True)
        patch.setattr(ledger, "Wanted", lambda _: None)
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


PIECES = st.sampled_from(
    [
        "v4",
        "value",
        "March",
        "million",
        "4",
        "5",
        "k",
        "%",
        "status",
        "may",
        "Sept",
        "pm",
        "T",
        "2024-05-01",
        "12:30",
        "1)",
        "2.",
        ":",
        ",",
        ".",
        ";",
        "-",
        "_",
        "/",
        "(",
        "|",
        "'",
    ]
)
BLANKS = st.sampled_from(["", " ", " ", " ", "\n"])


@given(st.lists(st.tuples(PIECES, BLANKS), max_size=12).map(lambda parts: "".join(map("".join, parts))))
def test_a_word_that_stands_plainly_is_read_there(text: str) -> None:
    shown = {key for token in shown_in(text)[0] for key in token.shows}
    for word in ("v4", "value", "march", "million", "status"):
        assert f"w:{word}" in shown or not stands_plainly(word, text.casefold())


MARKED = st.sampled_from(
    ["v4?", "value!", "a-b", "Lyra?", "grade", "AB", "may?", "x.y", "a_b", "the", "5km", "42", "山西省?"]
)
ASIDE = st.lists(st.one_of(MARKED, WORDS), max_size=8).map(" ".join)


def without_a_look(turns: tuple[TurnText, ...], goal: str) -> list[object]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "_MANY", -1)
        return bloats(turns, goal, ())


def told(steps: list[tuple[str, str, bool]], final: str) -> tuple[TurnText, ...]:
    turns = [
        TurnText(
            None,
            "",
            (Action(f"{n}.0", "t", {"q": asked}),),
            None,
            (),
            (Observation(f"{n}.0", "t", "success" if good else "error", seen),),
        )
        for n, (asked, seen, good) in enumerate(steps, 1)
    ]
    return (*turns, TurnText(None, "", (), final))


@given(st.lists(st.tuples(ASIDE, ASIDE, st.booleans()), min_size=1, max_size=4), ASIDE, ASIDE)
def test_a_look_before_reading_changes_nothing(steps: list[tuple[str, str, bool]], goal: str, final: str) -> None:
    turns = told(steps, final)
    assert bloats(turns, goal, ()) == without_a_look(turns, goal)


def test_a_short_identifier_with_a_hyphen_is_found() -> None:
    turns = told([("", "grade a-b it was", True)], "It is a-b.")
    assert bloats(turns, "grade?", ()) == without_a_look(turns, "grade?") != [None, None]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["v4", "value", "status", "5", ":", "k"]), st.sampled_from(["?", "!", " ", ": ", "?:"])
        )
    )
)
def test_a_word_before_a_question_mark_stands_plainly(parts: list[tuple[str, str]]) -> None:
    text = " ".join(map("".join, parts))
    shown = {key for token in shown_in(text)[0] for key in token.shows}
    for word in ("v4", "value", "status"):
        assert f"w:{word}" in shown or not stands_plainly(word, text)
