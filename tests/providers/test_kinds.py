"""The corpus' kinds in other words: replies that are turns, whole and streamed. Scored by the corpus' own rules."""

from __future__ import annotations

from typing import Any

import pytest

from tests.corpus.wire import score
from tests.providers.build import (
    acts,
    call,
    case,
    chat,
    chunks,
    events,
    final,
    flagged,
    message,
    part,
    retries,
    said,
    thought,
    use,
)

OSLO = ("get_weather", {"city": "Oslo"})
LYON = ("get_weather", {"city": "Lyon"})
CALLS = "tool_calls"
OSLO_TEXT = '{"city":"Oslo"}'
MALFORMED = flagged("malformed_arguments")
TWICE = '{"content":[{"type":"tool_use","id":"a","name":"get_weather","input":{"city":"a","city":"b"}}],"stop_reason":"tool_use"}'

WHOLE = [
    case(
        "oa-arguments-are-an-object", chat({"tool_calls": [call("get_weather", {"city": "Oslo"})]}, CALLS), acts(OSLO)
    ),
    case("oa-no-arguments-needed-blank", chat({"tool_calls": [call("get_time", " ")]}, CALLS), acts(("get_time", {}))),
    case("oa-no-arguments-needed-null", chat({"tool_calls": [call("get_time", None)]}, CALLS), acts(("get_time", {}))),
    case(
        "oa-no-arguments-needed-word-null",
        chat({"tool_calls": [call("get_time", "null")]}, CALLS),
        acts(("get_time", {})),
    ),
    case("oa-null-where-needed", chat({"tool_calls": [call("send_email", None)]}, CALLS), MALFORMED),
    case(
        "oa-key-twice", chat({"tool_calls": [call("get_weather", '{"city":"Oslo","city":"Lyon"}')]}, CALLS), MALFORMED
    ),
    case(
        "oa-key-twice-in-object",
        '{"choices":[{"index":0,"finish_reason":"tool_calls","message":{"tool_calls":[{"id":"c","function":'
        '{"name":"get_weather","arguments":{"city":"Oslo","city":"Lyon"}}}]}}]}',
        MALFORMED,
    ),
    case("an-key-twice", TWICE, MALFORMED),
    case("oa-number-as-arguments", chat({"tool_calls": [call("get_weather", 5)]}, CALLS), MALFORMED),
    case("oa-nan", chat({"tool_calls": [call("get_weather", '{"city": NaN}')]}, CALLS), MALFORMED),
    case(
        "oa-open-string",
        chat({"tool_calls": [call("get_weather", '{"city": "Os')]}, CALLS),
        flagged("malformed_arguments"),
    ),
    case("oa-bare-string", chat({"tool_calls": [call("get_weather", "Oslo")]}, CALLS), MALFORMED),
    case(
        "oa-one-bad-of-two-refuses-both",
        chat({"tool_calls": [call("send_email", '{"to":"a","body":"b"}'), call("get_weather", "{", "call_2")]}, CALLS),
        MALFORMED,
    ),
    case(
        "oa-huge-integer",
        '{"choices":[{"index":0,"finish_reason":"tool_calls","message":{"tool_calls":[{"id":"c","function":{"name":"search","arguments":{"query":123456789012345678901234}}}]}}]}',
        acts(("search", {"query": 123456789012345678901234})),
    ),
    case(
        "an-huge-integer",
        message(use("search", {"query": 123456789012345678901234})),
        acts(("search", {"query": 123456789012345678901234})),
    ),
    case("oa-namespace", chat({"tool_calls": [call("functions.get_weather", OSLO_TEXT)]}, CALLS), acts(OSLO)),
    case("oa-other-case", chat({"tool_calls": [call("Get_Weather", OSLO_TEXT)]}, CALLS), acts(OSLO)),
    case(
        "oa-near-miss-is-unknown",
        chat({"tool_calls": [call("get_wether", OSLO_TEXT)]}, CALLS),
        acts(("get_wether", {}), flags=["unknown_tool"]),
    ),
    case("oa-name-blank", chat({"tool_calls": [call(" ", "{}")]}, CALLS), flagged("unknown_tool")),
    case("oa-name-number", chat({"tool_calls": [call(7, "{}")]}, CALLS), flagged("unknown_tool")),
    case("oa-no-function", chat({"tool_calls": [{"id": "c"}]}, CALLS), flagged("unknown_tool")),
    case("oa-call-is-null", chat({"tool_calls": [None]}, CALLS), flagged("unknown_tool", flags_ok=["missing_call_id"])),
    case("oa-calls-are-one-object", chat({"tool_calls": call("get_weather", OSLO_TEXT)}, CALLS), acts(OSLO)),
    case("oa-calls-are-text", chat({"tool_calls": "get_weather"}, CALLS), retries("MALFORMED_RESPONSE")),
    case(
        "oa-ids-are-numbers",
        chat({"tool_calls": [call("get_weather", OSLO_TEXT, 0)]}, CALLS),
        acts(OSLO, flags=["missing_call_id"], calls=["__unique__"]),
    ),
    case(
        "oa-three-times-one-id",
        chat(
            {
                "tool_calls": [
                    call("get_weather", OSLO_TEXT, "a"),
                    call("get_weather", '{"city":"Lyon"}', "a"),
                    call("get_time", "", "a"),
                ]
            },
            CALLS,
        ),
        acts(OSLO, LYON, ("get_time", {}), flags=["duplicate_call_id"], calls=["a", "__unique__", "__unique__"]),
    ),
    case(
        "oa-made-ids-avoid-given-ones",
        chat(
            {"tool_calls": [call("get_weather", OSLO_TEXT, ""), call("get_weather", '{"city":"Lyon"}', "call00000")]},
            CALLS,
        ),
        acts(OSLO, LYON, flags=["missing_call_id"], calls=["__unique__", "call00000"]),
    ),
    case(
        "oa-content-in-parts",
        chat({"content": [{"type": "text", "text": "High "}, {"type": "text", "text": "tide"}]}),
        final("High tide"),
    ),
    case(
        "oa-content-with-thinking-part",
        chat(
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                    {"type": "text", "text": "42"},
                ]
            }
        ),
        final("42", thought="hm"),
    ),
    case("oa-content-is-a-number", chat({"content": 42}), retries("MALFORMED_RESPONSE")),
    case(
        "oa-reasoning-other-field",
        chat({"content": "42", "reasoning": "six by seven"}),
        final("42", thought="six by seven"),
    ),
    case("oa-refusal-field", chat({"content": None, "refusal": "I cannot help."}), flagged("refusal")),
    *[
        case(f"oa-cut-{word}", chat({"content": "Half an"}, word), flagged("truncated"))
        for word in ("MAX_TOKENS", "model_length", "token_limit", "max_output_tokens")
    ],
    case("oa-exactly-the-cap", chat({"content": "Half an"}, "stop", output=1024), flagged("truncated")),
    case(
        "oa-unknown-reason-whole-call", chat({"tool_calls": [call("get_weather", OSLO_TEXT)]}, "stop_str"), acts(OSLO)
    ),
    case("oa-said-it-would-call", chat({"content": "Let me search."}, CALLS), flagged("no_action")),
    case(
        "oa-think-closed-only", chat({"content": "Six by seven.\n</think>\n\n42"}), final("42", thought="Six by seven.")
    ),
    case(
        "oa-think-then-call",
        chat({"content": "<think>weather</think>", "tool_calls": [call("get_weather", OSLO_TEXT)]}, CALLS),
        acts(OSLO),
    ),
    case("oa-think-only", chat({"content": "<think>Six by seven: 42</think>"}), flagged("empty")),
    case("oa-invisible-only", chat({"content": "\u200b\ufeff\u2060 \n"}), flagged("empty")),
    case("an-invisible-only", message(said("\n\n"), said("\u200b")), flagged("empty")),
    case(
        "an-cut-call-after-whole-one",
        message(use("get_weather", {"city": "Oslo"}), use("get_weather", {}, "b"), stop="max_tokens"),
        flagged("truncated"),
    ),
    case("an-end-turn-with-a-call", message(use("get_weather", {"city": "Oslo"})), acts(OSLO)),
    case("an-stop-sequence", message(said("High"), stop="stop_sequence"), final("High")),
    case("an-refusal-with-text", message(said("No."), stop="refusal"), flagged("refusal")),
    case("an-paused-with-a-call", message(use("get_weather", {"city": "Oslo"}), stop="pause_turn"), flagged("paused")),
    case("an-redacted-thinking", message({"type": "redacted_thinking", "data": "x"}, said("42")), final("42")),
    case("an-blocks-of-wrong-types", message(7, None, said("42"), {"type": "text", "text": None}), final("42")),
    case("an-nameless", message(use(None, {})), flagged("unknown_tool")),
    case(
        "an-ids-missing",
        message(use("get_weather", {"city": "Oslo"}, None)),
        acts(OSLO, flags=["missing_call_id"], calls=["__unique__"]),
    ),
    case("an-input-is-a-list", message(use("get_weather", ["Oslo"])), MALFORMED),
    case(
        "an-todos-double-encoded",
        message(use("set_todos", {"todos": '[{"title": "a"}]'})),
        acts(("set_todos", {"todos": [{"title": "a"}]})),
    ),
    case("an-content-a-number", message() | {"content": 5}, retries("MALFORMED_RESPONSE")),
]

MARKUP = [
    '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>',
    "<function=get_weather><parameter=city>Oslo</parameter></function>",
    '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Oslo"}}]',
    '<|python_tag|>{"name": "get_weather", "parameters": {"city": "Oslo"}}',
    '{"name": "get_weather", "arguments": {"city": "Oslo"}}',
    '```json\n{"name": "get_weather", "parameters": {"city": "Oslo"}}\n```',
    '[{"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}]',
    "Thought: weather.\nAction: get_weather[Oslo]",
    "**Action**: get_weather\nAction Input: Oslo",
    "行动：get_weather[Oslo]",
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city":"Oslo"}<｜tool▁call▁end｜>',
    '{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>',
    '```\n<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>\n```',
]
NO_MARKUP = [
    "Models write `<tool_call>` around a call.",
    "Like this:\n```\n<tool_call>{}</tool_call>\n```\nThat is all.",
    "Action: none needed, the tide is high.",
    '{"name": "Ada", "born": 1815}',
    '{"name": "get_weather", "kind": "tool"}',
    "An action: get some rest.",
]

STREAMED = [
    case("oa-no-space-after-colon", chunks({"content": "High"}).replace("data: ", "data:"), final("High")),
    case("oa-cr-lines", chunks({"content": "High"}).replace("\n", "\r"), final("High")),
    case("oa-bom", "\ufeff" + chunks({"content": "High"}), final("High")),
    case("oa-last-line-without-end", chunks({"content": "High"}).rstrip(), final("High")),
    case("oa-closed-after-finish", chunks({"content": "High"}, done=False), final("High"), transport="closed_early"),
    case("oa-chinese", chunks({"content": "刘慈"}, {"content": "欣。"}), final("刘慈欣。")),
    case("oa-split-emoji-escape", chunks({"content": "ok @"}, {"content": "#"}).replace("@", "\\ud83d").replace("#", "\\ude00"), final("ok 😀")),
    case("oa-ping-events", "event: ping\ndata: x\n\n" + chunks({"content": "High"}), final("High")),
    case("oa-ids-and-retry-lines", "id: 7\nretry: 10\n" + chunks({"content": "High"}), final("High")),
    case("oa-finish-beside-content", 'data: {"choices":[{"index":0,"delta":{"content":"High"},"finish_reason":"stop"}]}\n\n', final("High")),
    case("oa-other-choices-ignored", chunks({"content": "High"}).replace("data: [", 'data: {"choices":[{"index":1,"delta":{"content":"low"}}]}\n\ndata: ['), final("High")),
    case("oa-error-null-is-none", chunks({"content": "High"}).replace('{"choices"', '{"error":null,"choices"'), final("High")),
    case(
        "oa-all-calls-one-index",
        chunks(part(0, id="a", name="get_weather", arguments=OSLO_TEXT), part(0, id="b", name="get_weather", arguments='{"city":"Lyon"}'), finish=CALLS),
        acts(OSLO, LYON, calls=["a", "b"]),
    ),
    case(
        "oa-calls-without-index",
        chunks(part(None, id="a", name="get_weather", arguments=OSLO_TEXT), part(None, id="b", name="get_weather", arguments='{"city":"Lyon"}'), finish=CALLS),
        acts(OSLO, LYON),
    ),
    case(
        "oa-fragments-without-index",
        chunks(part(None, id="a", name="get_weather", arguments='{"city":'), part(None, arguments='"Oslo"}'), finish=CALLS),
        acts(OSLO),
    ),
    case("oa-arguments-object-streamed", chunks(part(0, id="a", name="get_weather", arguments={"city": "Oslo"}), finish=CALLS), acts(OSLO)),
    case("oa-ids-change-between-fragments", chunks(part(0, id="a", name="get_weather", arguments='{"city":'), part(0, id="b", arguments='"Oslo"}'), finish=CALLS), acts(OSLO)),
    case("oa-legacy-streamed", chunks({"function_call": {"name": "get_weather", "arguments": '{"city":'}}, {"function_call": {"arguments": '"Oslo"}'}}, finish="function_call"), acts(OSLO, flags_ok=["missing_call_id"])),
    case("oa-cut-by-length", chunks(part(0, id="a", name="send_email", arguments='{"to":"a","body":"b"}'), finish="length"), flagged("truncated")),
    case("oa-only-reasoning", chunks({"reasoning_content": "hm"}, {"reasoning_content": "m"}), flagged("empty")),
    case("oa-think-cut-by-length", chunks({"content": "<think>so"}, finish="length"), flagged("truncated")),
    case("an-no-stop-event-lines", events(said("High"), stop="end_turn").replace('event: message_stop\ndata: {"type": "message_stop"}\n\n', ""), final("High")),
    case("an-start-block-holds-text", events(said("")).replace('"text": ""', '"text": "High"'), final("High")),
    case("an-thinking-and-calls", events(thought("weather"), use("get_weather", {"city": "Oslo"}), use("get_weather", {"city": "Lyon"}, "b"), stop="tool_use"), acts(OSLO, LYON, thought="weather")),
    case("an-empty-input-streamed", events(use("get_time", {}), stop="tool_use"), acts(("get_time", {}))),
    case("an-key-twice-streamed", events(use("get_weather", {"city": "Oslo"}), stop="tool_use", size=99).replace('{\\"city\\"', '{\\"city\\": 1, \\"city\\"'), MALFORMED),
    case("an-unknown-block-streamed", events({"type": "hologram"}, said("42")), final("42")),
    case("an-cap-hit-unsaid", events(said("Half an"), output=1024), flagged("truncated")),
]  # fmt: skip


@pytest.mark.parametrize("one", WHOLE + STREAMED, ids=lambda one: one["id"])
def test_a_reply_is_the_turn_that_it_says(one: dict[str, Any]) -> None:
    assert score(one) is None


@pytest.mark.parametrize("content", MARKUP)
def test_call_markup_is_never_the_answer(content: str) -> None:
    assert score(case("oa-markup", chat({"content": content}), flagged("unparsed_tool_markup"))) is None
    assert score(case("an-markup", message(said(content)), flagged("unparsed_tool_markup"))) is None


@pytest.mark.parametrize("content", NO_MARKUP)
def test_an_answer_may_speak_of_calls(content: str) -> None:
    assert score(case("oa-no-markup", chat({"content": content}), final(content))) is None
