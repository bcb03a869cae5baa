"""Native tool use: what a Completion is as a turn, and what a closed step is as messages."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core import native
from orchestrator.core.events import (
    Action,
    Actions,
    Anomaly,
    Final,
    Malformed,
    ModelTurn,
    Observation,
    StopReason,
    Usage,
)
from orchestrator.core.markup import holds_call
from orchestrator.core.prompt import Completion, Message, RawCall, Text, ToolCall, ToolOutput
from orchestrator.core.spec import AgentSpec, ToolSpec
from orchestrator.core.text.way_out import missing

CITY = ToolSpec("get_weather", "", {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
TIME = ToolSpec("get_time", "", {"type": "object"})
TODOS = ToolSpec(
    "set_todos",
    "",
    {"type": "object", "properties": {"todos": {"type": "array"}, "when": {"type": "object"}, "odd": True}},
)
TOOLS = (CITY, TIME, TODOS)
LONG_ID = "call_0123456789abcdef"


def turn(*calls: RawCall, text: str = "", stop: StopReason = StopReason.TOOL_USE, **fields: Any) -> ModelTurn:
    return native.read(Completion(text, calls=calls, stop=stop, **fields), TOOLS, 3)


def oslo(id: str = LONG_ID, arguments: Any = '{"city": "Oslo"}', name: str = "get_weather") -> RawCall:
    return RawCall(id, name, arguments)


def observed(id: str, content: str, status: Any = "success") -> Observation:
    return Observation(id, "get_weather", status, content)


def actions(found: ModelTurn) -> tuple[Action, ...]:
    assert isinstance(found.intent, Actions), found.intent
    return found.intent.actions


def problem(found: ModelTurn) -> Malformed:
    assert isinstance(found.intent, Malformed), found.intent
    return found.intent


def test_calls_become_actions_with_our_ids_and_the_text_is_the_thought() -> None:
    usage = Usage(20, 8)
    found = turn(oslo(), RawCall("b", "get_time", {}), text=" Two look-ups.\n", reasoning="hm", usage=usage)
    assert actions(found) == (Action("3.0", "get_weather", {"city": "Oslo"}), Action("3.1", "get_time", {}))
    assert (found.thought, found.reasoning, found.usage, found.stop) == (
        "Two look-ups.",
        "hm",
        usage,
        StopReason.TOOL_USE,
    )
    assert found.anomalies == ()


def test_no_call_a_normal_stop_and_visible_text_is_the_end() -> None:
    found = turn(text="<think>six by seven</think>\n42", stop=StopReason.END_TURN)
    assert found.intent == Final("42")
    assert (found.thought, found.reasoning, found.opaque) == ("", "six by seven", {})


@pytest.mark.parametrize(
    ("stop", "flag"),
    [
        (StopReason.MAX_TOKENS, Anomaly.TRUNCATED),
        (StopReason.CUT, Anomaly.TRUNCATED),
        (StopReason.REFUSAL, Anomaly.REFUSAL),
        (StopReason.PAUSE, Anomaly.PAUSED),
        (StopReason.CONTENT_FILTER, Anomaly.CONTENT_FILTERED),
    ],
)
def test_a_reply_that_did_not_end_normally_runs_nothing_and_ends_nothing(stop: StopReason, flag: Anomaly) -> None:
    for found in (turn(oslo(), stop=stop), turn(text="The dose is 1", stop=stop)):
        assert (problem(found).problem, found.anomalies) == (flag, (flag,))
        assert problem(found).detail


def test_reasoning_is_never_the_answer() -> None:
    found = turn(text=" \u200b", reasoning="The answer is 42.", stop=StopReason.END_TURN)
    assert problem(found).problem is Anomaly.EMPTY
    assert problem(turn(text="Let me search.")).problem is Anomaly.NO_ACTION


def test_one_unreadable_call_refuses_its_batch() -> None:
    found = turn(oslo(), oslo("b", '{"city": '))
    assert problem(found).problem is Anomaly.MALFORMED
    assert "get_weather" in problem(found).detail
    assert problem(turn(oslo(name=" "))).problem is Anomaly.UNKNOWN_TOOL


def test_blank_arguments_are_an_empty_object_only_where_nothing_is_required() -> None:
    assert actions(turn(RawCall("a", "get_time", "")))[0].input == {}
    assert actions(turn(RawCall("a", "get_time", "null")))[0].input == {}
    assert problem(turn(RawCall("a", "get_weather", ""))).problem is Anomaly.MALFORMED
    assert problem(turn(RawCall("a", "get_weather", {"city": object()}))).problem is Anomaly.MALFORMED  # type: ignore[dict-item]


def test_a_declared_array_that_came_as_text_is_read_and_a_string_stays_a_string() -> None:
    found = turn(RawCall("a", "set_todos", {"todos": '[{"t": 1}]', "when": "[1]", "odd": "[2]", "else": "[3]"}))
    assert actions(found)[0].input == {"todos": [{"t": 1}], "when": "[1]", "odd": "[2]", "else": "[3]"}
    assert found.anomalies == (Anomaly.REPAIRED_ARGUMENTS,)
    bare = (ToolSpec("set_todos", "", {"properties": 7}),)
    kept = native.read(Completion("", calls=(RawCall("a", "set_todos", {"todos": "[1]"}),)), bare, 1)
    assert actions(kept)[0].input == {"todos": "[1]"}


def test_names_are_normalised_or_unknown_never_guessed() -> None:
    assert turn(oslo(name="functions.Get_Weather")).anomalies == (Anomaly.TOOL_NAME_NORMALISED,)
    found = turn(oslo(name="get_wether"))
    assert (actions(found)[0].tool, found.anomalies) == ("get_wether", (Anomaly.UNKNOWN_TOOL,))


def test_the_codecs_anomalies_stay_and_equal_actions_are_noted_once() -> None:
    found = turn(oslo("a"), oslo("b"), oslo("c"), anomalies=(Anomaly.MISSING_CALL_ID,))
    assert found.anomalies == (Anomaly.MISSING_CALL_ID, Anomaly.DUPLICATE_ACTION)


def test_a_closed_step_is_the_call_and_one_message_of_results_in_action_order() -> None:
    found = turn(oslo(), RawCall("toolu_0123456789abc", "get_time", {}), text="Look.", opaque={"provider": "x"})
    late_first = (observed("3.1", "noon"), observed("3.0", "boom", "error"))
    assistant, user = native.messages(found, late_first, "Be quick.")
    assert assistant == Message(
        "assistant",
        (
            Text("Look."),
            ToolCall(LONG_ID, "get_weather", {"city": "Oslo"}),
            ToolCall("toolu_0123456789abc", "get_time", {}),
        ),
        {"provider": "x"},
    )
    assert user.parts == (
        ToolOutput(LONG_ID, "get_weather", "boom", error=True),
        ToolOutput("toolu_0123456789abc", "get_time", "noon"),
        Text("Be quick."),
    )


def test_a_call_without_an_observation_still_has_its_one_honest_result() -> None:
    _, user = native.messages(turn(oslo(), oslo("b", {"city": "Lyon"})), (observed("3.1", "rain"),))
    missed, seen = user.parts
    assert isinstance(missed, ToolOutput)
    assert isinstance(seen, ToolOutput)
    assert missed.error
    assert "OUTCOME_UNKNOWN" in missed.text
    assert seen.text == "rain"


def test_ids_that_come_again_every_turn_are_replaced_by_ours() -> None:
    weak = native.read(Completion("", calls=(oslo("call_0"), oslo("call_1"))), TOOLS, 1)
    again = native.read(Completion("", calls=(oslo("call_0"), oslo("call_1"))), TOOLS, 2)
    ids = [*weak.opaque["ids"], *again.opaque["ids"]]  # type: ignore[misc]
    assert len(set(ids)) == 4
    counted = [native.read(Completion("", calls=(oslo("functions.get_weather:0"),)), TOOLS, step) for step in (1, 2)]
    assert len({str(each.opaque["ids"]) for each in counted}) == 2
    assert all(isinstance(id, str) and len(id) == 9 and id.isalnum() for id in ids)
    assert turn(oslo("D681PevKs")).opaque["ids"] == ["D681PevKs"]


@pytest.mark.parametrize("ids", [None, [], ["x"], ["x", "x"], ["x", ""], [1, 2], "xy"])
def test_damaged_ids_are_made_anew_in_pairs(ids: Any) -> None:
    found = replace(turn(oslo(), oslo("b", {"city": "Lyon"})), opaque={"ids": ids})
    assistant, user = native.messages(found, ())
    made = [part.id for part in assistant.parts if isinstance(part, ToolCall)]
    assert made == [part.id for part in user.parts if isinstance(part, ToolOutput)]
    assert len(set(made)) == 2


def test_a_malformed_turn_is_its_text_and_the_reason_never_its_calls() -> None:
    found = turn(oslo("a", "{"), text="Wait.", opaque={"content": ["raw"]})
    assistant, user = native.messages(found, ())
    assert assistant == Message("assistant", (Text("Wait."),))
    assert user == Message("user", (Text(problem(found).detail),))
    assert native.messages(found, (), "note")[1] == Message("user", (Text("note"),))


def test_a_paused_turn_goes_back_as_it_is_and_nothing_follows() -> None:
    found = turn(text="Still searching.", stop=StopReason.PAUSE, opaque={"content": ["raw"]})
    assert native.messages(found, (), "note") == (
        Message("assistant", (Text("Still searching."),), {"content": ["raw"]}),
    )
    assert len(native.messages(replace(found, opaque={}), ())) == 2


def test_an_answer_that_was_not_the_end_is_replayed_as_text() -> None:
    found = turn(text="42", stop=StopReason.END_TURN)
    assert native.messages(found, ()) == (Message("assistant", (Text("42"),)),)
    assert native.messages(found, (), "No.")[1] == Message("user", (Text("No."),))


@pytest.mark.parametrize(
    ("answer", "lacking"),
    [
        ("insufficient: missing the year of birth", "the year of birth"),
        ("Insufficient: missing the year.\nI searched twice.", "the year"),
        ("**Insufficient information: missing X**", "X"),
        ("insufficient: no entry", "no entry"),
        ("insufficient:", "insufficient:"),
        ("资料不足：缺少 出生年份。", "出生年份"),
        ("资料不足：缺少X", "X"),
        ("信息不足，缺乏人口数据", "人口数据"),
        ("資料不足：缺少年份", "年份"),
        ("The data are insufficient: missing X", None),
        ("Insufficient funds: missing 5 euros", None),
        ("资料不足的原因有三个", None),
        ("42", None),
    ],
)
def test_the_honest_way_out_says_what_is_missing(answer: str, lacking: str | None) -> None:
    assert missing(answer) == lacking
    assert turn(text=answer, stop=StopReason.END_TURN).intent == Final(answer, lacking)


def test_system_teaches_the_way_out_and_that_results_are_data_in_both_languages() -> None:
    english, chinese = (native.system(AgentSpec(language=language), TOOLS) for language in ("en", "zh"))
    assert "insufficient: missing X" in english
    assert "not instructions" in english
    assert "资料不足：缺少 X" in chinese
    assert "不是指令" in chinese
    assert "tool" not in native.system(AgentSpec(), ()).partition("\n")[2]
    assert missing("insufficient: missing X") == "X"


def test_call_markup_is_found_and_talk_of_markup_is_not() -> None:
    assert holds_call("[]", TOOLS) is False
    assert holds_call("[7]", TOOLS) is False
    assert holds_call("Action: finish[42]", TOOLS)
    assert holds_call('{"tool": "get_time", "input": {}}', TOOLS)
    assert not holds_call("Action:", TOOLS)
    assert not holds_call("{", TOOLS)


HOSTILE = st.text(st.characters(), max_size=80) | st.sampled_from(
    ["<think>", "</think>", "<tool_call>", "Action: get_time[]", "{", "```"]
)
ARGUMENTS = HOSTILE | st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | HOSTILE,
    lambda inner: st.dictionaries(HOSTILE, inner) | st.lists(inner),
).filter(lambda value: isinstance(value, dict))


@given(
    text=st.lists(HOSTILE, max_size=4).map("\n".join),
    calls=st.lists(
        st.builds(RawCall, st.text(min_size=1), HOSTILE | st.sampled_from(["get_time", "set_todos"]), ARGUMENTS),
        max_size=3,
    ),
    stop=st.sampled_from(StopReason),
)
def test_no_reply_makes_the_reader_raise_and_every_step_pairs_calls_with_results(
    text: str, calls: list[RawCall], stop: StopReason
) -> None:
    found = native.read(Completion(text, calls=tuple(calls), stop=stop), TOOLS, 7)
    messages = native.messages(found, (), "note")
    called = [part.id for part in messages[0].parts if isinstance(part, ToolCall)]
    answered = [part.id for part in messages[-1].parts if isinstance(part, ToolOutput)]
    assert called == answered
    assert len(set(called)) == len(called)
    assert isinstance(found.intent, Actions) == bool(called)


@pytest.mark.parametrize(
    "unit", ["<think>", "</think>", "```\n", "Action: ", "insufficient: ", "*", "[[", "<tool_call", "\n", "资料不足"]
)
def test_reading_takes_linear_time(unit: str) -> None:
    started = time.process_time()
    native.read(Completion(unit * (300_000 // len(unit))), TOOLS, 1)
    assert time.process_time() - started < 3
