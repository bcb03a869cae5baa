"""The tenants' days: tokens and money reserved before each model call and settled after it, whatever became of it.

A worker counts what it spends itself, and at its start what the traces say was spent today. Workers do not see each other's
spending while they run: with n workers a tenant may overdraw by what the others spend until the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from orchestrator.core.decide import AskModel
from orchestrator.core.events import ModelTurn
from orchestrator.core.run import Run
from orchestrator.model import Listen, Model, Models
from orchestrator.policy import Allowance, Amount, Ledger, Price, actual, estimate
from orchestrator.policy.budget import DAY
from orchestrator.settings import Settings
from orchestrator.stores import Store


@dataclass(frozen=True, slots=True)
class Metered:
    """Models whose calls are paid from a Ledger. `prices` by the models' names in the settings."""

    models: Models
    ledger: Ledger
    prices: Mapping[str, Price]
    clock: Callable[[], float]

    def open(self, run: Run) -> Model:
        """The run's Model, metered."""
        return _Metered(self.models.open(run), self)


@dataclass(frozen=True, slots=True)
class _Metered:
    model: Model
    meter: Metered

    async def turn(self, run: Run, ask: AskModel, listen: Listen) -> ModelTurn:
        """As the Model's. Raises Rejected (OUT_OF_BUDGET) when the tenant's day has not so much left."""
        meter, start = self.meter, run.start
        known = [meter.prices[name] for name in start.agent.models if name in meter.prices]
        price = max(known, key=lambda each: each.input + each.output, default=None)
        amount = estimate(run.last_usage.input_tokens, ask.max_output, price)
        reserved = meter.ledger.reserve(start.tenant, amount, meter.clock())
        spent = Amount()
        try:
            turn = await self.model.turn(run, ask, listen)
            spent = actual(turn.usage, meter.prices.get(turn.model))
            return turn
        finally:
            meter.ledger.settle(reserved, spent)


def metered(models: Models, settings: Settings, clock: Callable[[], float]) -> Models:
    """The models, held to the tenants' budgets; as they are where no tenant has one."""
    allowances = {
        name: Allowance(tenant.tokens_per_day, tenant.cost_per_day)
        for name, tenant in settings.tenants.items()
        if tenant.tokens_per_day is not None or tenant.cost_per_day is not None
    }
    if not allowances:
        return models
    prices = {name: Price(**model.price.model_dump()) for name, model in settings.models.items() if model.price}
    return Metered(models, Ledger(allowances), prices, clock)


async def remember(models: Models, store: Store) -> None:
    """Book what the traces of budgeted tenants say was spent today, by other processes or before a restart."""
    if not isinstance(models, Metered):
        return
    now = models.clock()
    midnight = now // DAY * DAY
    for tenant in models.ledger.allowances:
        after = None
        while page := await store.runs(tenant=tenant, since=midnight - DAY, after=after, limit=500):
            for row in page:
                if row.last_at >= midnight:
                    models.ledger.spend(tenant, await _spent(store, row.run_id, midnight, models.prices), now)
            after = page[-1].key


async def _spent(store: Store, run_id: str, since: float, prices: Mapping[str, Price]) -> Amount:
    total = Amount()
    for entry in await store.read(run_id):
        if entry.at >= since and isinstance(entry.event, ModelTurn):
            total += actual(entry.event.usage, prices.get(entry.event.model))
    return total
