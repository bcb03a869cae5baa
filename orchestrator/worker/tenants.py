"""The tenants' days: tokens and money reserved before each model call and settled after it, whatever became of it.

A worker counts what it spends itself; what others spend it reads from their traces, at its start and every few seconds
(`elsewhere.py`, which says by how much a tenant may overdraw).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from orchestrator.core.decide import AskModel
from orchestrator.core.events import ModelTurn
from orchestrator.core.run import Run
from orchestrator.model import Listen, Model, Models
from orchestrator.policy import Allowance, Amount, Ledger, Price, actual, estimate
from orchestrator.settings import Settings


@dataclass(frozen=True, slots=True)
class Metered:
    """Models whose calls are paid from a Ledger. `prices` by the models' names in the settings.

    `own`: by run, the steps of budgeted tenants whose turns are booked here and were not yet met in the trace.
    """

    models: Models
    ledger: Ledger
    prices: Mapping[str, Price]
    clock: Callable[[], float]
    own: dict[str, set[int]] = field(default_factory=dict)

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
            if start.tenant in meter.ledger.allowances:
                meter.own.setdefault(run.run_id, set()).add(run.step)
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
