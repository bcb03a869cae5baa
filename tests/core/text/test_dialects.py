"""Tags, tokens, bare JSON, reasoning and ends: each dialect's plain form, its drifts, and what it must refuse."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.core.events import Anomaly, Final
from orchestrator.core.prompt import Completion, RawCall
from orchestrator.core.text import read
from tests.core.text.said import BOTH, EXTRA, TOOLS, said

RUN = ("search", {"query": "x"})
MALFORMED, TRUNCATED, NO_ACTION = Anomaly.MALFORMED, Anomaly.TRUNCATED, Anomaly.NO_ACTION
X = '{"query": "x"}'
OPEN, SHUT = "<tool_call>\n", "\n</tool_call>"


@pytest.mark.parametrize(
    "text",
    [
        f'{OPEN}{{"name": "search", "arguments": {X}}}{SHUT}', f'ok. <tool_call>{{"name": "search", "arguments": {X}}}</tool_call>',
        f'{OPEN}```json\n{{"name": "search", "arguments": {X}}}\n```{SHUT}', f'<TOOL_CALL>{{"name": "search", "arguments": {X}}}</TOOL_CALL>',
        f'{OPEN}{{"name": "search", "arguments": {X}}}{SHUT}<|im_end|>', f'{OPEN}[{{"name": "search", "arguments": {X}}}]{SHUT}',
        f'<think>\nhm\n</think>\n{OPEN}{{"name": "search", "arguments": {X}}}{SHUT}', f'<tool_calls>{OPEN}{{"name": "search", "arguments": {X}}}{SHUT}</tool_calls>',
        f'<function_call>{{"name": "search", "arguments": {X}}}</function_call>', f"<function=search>{X}</function>",
        "<function=search>\n<parameter=query>\nx\n</parameter>\n</function>", f"{OPEN}<function=search>\n<parameter=query>x</parameter>\n</function>{SHUT}",
        '<invoke name="search"><parameter name="query">x</parameter></invoke>', "<action>search[x]</action>", f"<action>search {X}</action>",
        '<minimax:tool_call>\n<invoke name="search">\n<parameter name="query">x</parameter>\n</invoke>\n</minimax:tool_call>',
        f'{{"name": "search", "parameters": {X}}}', f'```json\n{{"name": "search", "parameters": {X}}}\n```', f'[{{"name": "search", "arguments": {X}}}]',
        f'<|python_tag|>{{"name": "search", "parameters": {X}}}<|eom_id|>', f'<|tool_call|>[{{"name": "search", "arguments": {X}}}]', f'{{"type": "function", "function": {{"name": "search", "parameters": {X}}}}}',
        f'<|start_header_id|>assistant<|end_header_id|>\n\n{{"name": "search", "parameters": {X}}}<|eot_id|>',
        f'[TOOL_CALLS] [{{"name": "search", "arguments": {X}}}]</s>', f"[TOOL_CALLS]search{X}", f"[TOOL_CALLS]search[ARGS]{X}",
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n{X}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        f"<｜tool▁call▁begin｜>search<｜tool▁sep｜>{X}<｜tool▁call▁end｜>", f"<|tool_call_begin|>search<|tool_call_argument_begin|>{X}<|tool_call_end|>",
        "<tool_call>search\n<arg_key>query</arg_key>\n<arg_value>x</arg_value>\n</tool_call>", f"✿FUNCTION✿: search\n✿ARGS✿: {X}",
        f"<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.search <|constrain|>json<|message|>{X}<|call|>",
        f'{{"thought": "t", "action": {{"tool": "search", "input": {X}}}}}',
    ],
)  # fmt: skip
def test_each_dialect_is_recognised_without_a_hint(text: str) -> None:
    assert said(text) == said(text, prose_ends=True) == (RUN, set())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<tool_call>", TRUNCATED), ('<tool_call>\n{"name": "sea', TRUNCATED), (f'{OPEN}{{"name": "search", "arguments": {X}{SHUT}', MALFORMED),
        (f'{OPEN}{{"name": "search", "arguments": {X}, "arguments": {X}}}{SHUT}', MALFORMED), (f"{OPEN}not a call{SHUT}", MALFORMED),
        (f'{OPEN}{{"name": "search"}}{SHUT}', MALFORMED), ("<function=search>\n<parameter=query>\nx", TRUNCATED),
        ("<function=search>\n<parameter=query>\nx\n</function>", MALFORMED), ("<function=search>\n</function>", MALFORMED),
        ("<function=search>\n<parameter=query>a</parameter> b</parameter>\n</function>", MALFORMED),
        ("<function=search>\n<parameter=query>a</parameter>\n<parameter=query>b</parameter>\n</function>", MALFORMED),
        ("<function=write_file>\n<parameter=path>a\n<parameter=content>b</parameter>\n</function>", MALFORMED),
        ("<function=get_page>\n<parameter=n>five</parameter>\n</function>", MALFORMED), ("<action>search[x]", TRUNCATED),
        ("<tool_call>search\n<arg_key>query</arg_key>\n<arg_value>x", TRUNCATED), ("<tool_call>searchquery</arg_key><arg_value>x</arg_value></tool_call>", MALFORMED),
        ('[TOOL_CALLS] [{"name": "search", "arguments": {"query": "x"}}', TRUNCATED), ("[TOOL_CALLS]", TRUNCATED), ("[TOOL_CALLS]search", TRUNCATED),
        ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>sea", TRUNCATED), ("<|tool_calls_section_begin|><|tool_call_begin|>functions.sea", TRUNCATED),
        ('<|python_tag|>search.call(query="x")', MALFORMED), ('<|tool_call|>[{"name": "search", "arguments": {"query": "x"', TRUNCATED), ('<|tool_call>call:search{query:<|"|>x<|"|>}<tool_call|>', MALFORMED),
        ('{"name": "search", "parameters": {"query": "x"}', TRUNCATED), ("<final_answer>b", TRUNCATED), ("<think>hm", TRUNCATED),
        ("<think>a</think>\n<think>\nAction: search[x]", TRUNCATED), ("", Anomaly.EMPTY), (" \u200b\u3000\n", Anomaly.EMPTY), ("<think>hm</think>", Anomaly.EMPTY),
        ("<|im_end|>", Anomaly.EMPTY), ("Final Answer:", Anomaly.EMPTY_FINAL), ("Action: finish[ ]", Anomaly.EMPTY_FINAL), ("<answer></answer>", Anomaly.EMPTY_FINAL),
    ],
)  # fmt: skip
def test_what_is_broken_or_cut_is_refused_with_its_name(text: str, problem: Anomaly) -> None:
    for prose_ends in (False, True):
        found, alarms = said(text, prose_ends=prose_ends)
        assert found is problem
        assert alarms <= {Anomaly.ACTION_IN_THINKING}


DRAFT = "Action: delete_records[users]"


@pytest.mark.parametrize(
    "text",
    [
        f"<think>\n{DRAFT}\n</think>\n{{}}", f"<think>a</think><think>{DRAFT}</think>{{}}", f"<THINK>\n{DRAFT}</THINK>\n{{}}", f"hm\n{DRAFT}\n</think>\n{{}}",
        f"I muse <think>\n{DRAFT}\n</think>\n{{}}", f"<thinking>\n{DRAFT}\n</thinking>\n{{}}", f"[THINK]\n{DRAFT}\n[/THINK]\n{{}}", f"◁think▷\n{DRAFT}\n◁/think▷\n{{}}",
        f"<|channel|>analysis<|message|>\n{DRAFT}<|end|><|start|>assistant<|channel|>final<|message|>{{}}", f"<think>```\n{DRAFT}\n</think>\n{{}}",
        '<think>\n<tool_call>{"name": "delete_records", "arguments": {"table": "users"}}</tool_call>\n</think>\n{}'.replace("{{", "{").replace("}}", "}"),
    ],
)  # fmt: skip
def test_a_draft_inside_reasoning_is_neither_run_nor_believed(text: str) -> None:
    head = text.removesuffix("{}")
    assert said(f"{head}Action: search[x]") == (RUN, set())
    assert said(f"{head}Final Answer: y") == ("y", set())
    assert said(head)[0] in (Anomaly.EMPTY, TRUNCATED, NO_ACTION)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Action: finish[b]", "b"), ("Action: Finish[b]", "b"), ("Action: finish(b)", "b"), ('Action: finish("b")', "b"), ('Action: finish {"answer": "b"}', "b"),
        ("Action: finish\nAction Input: b", "b"), ('Action: Final Answer\nAction Input: {"output": "b"}', "b"), ("Action: finish[a [b] c]", "a [b] c"),
        ("Final Answer: b", "b"), ("FINAL ANSWER : b", "b"), ("**Final Answer:** b", "b"), ("**Final Answer: b**", "b"), ("### Final Answer\nb", "b"), ("Answer：b", "b"),
        ("最终答案：b", "b"), ("**最终答案**：b", "b"), ("答案：b", "b"), ("最終回答：b", "b"), ("최종 답변: b", "b"), ("动作：finish[b]", "b"), ("动作：完成[b]", "b"),
        ("<final_answer>b</final_answer>", "b"), ("<answer>\nb\n</answer>", "b"), ('{"thought": "t", "final": "b"}', "b"), ('{"action": "Final Answer", "action_input": "b"}', "b"),
        ("Action: None\nFinal Answer: b", "b"), ("Final Answer: a\n1. b: c\n\nThought of the day: d", "a\n1. b: c\n\nThought of the day: d"),
        ('Final Answer: write "Action: search[x]" in it', 'write "Action: search[x]" in it'), ("Final Answer: b<|im_end|>", "b"),
        ("Final Answer: a quiz\nQuestion: who?\nAnswer: me", "a quiz\nQuestion: who?\nAnswer: me"), ("Final Answer: notes\nObservation: it melted", "notes\nObservation: it melted"),
        ("Final Answer: b\nQuestion: next?\nThought: t\nAction: search[x]", "b"), ("Action: finish[b]\nQuestion: next?\nAction: search[x]", "b"),
        ("Action: finish[b]\nQuestion: next?\nThought: t\nAction: finish[c]", "b"),
    ],
)  # fmt: skip
def test_an_end_label_ends_the_run(text: str, answer: str) -> None:
    for thought in ("", "Thought: t\n"):
        if not (thought and text.startswith("{")):
            assert said(f"{thought}{text}") == (answer, set())


@pytest.mark.parametrize(
    "text",
    [
        "The tide is high.",
        "The final answer is: 42",
        "I think the answer is 4.",
        "{a, b} is a set.",
        '{"answer": 42}',
        "Sorry, no.",
    ],
)
def test_prose_ends_a_run_only_where_the_dialect_says_so(text: str) -> None:
    assert said(text)[0] is NO_ACTION
    assert said(text, prose_ends=True) == (text, set())


@pytest.mark.parametrize(
    "text",
    [
        "Final Answer: b\nAction: search[x]",
        "Action: finish[b]\nAction: search[x]",
        "<answer>b</answer>\n<tool_call>\n" + '{"name": "search", "arguments": {}}\n</tool_call>',
    ],
)
def test_an_answer_beside_an_action_is_not_believed(text: str) -> None:
    assert said(f"Thought: t\n{text}")[0] is BOTH


def test_of_a_batch_the_first_call_runs_and_the_rest_is_named() -> None:
    call = f'{{"name": "search", "arguments": {X}}}'
    other = '{"name": "delete_records", "arguments": {"table": "x"}}'
    for text in (
        f"{call};{other}",
        f"{call}\n{other}",
        f"[{call}, {other}]",
        f"[TOOL_CALLS] [{call}, {other}]",
        f"{OPEN}{call}{SHUT}\n{OPEN}{other}{SHUT}",
    ):
        assert said(text) == (RUN, {EXTRA})


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        ("insufficient: missing the year", "the year"), ("Insufficient information: missing X.", "X"), ("资料不足：缺少 出生年份", "出生年份"),
        ("资料不足，缺少X", "X"), ("信息不足：缺少 X", "X"), ("sufficient", None), ("It is insufficient to guess", None), ("资料很多", None),
    ],
)  # fmt: skip
def test_the_honest_way_out_names_what_is_missing(answer: str, missing: str | None) -> None:
    for text in (f"Action: finish[{answer}]", f"Final Answer: {answer}", f"最终答案：{answer}"):
        assert read(Completion(f"Thought: t\n{text}"), TOOLS, 1).intent == Final(answer, missing)


def test_an_alias_is_an_exact_name_and_the_action_bears_the_real_one() -> None:
    from tests.core.text.said import tool

    turn = read(Completion("Action: web[x]"), (tool("search", ("web",), query="string"),), 3)
    assert (
        repr(turn.intent) == "Actions(actions=(Action(id='3.0', tool='search', input={'query': 'x'}),), kind='actions')"
    )
    assert turn.anomalies == ()


def test_calls_that_the_endpoint_has_parsed_itself_count_too() -> None:
    calls = (RawCall("a", "functions.search", X), RawCall("b", "search", {"query": "y"}))
    turn = read(Completion("", calls=calls), TOOLS, 1)
    assert "'query': 'x'" in repr(turn.intent)
    assert set(turn.anomalies) == {EXTRA, Anomaly.TOOL_NAME_NORMALISED}


def test_what_is_kept_for_the_history_holds_one_action_and_nothing_after_it() -> None:
    cases: dict[str, Any] = {
        "Thought: t\nAction: search[x]\nObservation: y": "Thought: t\nAction: search[x]",
        "Thought: t\nAction: search[x]\nThen more\nAction: search[y]": "Thought: t\nAction: search[x]",
        "<think>hm</think>Thought: t\nAction: finish[b]\nQuestion: c": "Thought: t\nAction: finish[b]",
        "Observation: y\nFinal Answer: z": "",
        "Thought: t\nAction: search {bad\nAction: search[y]": "Thought: t\nAction: search {bad",
        "Final Answer: b\nAction: search[x]": "Final Answer: b",
    }
    for text, kept in cases.items():
        assert read(Completion(text), TOOLS, 1).opaque == {"text": kept}
