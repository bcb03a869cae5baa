"""Event ⇄ JSON: what is written can be read, by this release and the next ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.events import (
    Action,
    Actions,
    Anomaly,
    Attempt,
    Decision,
    Event,
    Final,
    Malformed,
    ModelTurn,
    Observation,
    Outcome,
    RunEnded,
    RunStarted,
    StopReason,
    Usage,
    Waiting,
)
from orchestrator.core.spec import AgentSpec, Limits, ToolSpec
from orchestrator.errors import StoreError
from orchestrator.stores import record
from tests.stores.words import ACTING, ANSWER, TURN, WHOLE

TRACES = sorted((Path(__file__).parents[1] / "traces").glob("*.jsonl"))

text = st.text(st.characters(codec=None))
number = st.floats(allow_nan=False)
json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | number | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
json_object = st.dictionaries(text, json_value, max_size=3)
labels = st.dictionaries(text, text, max_size=2)
attempts = st.lists(st.builds(Attempt, text, text, number), max_size=2).map(tuple)
actions = st.builds(Actions, st.lists(st.builds(Action, text, text, json_object), max_size=3).map(tuple))
intents = actions | st.builds(Final, text, st.none() | text) | st.builds(Malformed, st.sampled_from(Anomaly), text)
usages = st.builds(Usage, st.integers(0), st.integers(0), cost=st.none() | number)
tools = st.builds(ToolSpec, text, text, json_object, facts=labels, aliases=st.lists(text, max_size=2).map(tuple))
turns = st.builds(
    ModelTurn,
    text,
    intents,
    st.sampled_from(StopReason),
    usages,
    st.lists(st.sampled_from(Anomaly), max_size=2).map(tuple),
    attempts=attempts,
    seconds=number,
    first_token=st.none() | number,
    opaque=json_object,
)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        RunStarted,
        text,
        st.builds(AgentSpec, text, models=st.lists(text, max_size=2).map(tuple)),
        st.builds(Limits, deadline=st.none() | number),
        st.lists(tools, max_size=2).map(tuple),
        text,
        labels=labels,
    ),
    turns,
    st.builds(
        Observation,
        text,
        text,
        st.sampled_from(["success", "error"]),
        text,
        st.none() | text,
        labels,
        attempts=attempts,
    ),
    st.builds(Waiting, text, number, st.sampled_from(["tool", "approval"]), text, st.none() | number),
    st.builds(Decision, text, text, st.sampled_from(["approve", "edit", "refuse"]), st.none() | json_object),
    st.builds(RunEnded, st.sampled_from(Outcome), st.none() | text),
)


@given(events)
def test_every_event_comes_back_as_it_went(event: Event) -> None:
    body = record.dump(event)
    back = record.load(body)
    assert back == event
    assert type(back) is type(event)
    assert repr(back) == repr(event), "the same types too: StrEnums, tuples, ints that are no floats"
    body.decode()


@given(st.binary(max_size=80) | json_value.map(json.dumps).map(str.encode))
def test_whatever_a_row_holds_is_an_event_or_a_store_error(body: bytes) -> None:
    try:
        record.load(body, "r", 7)
    except StoreError as error:
        assert "run r, entry 7" in str(error)


def test_infinities_are_kept_and_nan_stays_nan() -> None:
    event = Decision("1.0", "me", "edit", {"x": float("inf"), "deep": [{"y": float("-inf")}], "none": None})
    assert record.load(record.dump(event)) == event
    nan = record.load(record.dump(Decision("1.0", "me", "edit", {"x": float("nan")})))
    assert isinstance(nan, Decision)
    assert nan.input
    assert nan.input["x"] != nan.input["x"]


def test_deep_nesting_comes_back_as_it_went() -> None:
    deep: dict[str, object] = {}
    for _ in range(400):
        deep = {"a": deep}
    event = Decision("1.0", "me", "edit", deep)  # type: ignore[arg-type]
    assert record.load(record.dump(event)) == event


def test_nesting_beyond_the_interpreter_is_a_store_error() -> None:
    deep: dict[str, object] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(StoreError):
        record.dump(Decision("1.0", "me", "edit", deep))  # type: ignore[arg-type]
    with pytest.raises(StoreError):
        record.load(b'{"kind":"decision","id":' + b"[" * 100_000)


def test_a_field_that_this_release_does_not_know_is_ignored() -> None:
    raw = json.loads(record.dump(TURN)) | {"mood": "good"}
    raw["usage"]["energy"] = 5
    assert record.load(json.dumps(raw).encode()) == TURN


def test_a_field_that_is_younger_than_the_trace_takes_its_default() -> None:
    raw = json.loads(record.dump(TURN))
    assert raw.pop("reasoning") == ""
    assert record.load(json.dumps(raw).encode()) == TURN


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b'{"kind":"dream"}', "dream"),
        (b'{"goal":"x"}', "kind"),
        (b'{"kind":"action_started"}', "action_started.id: Field required"),
        (b'{"kind":"run_ended","outcome":"bored"}', "run_ended.outcome"),
    ],
)
def test_what_is_no_event_is_refused_by_name(body: bytes, problem: str) -> None:
    with pytest.raises(StoreError, match=r"run r, entry 3 is no event of this release") as caught:
        record.load(body, "r", 3)
    assert problem in str(caught.value)


def test_a_renamed_kind_is_read_through_its_upcaster(monkeypatch: pytest.MonkeyPatch) -> None:
    old = b'{"kind":"tool_started","call":"1.0","key":"r/1.0"}'
    renamed = {"tool_started": lambda raw: {"kind": "action_started", "id": raw["call"], "key": raw["key"]}}
    monkeypatch.setattr(record, "UPCASTERS", renamed)
    assert record.load(old) == ACTING


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_traces_of_older_releases_are_read_for_ever(path: Path) -> None:
    entries = [record.load_entry(line) for line in path.read_bytes().splitlines()]
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert [record.load_entry(record.dump_entry(entry)) for entry in entries] == entries


def test_there_is_a_trace_to_read() -> None:
    assert TRACES


def test_the_first_trace_is_what_it_was() -> None:
    lines = (TRACES[0].parent / "first.jsonl").read_bytes().splitlines()
    assert tuple(record.load_entry(line).event for line in lines)[-2:] == (ANSWER, WHOLE[-1])


@pytest.mark.parametrize("line", [b"", b"{}", b"[1]", b'{"run_id":"r","seq":"x","at":1,"event":{}}', b"\xff"])
def test_a_line_that_is_no_entry_is_refused(line: bytes) -> None:
    with pytest.raises(StoreError):
        record.load_entry(line)
