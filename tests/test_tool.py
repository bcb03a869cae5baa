"""`@tool`: schema, description and check off the signature; what cannot be described to a model is refused with a remedy."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from datetime import date
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from orchestrator.errors import ConfigError, OrchestratorError, Rejected, Unavailable
from orchestrator.tool import Context, Threads, ToolError, ToolResult, abandoned, context, on_behalf_of, pending, tool
from orchestrator.traceparent import traceparent


class Leg(BaseModel):
    start: str
    km: float = 1.0


@tool(repeatable=True, timeout=5, facts={"temperature": "/t"}, aliases=("天气",), trusted=False)
async def get_weather(
    city: str,
    day: date | None = None,
    unit: Literal["c", "f"] = "c",
    n: Annotated[int, Field(ge=1, le=3, description="how many")] = 1,
) -> str:
    """The weather in a city.

    Args:
        city: its name, in any language
        unit (str): the scale
    Returns:
        words
    """
    return f"{city} {day} {unit} {n}"


def test_the_spec_comes_off_the_signature() -> None:
    spec = get_weather.spec
    assert (spec.name, spec.description, spec.timeout, spec.repeatable, spec.trusted) == (
        "get_weather",
        "The weather in a city.",
        5.0,
        True,
        False,
    )
    assert spec.schema["required"] == ["city"]
    assert spec.schema["additionalProperties"] is False
    fields: Any = spec.schema["properties"]
    assert fields["city"] == {"type": "string", "description": "its name, in any language"}
    assert fields["unit"] == {"enum": ["c", "f"], "type": "string", "description": "the scale", "default": "c"}
    assert fields["n"] == {"type": "integer", "minimum": 1, "maximum": 3, "description": "how many", "default": 1}
    assert "title" not in str(spec.schema)


def test_a_property_called_title_is_kept() -> None:
    @tool
    async def add_note(title: str, leg: Leg) -> None:
        """Add."""

    fields: Any = add_note.spec.schema["properties"]
    assert set(fields) == {"title", "leg"}
    assert fields["title"] == {"type": "string"}


def test_input_is_checked_by_the_rules_of_json() -> None:
    read = get_weather.arguments.read
    assert read({"city": "Oslo", "day": "2026-01-02"}) == {"city": "Oslo", "day": date(2026, 1, 2)}

    @tool
    async def measured(km: float, legs: list[Leg]) -> None:
        """Measure."""

    got = measured.arguments.read({"km": 3, "legs": [{"start": "a"}]})
    assert got["km"] == 3.0
    assert got["legs"] == [Leg(start="a")]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "city is missing. Allowed: city (string, required), day"),
        ({"city": 5}, "city: Input should be a valid string, not 5"),
        ({"city": "x", "n": "1"}, "n: Input should be a valid integer, not '1'"),
        ({"city": "x", "n": True}, "n: Input should be a valid integer"),
        ({"city": "x", "n": 9}, "less than or equal to 3"),
        (
            {"city": "x", "unit": "k"},
            "unit: Input should be 'c' or 'f', not 'k'. Allowed: city (string, required), day (string or null), unit (one of \"c\", \"f\"), n (integer >= 1 <= 3)",
        ),
        ({"city": "x", "where": 1}, "where is no argument of this tool"),
        ({"city": "x\ud835"}, "INVALID_ARGUMENTS"),
        ({"city": 10**400}, "city"),
    ],
)
def test_a_refusal_names_the_field_and_what_is_allowed(given: Any, told: str) -> None:
    with pytest.raises(Rejected) as caught:
        get_weather.arguments.read(given)
    assert told in str(caught.value)


def refused(match: str, make: Any) -> None:
    with pytest.raises(ConfigError, match=match):
        make()


def test_what_cannot_be_described_to_a_model_is_refused_with_a_remedy() -> None:
    async def many(*args: int) -> None:
        """X."""

    async def untyped(q) -> None:  # type: ignore[no-untyped-def]
        """X."""

    async def positional(q: str, /) -> None:
        """X."""

    async def odd(q: threading.Lock) -> None:
        """X."""

    async def silent(q: str) -> None:
        pass

    async def finish(q: str) -> None:
        """X."""

    async def fine(q: str) -> None:
        """X."""

    refused("name each parameter", lambda: tool(many))
    refused("q has no type; write q: str", lambda: tool(untyped))
    refused("positional-only", lambda: tool(positional))
    refused(r"the type of q, \w+, has no JSON Schema; use str", lambda: tool(odd))
    refused("write a docstring", lambda: tool(silent))
    refused("ends a run", lambda: tool(finish))
    refused("cannot name a tool", lambda: tool(name="two words")(fine))
    refused("alias repeats", lambda: tool(aliases=("a", "A"))(fine))
    refused("alias repeats", lambda: tool(aliases=("Fine",))(fine))
    refused("write a tuple", lambda: tool(aliases="abc")(fine))
    refused("JSON Pointer", lambda: tool(facts={"t": "t"})(fine))
    refused("no option 'timout'; it has", lambda: tool(timout=3)(fine))
    refused("write seconds above 0", lambda: tool(timeout=0)(fine))
    refused("must be an async function", lambda: tool(reconcile=lambda q: None)(fine))
    refused("plain function, not the class Leg", lambda: tool(Leg))
    refused("plain function", lambda: tool(get_weather))


@pytest.mark.parametrize("mark", ["repeatable", "side_effect", "trusted", "requires_approval", "common"])
@pytest.mark.parametrize("value", ["no", "false", "yes", 0, 1, [], ["x"]])
def test_a_mark_is_true_or_false_and_no_word_that_counts_as_true(mark: str, value: Any) -> None:
    async def fine(q: str) -> None:
        """X."""

    refused(f"{mark} is .*; write True or False", lambda: tool(**{mark: value})(fine))


@pytest.mark.parametrize("value", [True, False, None])
def test_a_mark_that_is_given_is_kept_and_none_leaves_the_default(value: bool | None) -> None:
    async def fine(q: str) -> None:
        """X."""

    assert tool(repeatable=value)(fine).spec.repeatable is bool(value)
    assert tool(trusted=value)(fine).spec.trusted is (value is not False)


def test_a_function_that_yields_is_no_tool() -> None:
    def some(q: str) -> Any:
        """X."""
        yield q

    async def later(q: str) -> Any:
        """X."""
        yield q

    refused("this one yields; return a list", lambda: tool(some))
    refused("this one yields; return a list", lambda: tool(later))


def test_ordinary_words_are_common_names() -> None:
    @tool
    async def search(q: str) -> None:
        """X."""

    assert search.spec.common
    assert not get_weather.spec.common


async def test_a_tool_can_be_called_as_the_function_it_is() -> None:
    assert await get_weather("Oslo") == "Oslo None c 1"


def test_context_outside_a_tool_says_where_to_call_it() -> None:
    with pytest.raises(OrchestratorError, match="inside the function"):
        context()


def test_pending_holds_what_was_said() -> None:
    assert pending("t", poll=5, deadline=60, message="soon") == ToolResult(
        "pending", data={"token": "t", "poll": 5, "deadline": 60}, message="soon"
    )


def test_a_tool_error_is_a_call_error_with_its_code() -> None:
    error = ToolError("NO_SUCH_CITY", "write another")
    assert (error.code, error.message) == ("NO_SUCH_CITY", "write another")


def test_a_context_is_part_of_a_trace_inside_a_run_only() -> None:
    inside = Context("r1", "1.0", "r1:1.0", labels={})
    assert (Context("r1", "1.0", "r1:1.0").traceparent, inside.traceparent) == ("", traceparent("r1", {}, "tool 1.0"))


WHO: ContextVar[str] = ContextVar("who")


async def test_threads_see_the_context_of_their_own_caller() -> None:
    threads = Threads(4)

    async def as_(name: str) -> tuple[str, str]:
        WHO.set(name)
        on_behalf_of(Context(name, "1.0", f"{name}:1.0"))
        return await threads.run(lambda: (WHO.get(), context().run_id))

    names = [f"run{number}" for number in range(20)]
    assert await asyncio.gather(*map(as_, names)) == [(name, name) for name in names]


async def until(reached: Callable[[], bool]) -> None:
    """Give way to other threads until something is so; the test's own time limit ends it."""
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()
    while not reached():
        loop.call_soon(changed.set)
        await changed.wait()
        changed.clear()


async def test_an_abandoned_thread_is_counted_until_it_ends_and_a_pool_of_such_refuses() -> None:
    threads, gates = Threads(2), [threading.Event() for _ in range(2)]
    before = abandoned()
    begun = [threading.Event() for _ in range(2)]

    def stuck(number: int) -> None:
        begun[number].set()
        gates[number].wait(10)

    calls = [asyncio.ensure_future(threads.run(partial(stuck, number))) for number in range(2)]
    await until(lambda: all(event.is_set() for event in begun))
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert abandoned() == before + 2
    with pytest.raises(Unavailable, match="POOL_FULL"):
        await threads.run(lambda: 1)
    for gate in gates:
        gate.set()
    await until(lambda: abandoned() == before)
    assert await threads.run(lambda: 1) == 1


async def test_a_call_that_finds_no_thread_in_time_was_never_made() -> None:
    threads, gate, made = Threads(1, patience=0.01), threading.Event(), []
    first = asyncio.ensure_future(threads.run(lambda: gate.wait(10)))
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="was free within"):
        await threads.run(lambda: made.append(1))
    gate.set()
    assert await first
    assert await threads.run(lambda: 7) == 7
    assert made == []


async def test_what_a_thread_raises_arrives_and_never_ends_the_loop() -> None:
    threads = Threads(1)

    def raising(error: BaseException) -> None:
        raise error

    for error in (ValueError("x"), StopIteration(), SystemExit(3)):
        with pytest.raises((ValueError, RuntimeError)):
            await threads.run(partial(raising, error))


def test_threads_do_not_hold_up_the_end_of_the_process() -> None:
    async def once() -> bool:
        return await Threads(1).run(lambda: threading.current_thread().daemon)

    assert asyncio.run(once())


def test_a_pool_needs_a_thread() -> None:
    with pytest.raises(ConfigError, match="tool_threads"):
        Threads(0)
