"""What the model is told: tools, one example with a real tool, an honest way out; and how a closed step is replayed."""

from __future__ import annotations

import pytest

from orchestrator.core.events import Action, Actions, Anomaly, Final, Malformed, ModelTurn, Observation
from orchestrator.core.prompt import Completion, Text
from orchestrator.core.spec import AgentSpec, Language
from orchestrator.core.text import messages, question, read, stops, system
from tests.core.text.said import TOOLS

DONE = Observation("1.0", "search", "success", "success\nhigh\n--- END OF OBSERVATION ---")


def text_of(parts: object) -> str:
    assert isinstance(parts, tuple)
    (part,) = parts
    assert isinstance(part, Text)
    return part.text


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("constrained", [False, True])
def test_the_system_prompt_names_every_tool_and_the_way_out(language: Language, constrained: bool) -> None:
    written = system(AgentSpec(language=language), TOOLS, constrained=constrained)
    assert all(f"- {tool.name}: " in written for tool in TOOLS)
    assert {"en": "insufficient: missing X", "zh": "资料不足：缺少 X"}[language] in written
    assert "\nObservation:" not in written, "an example that could be written on"
    assert system(AgentSpec(language=language), TOOLS, constrained=constrained) == written
    assert system(AgentSpec(language=language), (), constrained=constrained)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("constrained", [False, True])
def test_the_example_is_one_reply_that_the_reader_accepts(language: Language, constrained: bool) -> None:
    written = system(AgentSpec(language=language), TOOLS, constrained=constrained)
    marker = {"en": "Example of one reply:\n", "zh": "一次回复的示例：\n"}[language]
    example = written.split(marker)[1].split("\n\n")[0]
    turn = read(Completion(example), TOOLS, 1)
    assert isinstance(turn.intent, Actions)
    assert turn.intent.actions[0].tool == TOOLS[0].name
    assert turn.anomalies == ()
    assert turn.thought


def test_a_step_is_the_kept_text_and_the_hosts_words() -> None:
    turn = ModelTurn(
        "t", Actions((Action("1.0", "search", {"query": "x"}),)), opaque={"text": "Thought: t\nAction: search[x]"}
    )
    said, told = messages(turn, (DONE,), "One Action per reply.")
    assert (said.role, text_of(said.parts)) == ("assistant", "Thought: t\nAction: search[x]")
    assert (told.role, text_of(told.parts)) == ("user", f"Observation: {DONE.content}\n\nOne Action per reply.")


def test_no_message_is_ever_empty() -> None:
    silent = ModelTurn("", Malformed(Anomaly.EMPTY, "The reply was empty."), opaque={"text": ""})
    for turn in (silent, ModelTurn("t", Final("b")), ModelTurn("", Actions((Action("1.0", "get_time", {}),)))):
        for message in messages(turn, (), ""):
            assert text_of(message.parts).strip()


def test_what_was_wrong_is_told_once() -> None:
    turn = read(Completion("Thought: t\nAction: get_weather Oslo"), TOOLS, 1)
    assert isinstance(turn.intent, Malformed)
    for note in ("", turn.intent.detail):
        _, told = messages(turn, (), note)
        assert text_of(told.parts).count(turn.intent.detail) == 1
    assert "get_weather" in text_of(told.parts)


def test_a_turn_of_another_protocol_is_replayed_in_our_own_form() -> None:
    turn = ModelTurn("t", Actions((Action("1.0", "search", {"query": "三体"}),)))
    said, _ = messages(turn, (DONE,), "")
    assert text_of(said.parts) == 'Thought: t\nAction: search {"query": "三体"}'


def test_the_goal_is_the_question() -> None:
    assert text_of(question("Who?").parts) == "Question: Who?"


def test_stop_sequences_are_a_matter_of_the_endpoint() -> None:
    assert stops("off") == ()
    assert "\nObservation:" in stops("plain")
    assert set(stops("plain")) < set(stops("start"))
    assert all(len(stops(style)) <= 4 for style in ("off", "plain", "start")), "OpenAI takes four"
