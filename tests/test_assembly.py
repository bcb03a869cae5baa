"""The parts that every door puts together: stores from URLs, requests of others, run ids, and a run driven to its end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from orchestrator.assembly import (
    RunRequest,
    chosen,
    finish,
    make_store,
    new_run_id,
    parse_request,
    secrets_of,
    shipped_tools,
    started,
    submit,
)
from orchestrator.core.events import Decision, Outcome, Waiting
from orchestrator.core.run import replay
from orchestrator.core.spec import ToolResult, ToolSpec
from orchestrator.errors import ConfigError
from orchestrator.model import EndpointModels
from orchestrator.runner import Ports
from orchestrator.settings import AgentSettings, ModelSettings, Price, Settings, redacted
from orchestrator.stores import UNFENCED
from orchestrator.stores.memory import MemoryStore
from orchestrator.stores.sqlite import SqliteStore
from orchestrator.tool import Tool, pending, tool
from orchestrator.toolbox import Toolbox
from tests import build

SETTINGS = Settings(models={"main": ModelSettings(provider="openai", base_url="http://localhost:1/v1", model="m")})


@tool(repeatable=True)
async def order(q: str) -> ToolResult | str:
    """Takes two minutes."""
    if asyncio.get_running_loop().time() < 120:
        return pending("t1", poll=50.0, deadline=3600.0)
    return f"{q} has arrived at the gate"


@tool(requires_approval=True)
async def pay(q: str) -> str:
    """Pays."""
    return f"paid for {q}, receipt 4711"


def ports_for(store: MemoryStore, *tools: Tool, turn: str) -> Ports:
    clock = asyncio.get_running_loop().time
    model = build.ScriptedModel([build.acts(1, (turn, {"q": "it"})), build.final("done")])
    return Ports(store, model, Toolbox(tools, clock=clock), clock=clock)


@pytest.mark.virtual
async def test_a_long_tool_is_waited_for() -> None:
    async with MemoryStore() as store:
        ports = ports_for(store, order, turn="order")
        run_id = await submit(ports, SETTINGS, RunRequest("order it"))
        run = await finish(run_id, ports)
        assert run.ended is not None
        assert run.ended.outcome is Outcome.ANSWERED
        assert "arrived" in run.steps[0].observations[0].content
        assert asyncio.get_running_loop().time() >= 120


@pytest.mark.virtual
async def test_a_decision_that_somebody_appends_is_noticed() -> None:
    async with MemoryStore() as store:
        ports = ports_for(store, pay, turn="pay")
        run_id = await submit(ports, SETTINGS, RunRequest("pay it"))
        driving = asyncio.create_task(finish(run_id, ports))
        await asyncio.sleep(300)
        trace = await store.read(run_id)
        assert isinstance(trace[-1].event, Waiting)
        decision = Decision("1.0", "Ada", "approve")
        await store.append(run_id, len(trace), (decision,), at=ports.clock(), epoch=UNFENCED)
        run = await driving
        assert "receipt 4711" in run.steps[0].observations[0].content


@pytest.mark.virtual
async def test_a_run_that_is_begun_tells_the_observers_and_names_its_model() -> None:
    told = []
    async with MemoryStore() as store:
        ports = Ports(
            store, build.ScriptedModel([]), Toolbox([pay]), observers=(lambda _run, entry: told.append(entry),)
        )
        run_id = await submit(ports, SETTINGS, RunRequest("pay it", max_steps=3, protocol="text"))
        (first,) = await store.read(run_id)
    assert told == [first]
    start = replay([first]).start
    assert (start.agent.models, start.agent.protocol, start.limits.max_steps) == (("main",), "text", 3)


def test_run_ids_sort_by_time_and_are_26_characters() -> None:
    ids = [new_run_id(at) for at in (1.0, 1.5, 1_764_000_000.0, 4_000_000_000.0)]
    assert sorted(ids) == ids
    assert {len(each) for each in ids} == {26}
    assert len({new_run_id(1.0) for _ in range(1000)}) == 1000


def test_a_store_is_made_from_its_url(tmp_path: Path) -> None:
    assert isinstance(make_store("memory"), MemoryStore)
    made = make_store(f"sqlite:///{tmp_path}/deep/down/traces.db")
    assert isinstance(made, SqliteStore)
    assert made.path.parent.is_dir()


@pytest.mark.parametrize("url", ["", "sqlite://", "sqlite:///", "mysql://x", "traces.db"])
def test_what_is_no_store_is_refused_with_what_to_write(url: str) -> None:
    with pytest.raises(ConfigError, match="sqlite:///PATH"):
        make_store(url)


def test_tools_are_chosen_by_name_in_the_order_asked_for() -> None:
    offered = tuple(ToolSpec(name, "", {}) for name in ("a", "b", "c"))
    assert chosen(offered, None) == offered
    assert [spec.name for spec in chosen(offered, ("c", "a", "c"))] == ["c", "a"]
    with pytest.raises(ConfigError, match="no tool d: there are a, b, c"):
        chosen(offered, ("a", "d"))


def test_a_request_of_somebody_else_is_checked() -> None:
    assert parse_request({"goal": "x", "tools": ["a"], "max_steps": 3}, "here").tools == ("a",)
    with pytest.raises(ConfigError, match="here: max_steps"):
        parse_request({"goal": "x", "max_steps": "many"}, "here")


def test_the_shipped_tools_are_in_the_checkout() -> None:
    assert (shipped_tools() / "calculator.py").is_file()


@pytest.mark.parametrize(
    "limits",
    [
        {"max_steps": 0}, {"max_steps": -1}, {"deadline": 0.0}, {"deadline": float("nan")}, {"deadline": float("inf")},
        {"max_tokens": 0}, {"max_cost": 0.0}, {"max_cost": float("nan")},
    ],
    ids=str,
)  # fmt: skip
def test_a_limit_that_limits_nothing_is_refused_by_name(limits: dict[str, Any]) -> None:
    (name,) = limits
    with pytest.raises(ConfigError, match=name):
        started(SETTINGS, (), RunRequest("Who?", **limits))


def test_a_money_limit_needs_a_price_for_every_model_of_the_chain() -> None:
    free = SETTINGS.models["main"]
    priced = free.model_copy(update={"price": Price(input=1.0, output=2.0)})
    agents = {"default": AgentSettings(models=("main", "spare"))}

    def begun(**models: ModelSettings) -> float | None:
        return started(Settings(models=models, agents=agents), (), RunRequest("Who?", max_cost=0.5)).limits.max_cost

    assert begun(main=priced, spare=priced) == 0.5
    with pytest.raises(ConfigError, match="'spare' has no price"):
        begun(main=priced, spare=free)
    with pytest.raises(ConfigError, match="'main' has no price"):
        begun(main=free, spare=priced)


async def test_a_model_that_cannot_be_asked_is_refused_before_the_run_begins() -> None:
    model = ModelSettings(provider="openai", base_url="https://ann:pw@example.com/v1", model="m")
    settings = Settings(models={"main": model})
    async with MemoryStore() as store, EndpointModels(settings) as models:
        with pytest.raises(ConfigError, match="base_url"):
            await submit(Ports(store, models, Toolbox()), settings, RunRequest("Who?"))
        assert await store.runs() == ()


def test_the_stores_password_is_a_secret_and_never_shown() -> None:
    settings = Settings(store="postgresql://ann:hunter%402@db.example.com/traces")
    assert {"hunter%402", "hunter@2"} <= set(secrets_of(settings))
    assert "hunter" not in settings.place + str(redacted(settings))
    assert "db.example.com" in settings.place
    with pytest.raises(ConfigError) as refused:
        make_store("mysql://ann:hunter2@db/traces")
    assert "hunter2" not in str(refused.value)
