"""What goes out: bytes that only grow, one result for each call, no empty block, opaque matter untouched or left out."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from orchestrator.core import native
from orchestrator.core.events import Actions, Observation
from orchestrator.core.prompt import Message, Prompt, Text, ToolCall, ToolOutput
from orchestrator.core.spec import Json, ToolSpec
from orchestrator.providers import PROVIDERS, Asked, Options, Reply
from tests.corpus.wire import tool
from tests.providers.build import JSON, TOOLS, call, chat, message, said, thought, use

TOOL = ToolSpec("search", "Find it.", {"type": "object", "properties": {"query": {"type": "string"}}})
PROMPT = Prompt("Be brief.", (), (TOOL,), stop=("\nObservation:",), max_tokens=99)
STEP = (
    Message("assistant", (Text("Let me see."), ToolCall("a1", "search", {"query": "三体"}))),
    Message("user", (ToolOutput("a1", "search", "found"), Text("note"))),
)


def sent(
    name: str, messages: tuple[Message, ...], tail: str = "", prompt: Prompt = PROMPT, **options: Any
) -> dict[str, Any]:
    provider = PROVIDERS[name]
    head = provider.head(prompt, Options("m", **options))
    parts = [part for each in messages for part in provider.parts(each, "m")]
    body: dict[str, Any] = json.loads(provider.request(head, parts, tail).body)
    return body


def replies(name: str, body: dict[str, Any], model: str = "m") -> Any:
    completion = PROVIDERS[name].decode(Reply(200, JSON, json.dumps(body).encode()), Asked(model))
    return native.read(completion, [tool(each) for each in TOOLS], 3)


def replayed(name: str, body: dict[str, Any], model: str = "m") -> Any:
    turn = replies(name, body)
    actions = turn.intent.actions if isinstance(turn.intent, Actions) else ()
    observations = tuple(Observation(action.id, action.tool, "success", "ok") for action in actions)
    assistant = native.messages(turn, observations, "")[0]
    return json.loads(PROVIDERS[name].parts(assistant, model)[0])


def test_chat_completions_body() -> None:
    body = sent(
        "openai", (native.question("Who?"), *STEP), stream=True, temperature=0.5, extra={"seed": 7, "stop": None}
    )
    assert {key: body[key] for key in ("model", "max_tokens", "temperature", "stream", "seed")} == {
        "model": "m",
        "max_tokens": 99,
        "temperature": 0.5,
        "stream": True,
        "seed": 7,
    }
    assert "stop" not in body
    assert body["stream_options"] == {"include_usage": True}
    assert body["tools"][0] == {
        "type": "function",
        "function": {"name": "search", "description": "Find it.", "parameters": TOOL.schema},
    }
    assert [each["role"] for each in body["messages"]] == ["system", "user", "assistant", "tool", "user"]
    assert body["messages"][2]["tool_calls"][0]["function"] == {"name": "search", "arguments": '{"query":"三体"}'}
    assert body["messages"][3] == {"role": "tool", "tool_call_id": "a1", "content": "found"}


def test_messages_body() -> None:
    body = sent("anthropic", (native.question("Who?"), *STEP), stream=True)
    assert (body["system"], body["max_tokens"], body["stop_sequences"]) == ("Be brief.", 99, ["\nObservation:"])
    assert body["tools"] == [{"name": "search", "description": "Find it.", "input_schema": TOOL.schema}]
    assert body["messages"][1]["content"][1] == {
        "type": "tool_use",
        "id": "a1",
        "name": "search",
        "input": {"query": "三体"},
    }
    assert body["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a1", "content": "found"},
        {"type": "text", "text": "note"},
    ]


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_a_step_only_adds_bytes_and_the_tail_leaves_no_trace(name: str) -> None:
    provider = PROVIDERS[name]
    head = provider.head(PROMPT, Options("m"))
    first = list(provider.parts(native.question("Who?"), "m"))
    more = first + [part for each in STEP for part in provider.parts(each, "m")]
    before, after = provider.request(head, first).body, provider.request(head, more).body
    assert after.startswith(before[:-2])
    tailed = json.loads(provider.request(head, more, "known so far").body)
    assert "known so far" in json.dumps(tailed["messages"][-1])
    assert tailed["messages"][-1]["role"] == "user"
    assert provider.request(head, more).body == after


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_the_tail_never_makes_two_user_messages_in_a_row(name: str) -> None:
    for history in ((native.question("Who?"),), (native.question("Who?"), *STEP)):
        roles = [each["role"] for each in sent(name, history, 'tail "quoted"\n三')["messages"]]
        assert ("user", "user") not in set(pairwise(roles))


def test_the_cache_breakpoint_stands_before_the_tail() -> None:
    body = sent("anthropic", (native.question("Who?"), *STEP), "tail", cache=True)
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}
    *_, marked, tail = body["messages"][-1]["content"]
    assert marked["cache_control"] == {"type": "ephemeral"}
    assert tail == {"type": "text", "text": "tail"}


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_nothing_empty_is_ever_sent(name: str) -> None:
    odd = (
        Message("assistant", ()),
        Message("user", ()),
        Message("assistant", (Text(" "),)),
        Message("user", (ToolOutput("a", "t", ""),)),
    )
    for each in sent(name, odd, prompt=replace(PROMPT, system=""))["messages"]:
        for block in each["content"] if isinstance(each["content"], list) else [{"text": each["content"] or "-"}]:
            assert (block.get("text") or block.get("content", "")).strip() or each["role"] == "tool"


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_text_that_is_no_unicode_and_numbers_of_any_size_are_sent(name: str) -> None:
    given: dict[str, Json] = {"query": "half \ud800", "n": 10**30}
    body = sent(name, (Message("assistant", (Text("\udfff"), ToolCall("a", "search", given))),))
    assert "10000000000000000000000000000000"[:31] in json.dumps(body)


def test_signed_thinking_goes_back_byte_for_byte_to_the_same_model_only() -> None:
    blocks = [
        thought("Need tides. \u2028é", "EqQBCkgIAxABGAIiQ=="),
        said("Let me see."),
        use("search", {"query": "a"}, "toolu_0123456789abcdef"),
    ]
    body = message(*blocks, stop="tool_use")
    assert replayed("anthropic", body)["content"] == blocks
    assert [block["type"] for block in replayed("anthropic", body, "other")["content"]] == ["text", "tool_use"]


def test_unsigned_thinking_and_blank_text_are_not_sent_back() -> None:
    body = message(
        thought("hm", ""), said(" "), use("search", {"query": "a"}, "toolu_0123456789abcdef"), stop="tool_use"
    )
    assert [block["type"] for block in replayed("anthropic", body)["content"]] == ["tool_use"]


def test_reasoning_content_of_a_call_goes_back_with_it() -> None:
    made = call(
        "search", '{"query": "a"}', "call_0123456789abcdef", extra_content={"google": {"thought_signature": "s"}}
    )
    body = chat({"content": None, "reasoning_content": "Need tides.", "tool_calls": [made]}, "tool_calls")
    found = replayed("openai", body)
    assert found["reasoning_content"] == "Need tides."
    assert found["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "s"}}
    assert found["tool_calls"][0]["id"] == "call_0123456789abcdef"
    assert "reasoning_content" not in replayed("openai", body, "other")


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("openai", chat({"tool_calls": [call("default_api:no such tool!", '{"a": 1}', "")]}, "tool_calls")),
        ("anthropic", message(use("default_api:no such tool!", {"a": 1}, ""), stop="tool_use")),
        (
            "anthropic",
            message(thought("x"), use("bad name", {"a": 1}, "t"), use("bad name", {"a": 2}, "t"), stop="tool_use"),
        ),
    ],
)
def test_what_is_replayed_is_valid_whatever_came_in(name: str, body: dict[str, Any]) -> None:
    found = replayed(name, body)
    calls = (
        found["tool_calls"]
        if name == "openai"
        else [block for block in found["content"] if block["type"] == "tool_use"]
    )
    ids = [each["id"] for each in calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    for each in calls:
        used = each["function"]["name"] if name == "openai" else each["name"]
        assert " " not in used
        assert "!" not in used


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("openai", chat({"content": "Wait.", "tool_calls": [call("search", '{"query": ')]}, "tool_calls")),
        ("anthropic", message(thought("x"), said("Wait."), use("search", "{"), stop="tool_use")),
        ("anthropic", message(thought("x", "sig"), stop="end_turn")),
    ],
)
def test_a_turn_that_was_not_accepted_is_replayed_without_its_calls(name: str, body: dict[str, Any]) -> None:
    turn = replies(name, body)
    assistant, user = native.messages(turn, (), "")
    found = json.loads(PROVIDERS[name].parts(assistant, "m")[0])
    assert "tool_calls" not in found
    assert "tool_use" not in json.dumps(found)
    assert "thinking" not in json.dumps(found)
    assert user.parts
