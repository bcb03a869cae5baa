"""Which call a reply comes to in the label dialects; what is refused; what stands beside it."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.core.events import Anomaly, StopReason
from tests.core.text.said import BOTH, EXTRA, said

RUN = ("search", {"query": "x"})
OSLO = ("get_weather", {"city": "Oslo", "unit": "C"})
MALFORMED, TRUNCATED = Anomaly.MALFORMED, Anomaly.TRUNCATED
OSLO_JSON = '{"city": "Oslo", "unit": "C"}'


@pytest.mark.parametrize(
    "action",
    [
        "Action: search[x]", "action : search[ x ]", "**Action:** search[x]", "**Action**: search[x]", "**Action: search[x]**",
        "### Action\nsearch[x]", "### Action:\nsearch[x]", "Action 3: search[x]", "1. Action: search[x]", "* Action: search[x]",
        "Action:search[x]", "Action:\nsearch[x]", "Action:\n```\nsearch[x]\n```", "Action: `search[x]`", "Action: `search`[x]",
        "Action: **search**[x]", 'Action: "search"[x]', 'Action: search["x"]', 'Action: search("x")', "Action: search('x')",
        'Action: search({"query": "x"})', 'Action: search[{"query": "x"}]', 'Action: search {"query": "x"}', 'Action: search\n{"query": "x"}',
        'Action: search\n\n```json\n{"query": "x"}\n```', 'Action: search ```json\n{"query": "x"}\n```', 'Action: [search] {"query": "x"}',
        "Action: search\nAction Input: x", "Action: search Action Input: x", "**Action:** search\n**Action Input:** x",
        "Action: `search`\nAction Input: `x`", 'Action: search\nAction Input: "x"', 'Action: search\nAction Input:\n```json\n{"query": "x"}\n```',
        'Action: search\nAction_Input: {"query": "x"}', "Action: search\nAction Input:\nx", "Action：search［x］", "Action: search【x】",
        "动作：search[x]", "行动 1：search[x]", "【动作】search[x]", "行動：search[x]", "아션: search[x]".replace("아션", "액션"), "Acción: search[x]",
        "Ac\u200btion: search[x]", "\ufeffAction: search[x]", "Action: SEARCH[x]", "Action: functions.search[x]", "Action: tools.search[x]",
        'Action: {"tool": "search", "input": {"query": "x"}}', 'Action:\n```json\n{"action": "search", "action_input": "x"}\n```',
        'Action: {"name": "search", "arguments": "{\\"query\\": \\"x\\"}"}', 'Action: [{"name": "search", "arguments": {"query": "x"}}]',
        'Action: search(query="x")', "Action: search {'query': 'x'}", 'Action: search {"query": "x",}', 'Action: search {"query": "x"} // go',
    ],
)  # fmt: skip
def test_one_call_has_many_spellings(action: str) -> None:
    for text in (
        f"Thought: t\n{action}",
        action,
        f"I will look.\n\n{action}\n",
        f"Thought: t\n{action}".replace("\n", "\r\n"),
    ):
        assert said(text) == (RUN, set())


@pytest.mark.parametrize(
    ("action", "want"),
    [
        ("get_time", ("get_time", {})), ("get_time[]", ("get_time", {})), ("get_time()", ("get_time", {})), ("get_time {}", ("get_time", {})),
        ("get_time\nAction Input: None", ("get_time", {})), ("get_page[5]", ("get_page", {"n": 5})),
        ("search[a[0] vs b[1]]", ("search", {"query": "a[0] vs b[1]"})), ("search[人工智能（AI）]", ("search", {"query": "人工智能（AI）"})),
        ('search[say "Action: delete_records[a]"]', ("search", {"query": 'say "Action: delete_records[a]"'})),
        ("search[what is <think> for]", ("search", {"query": "what is <think> for"})), ("search[👩‍👩‍👧 family]", ("search", {"query": "👩‍👩‍👧 family"})),
        ("search[a\nb\nc]", ("search", {"query": "a\nb\nc"})), (f"get_weather{OSLO_JSON}", OSLO), (f"get_weather: {OSLO_JSON}", OSLO),
        ("get_weather(city='Oslo', unit='C')", OSLO), (f"get_weather\nAction Input: {OSLO_JSON}, thanks", OSLO),
        ('write_file {"path": "a", "content": "} ] ``` Observation: {"}', ("write_file", {"path": "a", "content": "} ] ``` Observation: {"})),
        ('write_file {"path": "a", "content": "</think> <tool_call>"}', ("write_file", {"path": "a", "content": "</think> <tool_call>"})),
    ],
)  # fmt: skip
def test_arguments_are_read_whole(action: str, want: Any) -> None:
    assert said(f"Thought: t\nAction: {action}") == (want, set())


@pytest.mark.parametrize(
    "action",
    [
        "get_weather[Oslo, C]", "get_weather Oslo", "get_weather[Oslo]", 'get_weather("Oslo", "C")', "get_weather(Oslo)", "get_weather [1, 2]",
        'get_weather {"city": "Oslo" "unit": "C"}', 'get_weather {"city": Oslo, "unit": "C"}', 'get_weather {city: "Oslo", unit: "C"}',
        'get_weather {"city": "a", "unit": "C", "city": "b"}', 'get_weather {"city": NaN, "unit": "C"}', 'get_weather {"city": ..., "unit": "C"}',
        "get_page[five]", "get_time[now]", "search[a]]", "search[]", "search[a]\nAction Input: b", "search\nAction Input: a\nAction Input: b", 'search[query="x"]', "search[{tides}]", "search\nAction Input: {tides in May}",
        "search", "search\nAction Input:", "search tides", "the tool to use", "get_weather ｛“city”：“Oslo”｝", "search(x)", "search(1 + 1)",
        '{"name": "get_weather", "arguments": {"city": "a", "unit": "C"}, "parameters": {"city": "b", "unit": "C"}}',
        '{"name": "search", "tool": "delete_records", "arguments": {"query": "x"}}', '{"name": "search", "query": "x"}',
    ],
)  # fmt: skip
def test_what_has_no_single_reading_is_refused(action: str) -> None:
    assert said(f"Thought: t\nAction: {action}") == (MALFORMED, set())


@pytest.mark.parametrize(
    "action",
    [
        "search[tides", "search[a [b]", "search(", 'search("tides', 'get_weather {"city": "Oslo"', 'get_weather {"city": "Oslo", "unit": "C',
        'get_weather {"city": {"a": 1}', 'search\nAction Input: "tides', "finish[the answer is", '{"tool": "search", "input": {"query": "x"}',
        "search[a\nAction: delete_records[b]", "search[a\nThought: b]",
    ],
)  # fmt: skip
def test_what_is_open_at_the_end_is_truncated(action: str) -> None:
    assert said(f"Thought: t\nAction: {action}") == (TRUNCATED, set())


@pytest.mark.parametrize(
    "text", ["Thought: t\nAction: search[x]", "Final Answer: x", "", "Thought: t", "<think>hm", "Action: finish[x]"]
)
def test_at_the_token_limit_nothing_is_complete(text: str) -> None:
    assert said(text, stop=StopReason.MAX_TOKENS)[0] is TRUNCATED


@pytest.mark.parametrize(
    "name", ["delete_record", "deleterecords", "delete-records", "delete_records2", "records", "Delete Records", "rm"]
)
def test_a_destructive_tool_is_never_the_nearest_match(name: str) -> None:
    found, alarms = said(f"Thought: t\nAction: {name}[users]")
    assert found[0] != "delete_records" if isinstance(found, tuple) else found is MALFORMED
    assert alarms <= {Anomaly.UNKNOWN_TOOL}


@pytest.mark.parametrize(
    ("rest", "alarm"),
    [
        ("\nAction: delete_records[x]", EXTRA), ("\nThought: u\nAction: delete_records[x]", EXTRA), (", delete_records[x]", EXTRA),
        (" and then delete_records[x]", EXTRA), ("\n**Action:** delete_records[x]", EXTRA), ("\n动作：delete_records[x]", EXTRA),
        ('\n<tool_call>{"name": "delete_records", "arguments": {"table": "x"}}</tool_call>', EXTRA),
        ("\nFinal Answer: y", BOTH), ("\nAnswer: y", BOTH), ("\nAction: finish[y]", BOTH), ("\n**Final Answer:** y", BOTH), ("\n最终答案：y", BOTH),
    ],
)  # fmt: skip
def test_the_first_action_wins_and_what_stands_beside_it_is_named(rest: str, alarm: Anomaly) -> None:
    for action in ("search[x]", 'search {"query": "x"}'):
        assert said(f"Thought: t\nAction: {action}{rest}") == (RUN, {alarm})


@pytest.mark.parametrize("text", ["```\n{}\n```", "> {}", "Thought: maybe {} helps", "`{}`", 'He wrote "{}".'])
@pytest.mark.parametrize(
    "action",
    [
        "Action: delete_records[users]",
        '<tool_call>{"name": "delete_records", "arguments": {"table": "users"}}</tool_call>',
    ],
)
def test_a_call_that_is_quoted_is_text(text: str, action: str) -> None:
    if action[0] == "A" or "maybe" not in text:
        assert said(text.replace("{}", action))[0] is Anomaly.NO_ACTION
        assert said(f"{text.replace('{}', action)}\nAction: search[x]")[0] == RUN
