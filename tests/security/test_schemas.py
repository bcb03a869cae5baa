"""A foreign schema that makes looking at arguments expensive: bounded, whatever it says."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest

from orchestrator.core.events import Action
from orchestrator.core.permission import permit
from orchestrator.core.spec import Json
from orchestrator.errors import Rejected
from orchestrator.mcp.schema import arguments_of
from tests.build import run_of
from tests.permission.scene import begun, read, tool

MANY = 20_000
EVERY: list[dict[str, Any]] = [{"additionalProperties": {"allOf": [{"type": "string"}] * 30}}] * 30


def seconds(schema: dict[str, Any], value: Json) -> float:
    arguments = arguments_of({"type": "object", "properties": {"a": schema}})
    began = time.perf_counter()
    with contextlib.suppress(Rejected):
        arguments.read({"a": value})
    return time.perf_counter() - began


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"uniqueItems": True}, [{"k": n} for n in range(MANY)]),
        ({"uniqueItems": True}, [[n] if n % 2 else {"k": n} for n in range(MANY)]),
        ({"items": {"enum": list(range(1500))}}, [1499] * MANY),
        ({"items": {"enum": list(range(1500))}}, [-1] * MANY),
    ],
    ids=["unique objects", "unique of two kinds", "the last choice", "no choice"],
)
def test_a_check_of_many_elements_ends_soon(schema: dict[str, Any], value: Json) -> None:
    assert seconds(schema, value) < 2.0, "quadratic, it took minutes"


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"a": 2, "b": 1}, [1], 1, "1", None], True),
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2, "a": 1}], False),
        ({"uniqueItems": False}, [1, 1], True),
        ({"uniqueItems": True}, "11", True),
        ({"items": {"enum": ["x", {"y": [1]}, None]}}, [None, {"y": [1]}, "x"], True),
        ({"items": {"enum": ["x"]}}, ["x", "y"], False),
        ({"items": {"enum": list(range(1500))}}, [1499] * 100, True),
    ],
)
def test_choices_and_unique_elements_are_checked(schema: dict[str, Any], value: Json, *, fits: bool) -> None:
    arguments = arguments_of({"type": "object", "properties": {"a": schema}})
    if fits:
        assert arguments.read({"a": value}) == {"a": value}
    else:
        with pytest.raises(Rejected, match="INVALID_ARGUMENTS"):
            arguments.read({"a": value})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"anyOf": [{"enum": [str(n)]} for n in range(900)]}}, ["z"] * 5000),
        ({"allOf": EVERY}, {f"k{n}": "v" for n in range(5000)}),
        ({"anyOf": [{"properties": {f"k{n}": {}}} for n in range(900)]}, {f"k{n}": "v" for n in range(5000)}),
    ],
    ids=["alternatives", "alternatives of alternatives", "names"],
)
def test_judging_a_call_of_a_foreign_tool_ends_soon(schema: dict[str, Any], value: Json) -> None:
    foreign = tool("mcp__a__b", "write", trusted=False, foreign=True, schema={"properties": {"a": schema}})
    run = run_of(begun("Write it down", foreign), *read(1, "x", "mcp__a__b"))
    began = time.perf_counter()
    assert permit(run, Action("2.0", foreign.name, {"a": value}), foreign).verdict == "ask"
    assert time.perf_counter() - began < 3.0
