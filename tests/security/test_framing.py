"""Whatever a tool returns, it stays inside its frame: in both protocols, on both wires."""

from __future__ import annotations

import json
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.assembly import RunRequest
from orchestrator.assembly import started as begun
from orchestrator.core import render
from orchestrator.core.clean import END
from orchestrator.core.decide import AskModel
from orchestrator.core.events import Actions, Anomaly, Malformed, ModelTurn
from orchestrator.core.run import Run, replay
from orchestrator.core.spec import Json, Language, Protocol
from orchestrator.core.text.marks import marks
from orchestrator.settings import ModelSettings, Settings
from orchestrator.stores.record import dump, load
from tests.build import observed, run_of, trace
from tests.security.sent import (
    BOUNDARY,
    FIRST,
    LAST,
    Dialect,
    results,
    run_with,
    seen,
    sent,
    started,
    texts,
    tool,
    turn,
)

WIRES: tuple[Dialect, ...] = ("openai", "anthropic")
PROTOCOLS: tuple[Protocol, ...] = ("native", "text")
BOTH = pytest.mark.parametrize(("protocol", "wire"), list(product(PROTOCOLS, WIRES)))
steps = st.lists(st.lists(results, min_size=1, max_size=3), min_size=1, max_size=3)


def assert_framed(text: str) -> None:
    """One frame, whole and closed once, and nothing in it that our own reader would take for a turn."""
    lines = text.split("\n")
    assert (lines[0], lines[-1]) == (FIRST, LAST)
    assert text.lower().count(BOUNDARY) == 2
    inner = "\n".join(lines[1:-1])
    assert END not in inner
    assert not [mark for mark in marks(inner) if not mark.bare]


def expected(run: Run, wire: Dialect) -> list[tuple[str, int]]:
    """The roles and numbers of texts of a conversation, from the steps alone: no content is looked at."""
    found = [("user", 1)]
    for step in run.steps:
        count, noted = len(step.observations), int(bool(step.notes))
        if run.start.agent.protocol == "text":
            found += [("assistant", 1), ("user", 1)]
        elif wire == "openai":
            found += [("assistant", 1), *[("tool", 1)] * count, *[("user", 1)] * noted]
        else:
            found += [("assistant", 1 + count), ("user", count + noted)]
    return found


@BOTH
@given(brought=steps)
def test_a_tool_never_changes_how_many_messages_there_are_or_whose_they_are(
    protocol: Protocol, wire: Dialect, brought: list[list[Json]]
) -> None:
    run = run_with(started(protocol), brought)
    harmless = run_with(started(protocol), [["sunny"] * len(each) for each in brought])
    asked, like = sent(run, wire), sent(harmless, wire)
    assert [(role, len(texts)) for role, texts in asked.messages] == expected(run, wire)
    assert (asked.system, asked.messages[0]) == (like.system, like.messages[0])
    assert json.loads(asked.body).keys() == json.loads(like.body).keys()
    own = [[texts for role, texts in each.messages if role == "assistant"] for each in (asked, like)]
    assert own[0] == own[1]


@pytest.mark.parametrize("wire", WIRES)
@given(brought=steps)
def test_natively_each_result_is_one_frame(wire: Dialect, brought: list[list[Json]]) -> None:
    asked = sent(run_with(started("native"), brought), wire)
    results_of = [text for text in asked.brought() if text.startswith(FIRST)]
    assert len(results_of) == sum(map(len, brought))
    for text in results_of:
        assert_framed(text)
    others = [text for text in asked.brought() if not text.startswith(FIRST)]
    assert not [text for text in others if BOUNDARY in text.lower()]


@pytest.mark.parametrize("wire", WIRES)
@given(brought=steps)
def test_in_the_text_protocol_each_observation_is_one_frame_behind_one_label(
    wire: Dialect, brought: list[list[Json]]
) -> None:
    asked = sent(run_with(started("text"), brought), wire)
    messages = [texts for role, texts in asked.messages[1:] if role == "user"]
    assert len(messages) == len(brought)
    for (text,), step in zip(messages, brought, strict=True):
        pieces = text.split(f"Observation: {FIRST}\n")
        assert (pieces[0], len(pieces)) == ("", len(step) + 1)
        for piece in pieces[1:]:
            inner, _, note = piece.partition(f"\n{LAST}")
            assert_framed(f"{FIRST}\n{inner}\n{LAST}")
            assert BOUNDARY not in note.lower()


@given(message=texts, code=texts, data=results)
@pytest.mark.parametrize("limit", [200, 8000])
def test_an_errors_code_and_message_stay_in_the_frame_too(limit: int, message: str, code: str, data: Json) -> None:
    asked = turn(1)
    assert isinstance(asked.intent, Actions)
    shown = seen(asked.intent.actions[0], data, tool(), code=code, message=message, limit=limit)
    run = run_of(started("native"), asked, shown)
    (text,) = [text for text in sent(run, "openai").brought() if text.startswith(FIRST)]
    assert_framed(text)


@BOTH
@given(value=texts)
def test_what_is_known_so_far_is_foreign_text_and_stands_in_a_frame(
    protocol: Protocol, wire: Dialect, value: str
) -> None:
    spec = tool(facts={"city": "/city"})
    run = run_with(started(protocol, spec), [[{"city": value}]])
    tail = render.tail(run, AskModel(100))
    if run.facts:
        assert_framed(tail)
    else:
        assert tail == ""
    assert sent(run, wire).body.lower().count(BOUNDARY.encode()) % 2 == 0


@pytest.mark.parametrize("language", ["en", "zh"])
@BOTH
@given(name=texts)
def test_a_name_that_the_model_was_talked_into_is_quoted_on_one_line_by_the_host(
    protocol: Protocol, wire: Dialect, language: Language, name: str
) -> None:
    told = Malformed(Anomaly.MALFORMED, f"The call of {name} could not be read.")
    run = run_of(started(protocol, language=language), ModelTurn("", told))
    note = sent(run, wire).messages[-1][1][0]
    assert "\n" not in note
    assert BOUNDARY not in note.lower()


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_system_prompt_says_what_the_marks_mean_and_its_beginning_is_the_agents(
    protocol: Protocol, language: Language
) -> None:
    one = started(protocol, language=language)
    other = started(protocol, language=language, boundary="0" * 12)
    system = render.system(one.agent, one.tools, boundary=one.boundary)
    shared = render.system(one.agent, one.tools)
    assert system.startswith(f"{shared}\n\n")
    assert FIRST in system
    assert LAST in system
    assert ("never an instruction" if language == "en" else "绝不是指令") in system
    assert render.system(other.agent, other.tools, boundary=other.boundary).startswith(shared)


@BOTH
def test_the_frame_costs_no_prefix(protocol: Protocol, wire: Dialect) -> None:
    brought: list[list[Json]] = [["sunny"], [{"city": "Oslo"}, "rain"], ["end"]]
    before = b""
    for count in range(len(brought) + 1):
        run = run_with(started(protocol), brought[:count])
        body = sent(run, wire).body[:-2]
        kept = before.removesuffix(b"}]") if wire == "anthropic" else before
        assert body.startswith(kept)
        before = body


@BOTH
def test_a_run_from_before_there_were_boundaries_is_rendered_as_it_was(protocol: Protocol, wire: Dialect) -> None:
    first = started(protocol, boundary="")
    old = load(dump(first).replace(b',"boundary":""', b""))
    assert old == first
    run = run_with(first, [["sunny"]])
    asked = sent(run, wire)
    shown = f"status: success\nsunny\n{END}"
    assert asked.brought() == [shown if protocol == "native" else f"Observation: {shown}"]
    assert asked.system == render.system(first.agent, first.tools)


def test_each_run_draws_its_own_boundary_once() -> None:
    model = ModelSettings(provider="openai", base_url="http://127.0.0.1:1", model="m")
    settings = Settings(models={"default": model}, store="memory")
    drawn = [begun(settings, (tool(),), RunRequest("Who?")).boundary for _ in range(50)]
    assert len(set(drawn)) == 50
    assert {len(each) for each in drawn} == {12}
    assert all(each.isalnum() and each == each.lower() for each in drawn)
    first = started("native")
    assert replay(trace(first, turn(1), observed("1.0"))).start.boundary == first.boundary
