"""Tenants: runs at once over all workers, and tokens of a day."""

from __future__ import annotations

import asyncio

import pytest

from orchestrator.core.events import Outcome
from orchestrator.core.spec import Limits
from orchestrator.dispatch import DispatchRules
from orchestrator.errors import ConfigError
from orchestrator.settings import ModelSettings, Settings, TenantSettings
from orchestrator.worker.tenants import metered, remember
from tests.build import ScriptedModel, acts, final
from tests.worker.station import clock, station, working
from tests.worker.test_work import SlowModel

TURN = 20
SMALL = Limits(deadline=None, max_output=80, max_output_cap=80)


def settings(**tenants: TenantSettings) -> Settings:
    return Settings.model_construct(tenants=tenants, models={})


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
        assert paid.ledger.budget("acme", clock()).spent.tokens == 2 * TURN  # type: ignore[attr-defined]


def test_models_are_not_metered_where_no_tenant_has_a_budget() -> None:
    model = ScriptedModel([final()])
    assert metered(model, settings(acme=TenantSettings(concurrency=3)), float) is model


def test_an_unknown_price_is_an_error_where_money_is_counted() -> None:
    model = ModelSettings(provider="openai", base_url="http://localhost:1/v1", model="m")
    with pytest.raises(ValueError, match=r"cost_per_day needs a price.*models\.main has none"):
        Settings(models={"main": model}, tenants={"acme": TenantSettings(cost_per_day=1.0)})
    assert issubclass(ConfigError, Exception)
