"""Tenants: runs at once over all workers, and tokens of a day."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from orchestrator.core.events import ModelTurn, Outcome, Trace
from orchestrator.core.spec import Limits
from orchestrator.dispatch import DispatchRules
from orchestrator.errors import ConfigError
from orchestrator.model import Models
from orchestrator.settings import ModelSettings, Settings, TenantSettings
from orchestrator.stores.memory import MemoryStore
from orchestrator.worker import WorkerRules
from orchestrator.worker.elsewhere import Elsewhere, remember
from orchestrator.worker.tenants import Metered, metered
from tests.build import ScriptedModel, acts, final
from tests.worker.station import clock, station, working
from tests.worker.test_work import SlowModel

TURN = 20
SMALL = Limits(deadline=None, max_output=80, max_output_cap=80)


def settings(**tenants: TenantSettings) -> Settings:
    return Settings.model_construct(tenants=tenants, models={})


class Counting(MemoryStore):
    """Counts the traces that are read."""

    reads = 0

    async def read(self, run_id: str, after: int = 0) -> Trace:
        self.reads += 1
        return await super().read(run_id, after)


def budgeted(model: Models, tokens: int = 10_000) -> Metered:
    found = metered(model, settings(acme=TenantSettings(tokens_per_day=tokens)), clock)
    assert isinstance(found, Metered)
    return found


def spent(models: Models) -> int:
    assert isinstance(models, Metered)
    return models.ledger.budget("acme", clock()).spent.tokens


@pytest.mark.virtual
async def test_a_tenant_has_no_more_runs_at_once_than_its_limit_and_no_other_waits_for_it() -> None:
    rules = DispatchRules(tenant_limits={"big": 2})
    async with station([final()], rules=rules) as place:
        await place.submit(*(f"big{n}" for n in range(6)), tenant="big")
        await place.submit("small", tenant="small")
        model = SlowModel([final()], seconds=10)
        async with working(place, models=model):
            await asyncio.sleep(5)
            assert model.begun == 3
            await place.ended("small", *(f"big{n}" for n in range(6)), within=100)
            assert clock() >= 29


@pytest.mark.virtual
async def test_a_day_that_is_spent_ends_runs_by_that_name_and_tomorrow_is_another() -> None:
    script = [acts(1, ("look", {"q": "a"})), final()]
    async with station(script) as place:
        paid = metered(ScriptedModel(script), settings(acme=TenantSettings(tokens_per_day=100)), clock)
        await place.submit("a1", tenant="acme", limits=SMALL)
        async with working(place, models=paid):
            (first,) = await place.ended("a1")
            assert (first.outcome, first.code) == (Outcome.OUT_OF_BUDGET, "OUT_OF_BUDGET")
            await place.submit("b1", tenant="other", limits=SMALL)
            assert [end.outcome for end in await place.ended("b1")] == [Outcome.ANSWERED]


@pytest.mark.virtual
async def test_what_was_spent_before_a_restart_is_remembered() -> None:
    script = [acts(1, ("look", {"q": "a"})), final()]
    async with station(script) as place:
        await place.submit("a1", tenant="acme", limits=SMALL)
        async with working(place):
            await place.ended("a1")
        paid = metered(ScriptedModel(script), settings(acme=TenantSettings(tokens_per_day=100)), clock)
        await remember(paid, place.store)
        assert spent(paid) == 2 * TURN


@pytest.mark.virtual
async def test_workers_on_one_store_agree_about_what_a_day_has_spent() -> None:
    """Three workers, twelve runs of three slow turns: whenever each has looked, each knows of every turn, and of none twice."""
    script = [acts(1, ("look", {"q": "a"})), acts(2, ("look", {"q": "b"})), final()]
    names = [f"a{n}" for n in range(12)]
    async with station(script) as place, AsyncExitStack() as stack:
        paid = [budgeted(SlowModel(script, seconds=7)) for _ in range(3)]
        looks = [(await seeing(each, place.store)).look for each in paid]
        for each in paid:
            await stack.enter_async_context(working(place, models=each, rules=WorkerRules(concurrency=4)))
        await place.submit(*names, tenant="acme", limits=SMALL)
        for _ in range(3):
            await asyncio.sleep(9)
            for look in looks:
                await look()
            turns = [entry.event for name in names for entry in await place.store.read(name)]
            assert {spent(each) for each in paid} == {TURN * sum(isinstance(each, ModelTurn) for each in turns)}
        await place.ended(*names)
        for look in looks:
            await look()
        assert [spent(each) for each in paid] == [12 * 3 * TURN] * 3
        assert not any(each.own for each in paid)


@pytest.mark.virtual
async def test_a_run_that_changes_hands_is_booked_once() -> None:
    script = [acts(1, ("look", {"q": "a"})), acts(2, ("look", {"q": "b"})), final()]
    async with station(script) as place:
        one, two = budgeted(SlowModel(script, seconds=7)), budgeted(SlowModel(script, seconds=7))
        first, second = await seeing(one, place.store), await seeing(two, place.store)
        await place.submit("a1", tenant="acme", limits=SMALL)
        async with working(place, models=one):
            await asyncio.sleep(10)
        await second.look()
        async with working(place, models=two):
            await place.ended("a1")
        await first.look()
        await second.look()
        assert (spent(one), spent(two)) == (3 * TURN, 3 * TURN)


@pytest.mark.virtual
async def test_a_lone_worker_reads_no_trace_for_its_budgets() -> None:
    script = [acts(1, ("look", {"q": "a"})), final()]
    async with station(script, store=Counting()) as place:
        paid = budgeted(ScriptedModel(script))
        elsewhere = await seeing(paid, place.store)
        await place.submit("a1", "a2", tenant="acme", limits=SMALL)
        async with working(place, models=paid):
            await place.ended("a1", "a2")
        assert isinstance(place.store, Counting)
        before = place.store.reads
        await elsewhere.look()
        await elsewhere.look()
        assert (place.store.reads, spent(paid)) == (before, 4 * TURN)


@pytest.mark.virtual
async def test_yesterday_is_not_todays() -> None:
    script = [acts(1, ("look", {"q": "a"})), final()]
    async with station(script) as place:
        paid = budgeted(ScriptedModel(script))
        elsewhere = await seeing(paid, place.store)
        await place.submit("a1", tenant="acme", limits=SMALL)
        async with working(place):
            await place.ended("a1")
        await asyncio.sleep(86_400)
        await elsewhere.look()
        assert spent(paid) == 0


async def seeing(models: Metered, store: MemoryStore) -> Elsewhere:
    found = await remember(models, store)
    assert found is not None
    return found


def test_models_are_not_metered_where_no_tenant_has_a_budget() -> None:
    model = ScriptedModel([final()])
    assert metered(model, settings(acme=TenantSettings(concurrency=3)), float) is model


def test_an_unknown_price_is_an_error_where_money_is_counted() -> None:
    model = ModelSettings(provider="openai", base_url="http://localhost:1/v1", model="m")
    with pytest.raises(ValueError, match=r"cost_per_day needs a price.*models\.main has none"):
        Settings(models={"main": model}, tenants={"acme": TenantSettings(cost_per_day=1.0)})
    assert issubclass(ConfigError, Exception)
