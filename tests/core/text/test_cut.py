"""Where a stream is cut, and what is shown of it."""

from __future__ import annotations

import pytest

from orchestrator.core.text import Cut


def fed(text: str, size: int = 1, *, prefilled: bool = False) -> tuple[str, Cut]:
    cut, shown = Cut(prefilled=prefilled), ""
    for at in range(0, len(text), size):
        piece, over = cut.feed(text[at : at + size])
        shown += piece
        if over:
            break
    return shown, cut


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("kept", "lost"),
    [
        ("Thought: t\nAction: search[x]\n", "Observation: y\nFinal Answer: y"),
        ("Thought: t\nAction: search[x]\n", "**Observation:** y"),
        ("Thought: t\nAction: search[x]\n", "观察：y"),
        ("", "Observation: y\nFinal Answer: y"),
        ("Action: finish[b]\n", "Question: next?"),
        ('<tool_call>\n{"name": "search", "arguments": {}}\n</tool_call>\n', "<tool_response>y"),
    ],
)
def test_the_stream_ends_where_the_model_begins_to_play_the_host(kept: str, lost: str, size: int) -> None:
    shown, cut = fed(kept + lost, size)
    assert cut.over
    assert shown == kept
    assert cut.text.startswith(kept)
    assert cut.feed("more") == ("", True)


@pytest.mark.parametrize(
    "text",
    [
        "Final Answer: notes\nObservation: it melted",
        "Thought: ```\nObservation: log\n```\nAction: search[x]",
        'Action: write_file {"path": "a", "content": "\nObservation: b"}',
        "<think>\nObservation: y\n</think>\nAction: search[x]",
        "Thought: the Observation: was empty\nAction: search[x]",
        "Question: q\nThought: t",
    ],
)
def test_what_the_reader_would_keep_is_not_cut(text: str) -> None:
    shown, cut = fed(text)
    assert not cut.over
    assert shown + cut.rest() == text == cut.text


def test_behind_a_prefilled_think_tag_nothing_is_certain_before_it_closes() -> None:
    draft = "I could\nAction: delete_records[x]\nObservation: y\n"
    assert fed(draft)[1].over
    assert not fed(draft, prefilled=True)[1].over
    assert fed(f"{draft}</think>\nAction: search[x]\nObservation: y\n", prefilled=True)[1].over


def test_a_long_line_is_shown_as_it_comes() -> None:
    shown, _ = fed("Thought: " + "word " * 40)
    assert len(shown) > 190
