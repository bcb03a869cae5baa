"""Laws of the reader: it never raises, it is linear, and cutting a stream changes nothing that it says."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.events import Actions, Final, ModelTurn, StopReason
from orchestrator.core.prompt import Completion
from orchestrator.core.text import Cut, read
from tests.core.text.said import TOOLS
from tests.corpus.__main__ import cases

DATA = Path(__file__).parents[2] / "corpus" / "data"
TEXTS = [case["text"] for case in cases(DATA / "text_cases.jsonl")]
PIECES = st.sampled_from(
    [
        "Thought: t\n", "Action: search[x]", "Action: search", 'Action: search {"query": "x"}', "Action Input: x", "Action: finish[b]", "Final Answer: b", "Observation: y",
        "观察：y", "Question: q", "\n", "\n", "\n\n", " ", "```", "```json\n", "<think>", "<tool_call>", "</tool_call>", '{"name": "search", "arguments": {"query": "x"}}', "{", "}",
        "[", "]", '"', "`", "> ", "**", "<tool_response>", "[TOOL_CALLS]", "<function=search>", "<parameter=query>", "</parameter>", "</function>", "<|im_end|>", "<answer>", "</answer>",
        "x", "，", "\r\n", "\u200b", "\x00", "\ud800", "<｜tool▁calls▁begin｜>", "<arg_key>", "<|channel|>", "finish[", "1. ", "Action:", "Obs", "ervation:",
        "<thought>", "</thought>", "<reflection>", "</reflection>", "</thinking>", "[search(query='x')]", "<|START_THINKING|>", "<|END_THINKING|>", "<|START_ACTION|>", "functools", "＜think＞",
        "<!--", "-->", "\n<!--\n", "~~", "~~Action: search[x]~~", "<plan>", "</plan>", "&lt;think&gt;", "&lt;/think&gt;",
    ]
)  # fmt: skip
REPLIES = st.lists(PIECES, max_size=14).map("".join) | st.text(max_size=80) | st.sampled_from(TEXTS)


def _read(text: str, stop: StopReason = StopReason.END_TURN) -> ModelTurn:
    return read(Completion(text, stop=stop), TOOLS, 1)


@settings(max_examples=600, deadline=None)
@given(REPLIES, st.sampled_from(StopReason))
def test_no_text_makes_the_reader_raise_and_nothing_incomplete_is_taken(text: str, stop: StopReason) -> None:
    turn = _read(text, stop)
    if stop is StopReason.MAX_TOKENS:
        assert not isinstance(turn.intent, (Actions, Final))
    if isinstance(turn.intent, Actions):
        assert [action.id for action in turn.intent.actions] == ["1.0"]
    kept = turn.opaque["text"]
    assert isinstance(kept, str)
    kept.encode("utf-8")


@pytest.mark.parametrize("text", TEXTS)
def test_a_truncated_reply_of_the_corpus_never_makes_the_reader_raise(text: str) -> None:
    for end in range(0, min(len(text), 1000), 7):
        _read(text[:end])


@settings(max_examples=600, deadline=None)
@given(REPLIES)
def test_what_is_kept_reads_as_the_same_call(text: str) -> None:
    turn = _read(text)
    if isinstance(turn.intent, Actions):
        again = _read(str(turn.opaque["text"]))
        assert again.intent == turn.intent


@settings(max_examples=600, deadline=None)
@given(st.lists(REPLIES, min_size=1, max_size=3).map("\n".join), st.integers(1, 40))
def test_a_stream_is_cut_only_where_the_reader_discards(text: str, size: int) -> None:
    cut = Cut()
    shown = ""
    for at in range(0, len(text), size):
        piece, over = cut.feed(text[at : at + size])
        shown += piece
        if over:
            break
    kept = cut.text
    assert text.startswith(kept)
    assert kept.startswith(shown + ("" if cut.over else cut.rest()))
    later = text[max(0, len(kept) - 16) :].casefold()  # the piece that cut the stream may hold the tag's beginning
    orphan = any(
        tag in later
        for tag in ("</think", "</reasoning", "</reflection", "[/think", "◁/think", "<|channel", "<|end_thinking")
    )
    if not orphan:
        assert _read(kept).intent == _read(text).intent


N = 100_000
HOSTILE = {
    "open brackets": "Action: search[" + "[" * N, "labels": "Action: search[x]\n" * (N // 18), "empty labels": "Action:\n" * (N // 8), "inputs": "Action Input: x\n" * (N // 16),
    "backticks": "`" * N, "fences": "```\n" * (N // 4), "tags": "<tool_call>" * (N // 11), "quoted tags": '"' + "<tool_call>" * (N // 11), "blank lines": "Action: search" + "\n" * N + "x",
    "blanks": "Action: search" + " " * N + "x", "think": "<think></think>" * (N // 15), "quoted think": '"</think>' * (N // 9), "braces": "Action: search " + '{"a":' * (N // 5),
    "escapes": 'Action: search {"query": "' + "\\" * N, "comments": "Action: search {" + "//\n" * (N // 3), "commas": 'Action: search {"a": 1' + "," * N, "stars": "*" * N, "invisible": "\u200bO\n" * (N // 3),
    "parameters": "<function=search>" + "<parameter=a>\nx\n</parameter>\n" * (N // 29), "closers": "<function=search><parameter=a>" + "</parameter>" * (N // 12), "finals": "Final Answer: x\n" * (N // 16),
    "keywords": "Action: search(" + "a=1," * (N // 4), "ands": "Action: search[x] " + "and " * (N // 4), "mentions": "I use <tool_call> here. " * (N // 24), "channels": "<|channel|>analysis<|message|>" * (N // 30),
    "questions": "Final Answer: x\n" + "Question: y\n" * (N // 12), "answers": "<answer>" * (N // 8), "tokens": "<｜tool▁calls▁begin｜>" * (N // 20), "list": '[{"a":1},' * (N // 9),
    "thoughts": "<thought>" * (N // 9), "thoughts shut": "<thought></thought>" * (N // 19), "asides": "<reflection></reflection>" * (N // 25), "veiled": "＜\u200b" * (N // 2), "wide tags": "＜think＞" * (N // 7),
    "python calls": "[search(query='x')," + "search(query='x')," * (N // 18), "python open": "[search(query=" + "[" * N, "functools": "functools[" * (N // 10), "pipes": "<|START_THINKING|>" * (N // 18),
    "html comments": "<!-- x -->" * (N // 10), "comments open": "<!--\n" * (N // 5), "struck": "~~Action: x~~\n" * (N // 14), "strikes": "~~" * (N // 2), "strikes open": "~~a\n" * (N // 4), "struck tags": "~~<tool_call>" * (N // 13),
    "comment ends": "<!-- " + "</think>" * (N // 8) + "-->", "comments and ends": "<!-- </think> -->" * (N // 17), "plans": "<plan></plan>" * (N // 13), "plans open": "<plan>" * (N // 6), "plan blanks": "<plan " * (N // 6), "entities": "&lt;think&gt;&lt;/think&gt;" * (N // 26), "entities open": "&lt;think " * (N // 10), "ampersands": "&lt;" * (N // 4),
    "inputs unsaid": "Action: search\nAction Input: a\n" + "<!--\nAction: x\n" * (N // 15), "input comments": "Action: search\nAction Input: a\n" + "<!-- a -->\n" * (N // 11) + "Action: x",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_linear_time(name: str) -> None:
    def seconds(text: str) -> float:
        started = time.process_time()
        _read(text)
        return time.process_time() - started

    short = min(seconds(HOSTILE[name][: N // 4]) for _ in range(2))
    assert min(seconds(HOSTILE[name]) for _ in range(2)) < 8 * short + 0.15, "four times the text"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_stream_is_watched_in_linear_time(name: str) -> None:
    cut, started = Cut(), time.process_time()
    for at in range(0, N, 50):
        cut.feed(HOSTILE[name][at : at + 50])
    assert time.process_time() - started < 3
