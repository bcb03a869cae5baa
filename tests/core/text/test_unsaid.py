"""What is not said: where it goes, and that it never becomes an answer."""

from __future__ import annotations

import pytest

from orchestrator.core.events import Anomaly
from orchestrator.core.markup import holds_call
from orchestrator.core.prompt import Completion
from orchestrator.core.text import read
from tests.core.text.said import TOOLS, said

CALL = "Action: delete_records[users]"
UNSAID = [f"<!--\n{CALL}\n-->", f"<plan>{CALL}</plan>", f"&lt;think&gt;\n{CALL}\n&lt;/think&gt;"]


@pytest.mark.parametrize("text", UNSAID)
def test_what_is_not_said_is_reasoning_and_no_part_of_the_thought(text: str) -> None:
    turn = read(Completion(f"Thought: Look first.\n{text}\nAction: search[x]"), TOOLS, 1)
    assert (turn.thought, turn.reasoning) == ("Look first.", CALL)


@pytest.mark.parametrize("text", UNSAID)
@pytest.mark.parametrize("prose_ends", [False, True])
def test_a_reply_of_which_nothing_is_said_is_empty_with_a_draft(text: str, prose_ends: bool) -> None:
    assert said(text, prose_ends=prose_ends) == (Anomaly.EMPTY, {Anomaly.ACTION_IN_THINKING})


@pytest.mark.parametrize("text", [f"~~{CALL}~~", '~~<tool_call>{"name": "search"}</tool_call>~~'])
def test_a_struck_out_call_is_neither_run_nor_the_answer(text: str) -> None:
    assert said(text, prose_ends=True)[0] is Anomaly.NO_ACTION
    assert holds_call(text, TOOLS), "nor the answer of a native reply"


def test_a_struck_out_line_is_no_part_of_the_thought() -> None:
    turn = read(Completion(f"Thought: No.\n~~{CALL}~~\nAction: search[x]"), TOOLS, 1)
    assert turn.thought == "No."
