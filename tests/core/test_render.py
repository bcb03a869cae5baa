"""Laws of the prompt: it only ever grows at its end, in both protocols and on both wires; and what the host tells the model."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core import native, render, text
from orchestrator.core.decide import AskModel
from orchestrator.core.events import (
    Action,
    Actions,
    Anomaly,
    Decision,
    Event,
    Malformed,
    ModelTurn,
    RunStarted,
    StopReason,
    Usage,
)
from orchestrator.core.prompt import Completion, Message, RawCall, Text, ToolCall, ToolOutput
from orchestrator.core.run import Run
from orchestrator.core.spec import AgentSpec, Language, Protocol
from orchestrator.providers import anthropic, openai
from orchestrator.providers.wire import Provider
from tests.build import observed, run_of, spec

SEARCH = spec("search")
WIRES: tuple[Provider, ...] = (openai, anthropic)
ASK = AskModel(100)


def started(protocol: Protocol, language: Language = "en") -> RunStarted:
    return RunStarted("Who wrote it?", AgentSpec(protocol=protocol, language=language), tools=(SEARCH,))


def completions(protocol: Protocol) -> st.SearchStrategy[Completion]:
    """Replies as models give them: sound, several at once, forged, malformed, empty, cut, paused, refused calls, equal ids."""
    ids = st.sampled_from(["", "call_0", "functions.search:0", "toolu_01A09q90qw90lq917835lq9"])
    arguments = st.sampled_from(['{"q": "a"}', '{"q": "b"}', "{", "", '{"q": {"deep": [1]}}'])
    names = st.sampled_from(["search", "Search", "nobody"])
    calls = st.lists(st.builds(RawCall, ids, names, arguments), min_size=1, max_size=3).map(tuple)
    said = st.sampled_from(
        [
            "", " ", "I think so.", "Thought: t\nAction: search[x]", 'Thought: t\nAction: search {"q": "x"}\nObservation: fake',
            "Action: search[x]\nAction: search[y]", "Action: search {", "Final Answer: 1\nAction: search[x]", "<think>hm",
        ]
    )  # fmt: skip
    stops = st.sampled_from(
        [StopReason.END_TURN, StopReason.MAX_TOKENS, StopReason.PAUSE, StopReason.TOOL_USE, StopReason.UNKNOWN]
    )
    raw = st.sampled_from(
        [
            {},
            {
                "provider": "anthropic",
                "model": "m",
                "content": [{"type": "thinking", "thinking": "x", "signature": "s"}],
            },
        ]
    )
    some = calls if protocol == "native" else st.just(())
    return st.builds(Completion, said, calls=st.one_of(st.just(()), some), stop=stops, opaque=raw)


def history(protocol: Protocol, replies: Sequence[Completion], *, backwards: bool, edited: bool) -> list[Run]:
    """The run before each question to the model."""
    read = native.read if protocol == "native" else text.read
    events: list[Event] = [started(protocol)]
    runs = [run_of(*events)]
    for reply in replies:
        turn = read(reply, (SEARCH,), runs[-1].step)
        if not isinstance(turn.intent, Actions | Malformed):
            break
        events.append(turn)
        actions = turn.intent.actions if isinstance(turn.intent, Actions) else ()
        for action in reversed(actions) if backwards else actions:
            if edited:
                events.append(Decision(action.id, "Ada", "edit", {"q": "edited"}))
            events.append(observed(action.id, f"result of {action.id}", tool=action.tool))
        runs.append(run_of(*events))
    return runs


@pytest.mark.parametrize("wire", WIRES, ids=["openai", "anthropic"])
@pytest.mark.parametrize("protocol", ["native", "text"])
@given(data=st.data(), backwards=st.booleans(), edited=st.booleans())
def test_the_prompt_only_ever_grows_at_its_end(
    protocol: Protocol, wire: Provider, data: st.DataObject, backwards: bool, edited: bool
) -> None:
    replies = data.draw(st.lists(completions(protocol), max_size=6))
    before: tuple[bytes, ...] = ()
    for run in history(protocol, replies, backwards=backwards, edited=edited):
        messages = render.prompt(run, ASK).messages
        parts = tuple(part for message in messages for part in wire.parts(message, "m"))
        assert parts[: len(before)] == before
        shown = [step.turn for step in run.steps if not step.hidden]
        paused = bool(shown) and shown[-1].stop is StopReason.PAUSE
        assert paused or parts[-1].startswith((b'{"role":"user"', b'{"role":"tool"'))
        before = parts


@given(data=st.data(), backwards=st.booleans())
def test_each_call_has_exactly_one_result_right_after_it_and_ids_are_never_used_twice(
    data: st.DataObject, backwards: bool
) -> None:
    replies = data.draw(st.lists(completions("native"), max_size=6))
    run = history("native", replies, backwards=backwards, edited=False)[-1]
    messages = render.prompt(run, ASK).messages
    seen: set[str] = set()
    for message, after in zip(messages, [*messages[1:], Message("user", ())], strict=True):
        calls = [part.id for part in message.parts if isinstance(part, ToolCall)]
        assert [part.id for part in after.parts if isinstance(part, ToolOutput)] == calls or not calls
        strong = {id for id in calls if not id.startswith("toolu_")}
        assert not seen & strong
        seen |= strong


def said(run: Run) -> str:
    return "".join(part.text for part in render.prompt(run, ASK).messages[-1].parts if isinstance(part, Text))


@pytest.mark.parametrize("protocol", ["native", "text"])
@pytest.mark.parametrize("problem", list(Anomaly))
def test_what_was_wrong_is_told_in_the_agents_language(protocol: Protocol, problem: Anomaly) -> None:
    turn = ModelTurn("t", Malformed(problem, "The field `city` is open."), usage=Usage(1, 1))
    chinese, english = (said(run_of(started(protocol, language), turn)) for language in ("zh", "en"))
    assert "The field `city` is open." in english
    assert chinese.isascii() is (protocol == "native" and problem not in render._PROBLEMS_ZH)
    if problem is Anomaly.MALFORMED:
        assert "The field `city` is open." in chinese, "the specifics stay"


@pytest.mark.parametrize("protocol", ["native", "text"])
def test_the_model_is_told_what_ran_in_place_of_an_edited_action(protocol: Protocol) -> None:
    turn = ModelTurn("", Actions((Action("1.0", "search", {"q": "all"}), Action("1.1", "search", {"q": "b"}))))
    edit = Decision("1.0", "Ada", "edit", {"q": "one"})
    told = said(run_of(started(protocol), turn, edit, observed("1.0"), observed("1.1", "another")))
    assert 'search ran with {"q": "one"}' in told
    assert told.count("ran with") == 1
