"""The in-process Agent, against the demo model server; and the parts that every door puts together."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from orchestrator.agent import Agent
from orchestrator.core.events import Observation, Outcome, RunEnded, RunStarted
from orchestrator.demo.server import serve
from orchestrator.errors import ConfigError, StoreError
from orchestrator.log import log_entry
from orchestrator.settings import ModelSettings, Settings
from orchestrator.stores.memory import MemoryStore
from orchestrator.tool import tool

TWO_HOPS = "《三体》的作者出生在哪个省？该省的人口是多少？"


@tool(repeatable=True)
def search(entity: str) -> dict[str, Any]:
    """Get the entry of one entity."""
    return {"entity": entity, "fields": {"作者": "刘慈欣"}}


@pytest.fixture
async def model() -> AsyncIterator[ModelSettings]:
    async with serve() as server:
        yield ModelSettings(provider="openai", base_url=f"{server.url}/v1", model="demo")


async def test_a_question_becomes_an_answer(model: ModelSettings) -> None:
    async with Agent(settings=Settings(), model=model, store="memory") as agent:
        result = await agent.run(TWO_HOPS)
    assert (result.outcome, result.steps) == (Outcome.ANSWERED, 3)
    assert "3491" in (result.answer or "")
    assert result.usage.tokens > 0


async def test_both_protocols_run_on_one_agent(model: ModelSettings) -> None:
    async with Agent(settings=Settings(), model=model, store="memory") as agent:
        result = await agent.run(TWO_HOPS, protocol="text", language="zh")
    assert (result.outcome, result.steps) == (Outcome.ANSWERED, 5)


async def test_own_tools_replace_the_shipped_ones(model: ModelSettings) -> None:
    async with Agent(settings=Settings(), model=model, store="memory", tools=[search]) as agent:
        entries = [entry async for entry in agent.stream("《三体》的作者是谁？")]
    first = entries[0].event
    assert isinstance(first, RunStarted)
    assert [spec.name for spec in first.tools] == ["search"]
    assert any(isinstance(entry.event, Observation) and "刘慈欣" in entry.event.content for entry in entries)


async def test_the_settings_word_on_a_tool_holds_for_own_tools_as_for_a_workers(model: ModelSettings) -> None:
    overrides = {"search": {"effect": "write", "requires_approval": True}, "another_workers": {"effect": "read"}}
    limits = {"search": {"at_once": 3}}
    settings = Settings.model_validate({"tool_overrides": overrides, "tool_limits": limits})
    async with Agent(settings=settings, model=model, store="memory", tools=[search]) as agent:
        run_id = await agent.submit("《三体》的作者是谁？")
        ports = agent._entered()
        first = (await ports.store.read(run_id))[0].event
        assert isinstance(first, RunStarted)
        assert [(spec.name, spec.does, spec.requires_approval) for spec in first.tools] == [("search", "write", True)]
        assert ports.toolbox.guarded["search"].limiter is not None
    assert not search.spec.requires_approval, "another Agent's settings say otherwise"


async def test_what_is_streamed_is_what_is_stored(model: ModelSettings) -> None:
    async with MemoryStore() as store, Agent(settings=Settings(), model=model, store=store) as agent:
        streamed = tuple([entry async for entry in agent.stream(TWO_HOPS)])
        assert streamed == await store.read(streamed[0].run_id)
    assert isinstance(streamed[-1].event, RunEnded)


async def test_a_stream_that_is_left_can_be_resumed(model: ModelSettings) -> None:
    async with MemoryStore() as store, Agent(settings=Settings(), model=model, store=store) as agent:
        stream = agent.stream(TWO_HOPS)
        first = await anext(stream)
        await stream.aclose()
        result = await agent.resume(first.run_id)
        assert result.outcome is Outcome.ANSWERED
        assert await agent.resume(first.run_id) == result


async def test_observers_are_told_of_every_entry(model: ModelSettings) -> None:
    told: list[int] = []
    observers = (lambda _run, entry: told.append(entry.seq), log_entry)
    async with (
        MemoryStore() as store,
        Agent(settings=Settings(), model=model, store=store, observers=observers) as agent,
    ):
        result = await agent.run(TWO_HOPS)
        assert told == [entry.seq for entry in await store.read(result.run_id)]


async def test_an_unknown_run_cannot_be_resumed(model: ModelSettings) -> None:
    async with Agent(settings=Settings(), model=model, store="memory") as agent:
        with pytest.raises(StoreError, match="no run 'nothing'"):
            await agent.resume("nothing")


async def test_an_agent_must_be_opened_first(model: ModelSettings) -> None:
    with pytest.raises(ConfigError, match="async with"):
        await Agent(settings=Settings(), model=model, store="memory").run("x")


async def test_a_change_that_is_none_is_named(model: ModelSettings) -> None:
    async with Agent(settings=Settings(), model=model, store="memory") as agent:
        with pytest.raises(ConfigError, match="max_step"):
            await agent.run("x", max_step=1)


@pytest.mark.parametrize("given", [{"name": "nobody"}, {"model": "nobody"}])
def test_an_agent_of_unknown_parts_is_refused_at_once(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="nobody"):
        Agent(settings=Settings(), **given)


async def test_every_change_that_cannot_be_is_one_error_of_ours(model: ModelSettings) -> None:
    async with Agent(model=model, store="memory") as agent:
        for changes, told in (
            ({"goal": "another"}, "'goal' cannot be changed for one run; these can: agent, deadline, instructions"),
            ({"max_steps": "many"}, "the request: max_steps: Input should be a valid integer"),
            ({"protocol": "smoke"}, "the request: protocol: Input should be 'native' or 'text'"),
            ({"tools": "search"}, "the request: tools: Input should be a valid tuple"),
            ({"labels": 3}, "the request: labels: Input should be"),
        ):
            with pytest.raises(ConfigError, match=re.escape(told)):
                await agent.run("x", **changes)
        with pytest.raises(ConfigError, match="the request: goal: Input should be a valid string"):
            await agent.run(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("tools", [[len], "search", [lambda q: q], [None]])
def test_a_function_without_its_decorator_is_told_to_be_no_tool(model: ModelSettings, tools: Any) -> None:
    with pytest.raises(ConfigError, match="is no tool; put @tool over the function"):
        Agent(model=model, store="memory", tools=tools)


def test_settings_that_are_a_path_are_told_how_they_are_read(model: ModelSettings) -> None:
    with pytest.raises(ConfigError, match=re.escape("settings is 'orchestrator.toml': write Settings.load(PATH)")):
        Agent(settings="orchestrator.toml", model=model)  # type: ignore[arg-type]
