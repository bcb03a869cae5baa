"""A schema alone checks as the tool itself does, in the same words; what it does not know it does not refuse."""

from __future__ import annotations

import inspect
import json
import sys
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from orchestrator.core.events import Waiting
from orchestrator.core.spec import JsonObject, ToolSpec
from orchestrator.dispatch.memory import MemoryDispatcher
from orchestrator.errors import Rejected
from orchestrator.inbox import Inbox, NotTaken
from orchestrator.stores.memory import MemoryStore
from orchestrator.tool import Arguments
from orchestrator.tool.promised import promised
from orchestrator.tool.signature import signature_of
from tests.build import acts, started


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Node(BaseModel):
    model_config = ConfigDict(strict=True)

    x: int
    inner: list[Node] = []


def offered(
    s: str,
    i: int,
    c: Colour = Colour.RED,
    m: Node | None = None,
    w: Literal["p", "q"] = "p",
    o: int | None = None,
    u: int | str = 1,
    d: date | None = None,
    t: tuple[int, str] = (1, "a"),
    k: dict[str, int] | None = None,
    g: Annotated[int, Field(ge=1, le=5)] = 1,
    a: Any = None,
    f: float = 1.0,
    r: Annotated[str, Field(min_length=2, pattern="^a")] = "aa",
    b: Annotated[list[bool], Field(max_length=2)] = (),  # type: ignore[assignment]
    n: Literal[1, 2] | None = None,
) -> None:
    raise NotImplementedError


OWN = signature_of(offered, "here")
SHOWN = promised(OWN.schema)
NAMES = (*inspect.signature(offered).parameters, "z")


def said(arguments: Arguments, given: dict[str, Any]) -> str:
    try:
        arguments.read(given)
    except Rejected as error:
        return str(error)
    return "taken"


VALUES: tuple[Any, ...] = (
    *(None, True, 1, 0, 9, 1.0, 2.5, 10**30, "", "a", "aa", "red", "p", "2026-11-30", "1", [], {}, [1], [1, "a"]),
    *([True] * 3, {"x": 1}, {"x": "1"}, {"inner": [{}]}, {"x": 1, "inner": [{"x": 2}]}, {"a": "b"}, "2026-13-01"),
)


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_the_tool_says(name: str) -> None:
    for value in VALUES:
        whole = {"s": "x", "i": 1, name: value}
        assert said(SHOWN, whole) == said(OWN, whole)
    assert said(SHOWN, {name: 1}) == said(OWN, {name: 1})


@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES)))
def test_it_takes_what_the_tool_takes_and_nothing_else(whole: dict[str, Any]) -> None:
    assert said(SHOWN, whole) == said(OWN, whole)


def test_a_schema_that_was_stored_checks_the_same() -> None:
    kept = json.loads(json.dumps(OWN.schema))
    assert said(promised(kept), {"s": 3}) == said(OWN, {"s": 3})


LOOP: Any = {"$ref": "#/$defs/A"}
DEEP: Any = {}
for _ in range(sys.getrecursionlimit()):
    DEEP = {"type": "array", "items": DEEP}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "properties": {"q": LOOP}},
        {"type": "object", "properties": {"q": LOOP}, "$defs": {"A": LOOP}},
        {"type": "object", "properties": {"q": LOOP}, "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/B"}]}, "B": LOOP}},
        {"type": "object", "properties": {"q": {"type": "string", "pattern": "(?=x)"}}},
        {"type": "object", "properties": {"q": {"type": "what", "minimum": "x"}}},
        {"type": "object", "properties": {"q": {"type": "string", "minLength": "x"}}},
        {"type": "object", "properties": {"q": {"enum": []}}, "required": 3},
        {"type": "object", "properties": 3, "$defs": 4},
        {"type": "object", "properties": {"q": DEEP}},
    ],
)
def test_a_schema_that_makes_no_sense_refuses_nothing(schema: Any) -> None:
    assert said(promised(schema), {"q": "a"}) == "taken"


NUMBER: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ALLOWED = "Allowed: n (integer, required)"


@pytest.mark.parametrize(
    ("foreign", "wrong"),
    [
        (False, f"n: Input should be a valid integer, not '2'. {ALLOWED}"),
        (True, f"n: '2' is not of type 'integer'. {ALLOWED}"),
    ],
    ids=["own", "an MCP server's"],
)
async def test_a_persons_edit_is_kept_as_it_is_or_refused_as_a_models_is(wrong: str, *, foreign: bool) -> None:
    spec = ToolSpec("pay", "pays", NUMBER, foreign=foreign)
    store = MemoryStore()
    await store.open()
    events = (started(spec), acts(1, ("pay", {"n": 1})), Waiting("1.0", 9e9, "approval"))
    await store.append("r", 0, events, at=1.0)
    inbox = Inbox(store, MemoryDispatcher(store), clock=lambda: 2.0)
    with pytest.raises(NotTaken) as refused:
        await inbox.decide("r", "1.0", "edit", by="ann", input={"n": "2"})
    assert (refused.value.code, str(refused.value)) == ("INVALID_ARGUMENTS", f"INVALID_ARGUMENTS: {wrong}")
    assert len(await store.read("r")) == 3
    run = await inbox.decide("r", "1.0", "edit", by="ann", input={"n": 2, "more": 1.0})
    assert run.decided["1.0"].input == {"n": 2, "more": 1.0}
