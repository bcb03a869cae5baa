"""A person's edit is held to the schema that the model was shown: kept as it is, or refused and nothing written."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.core.events import Waiting
from orchestrator.core.spec import JsonObject, ToolSpec
from orchestrator.dispatch.memory import MemoryDispatcher
from orchestrator.inbox import Inbox, NotTaken
from orchestrator.stores.memory import MemoryStore
from orchestrator.tool import tool
from tests.build import acts, started


@tool
async def pay(n: int, to: str = "ann") -> str:
    """Pays."""
    return f"{n} to {to}"


FOREIGN = ToolSpec("pay", "pays", {"type": "object", "properties": {"n": {"type": "integer"}}}, foreign=True)


async def waiting(spec: ToolSpec) -> tuple[MemoryStore, Inbox]:
    store = MemoryStore()
    await store.open()
    await store.append("r", 0, (started(spec), acts(1, ("pay", {"n": 1})), Waiting("1.0", 9e9, "approval")), at=1.0)
    return store, Inbox(store, MemoryDispatcher(store), clock=lambda: 2.0)


@pytest.mark.parametrize("spec", [pay.spec, FOREIGN], ids=["own", "an MCP server's"])
async def test_an_edit_that_the_schema_refuses_is_not_taken_and_says_why(spec: ToolSpec) -> None:
    store, inbox = await waiting(spec)
    with pytest.raises(NotTaken, match=r"n: '2' is not of type 'integer'. Allowed: n \(integer") as refused:
        await inbox.decide("r", "1.0", "edit", by="ann", input={"n": "2"})
    assert refused.value.code == "INVALID_ARGUMENTS"
    assert len(await store.read("r")) == 3


@pytest.mark.parametrize("given", [{"n": 2}, {"n": 2, "to": "bob"}, {"n": 2.0}])
async def test_an_edit_is_kept_as_it_was_given(given: JsonObject) -> None:
    _, inbox = await waiting(pay.spec)
    run = await inbox.decide("r", "1.0", "edit", by="ann", input=given)
    assert (run.decided["1.0"].input, type(run.decided["1.0"].input["n"])) == (given, type(given["n"]))  # type: ignore[index]


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "array"},
        {"type": "object", "properties": {"q": {"type": "what", "minimum": "x"}}},
        {"type": "object", "properties": 3, "required": 3},
    ],
)
async def test_a_schema_that_makes_no_sense_refuses_nothing(schema: Any) -> None:
    _, inbox = await waiting(ToolSpec("pay", "pays", schema))
    run = await inbox.decide("r", "1.0", "edit", by="ann", input={"q": "a"})
    assert run.decided["1.0"].input == {"q": "a"}
