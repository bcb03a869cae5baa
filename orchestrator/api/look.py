"""The operations that look at more than one run: tools, models, and the health metrics of a window."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator

from starlette.responses import Response

from orchestrator.api.operation import Call
from orchestrator.api.runs import tenant_of
from orchestrator.api.state import reply
from orchestrator.api.words import AgentLine, Health, ModelLine, Models, Rate, ToolLine, Tools
from orchestrator.core.measure import Sample
from orchestrator.errors import IllegalEvent
from orchestrator.metrics.recompute import samples
from orchestrator.stores import RunRow, Store

HOUR = 3600.0
MOST = 2000
"""Runs of a window that are looked at, the newest first."""
PAGE = 200

GAPS, ERRORS, BLOAT = (
    "orchestrator_thought_actions_total",
    "orchestrator_error_observations_total",
    "orchestrator_step_bloat_ratio",
)


async def list_tools(call: Call) -> Response:
    """The tools that agents may be offered."""
    rows = [
        ToolLine(
            name=spec.name,
            description=spec.description,
            schema=dict(spec.schema),
            version=spec.version,
            repeatable=spec.repeatable,
            side_effect=spec.side_effect,
            effect=spec.does,
            trusted=spec.trusted,
            requires_approval=spec.requires_approval,
            timeout=spec.timeout,
        )
        for spec in call.service.specs
    ]
    return reply(Tools(tools=rows))


async def list_models(call: Call) -> Response:
    """The models and agents of the settings; no addresses, no keys."""
    settings = call.service.settings
    models = [
        ModelLine(name=name, provider=each.provider, model=each.model, protocol=each.protocol)
        for name, each in settings.models.items()
    ]
    agents = [
        AgentLine(name=name, version=each.version, language=each.language, models=list(each.models))
        for name, each in settings.agents.items()
    ]
    return reply(Models(models=models, agents=agents))


async def get_health(call: Call) -> Response:
    """The three health metrics, recomputed from the traces of the window's runs."""
    query, now = call.query, call.service.clock()
    until = now if query.until is None else query.until
    since = max(0.0, until - HOUR) if query.since is None else query.since
    tenant = None if call.who.tenant is None else tenant_of(call, None)
    return reply(await health(call.service.store, since, until, tenant, query.agent))


async def health(  # noqa: PLR0913, PLR0917  a window, and what is looked at in it
    store: Store, since: float, until: float, tenant: str | None, agent: str | None, most: int = MOST
) -> Health:
    """The metrics of the runs that began in since <= t < until, of the newest `most` of them."""
    sums: defaultdict[tuple[str, str], float] = defaultdict(float)
    counts: Counter[tuple[str, str]] = Counter()
    outcomes: Counter[str] = Counter()
    seen = damaged = 0
    async for row in _rows(store, since, until, tenant, agent):
        seen += 1
        if seen > most:
            break
        outcomes[row.outcome.value if row.outcome else "open"] += 1
        try:
            for sample in samples(await store.read(row.run_id)):
                key = sample.series, _result(sample)
                counts[key] += 1
                sums[key] += sample.value
        except IllegalEvent:
            damaged += 1
        await asyncio.sleep(0)
    gaps = counts[GAPS, "gap"] + counts[GAPS, "narrated"]
    return Health(
        since=since,
        until=until,
        runs=min(seen, most),
        complete=seen <= most,
        damaged=damaged,
        thought_action_gap=_rate(gaps, gaps + counts[GAPS, "match"]),
        error_propagation=_rate(counts[ERRORS, "propagated"], counts[ERRORS, "propagated"] + counts[ERRORS, "ignored"]),
        step_bloat=_rate(sums[BLOAT, ""], counts[BLOAT, ""]),
        outcomes=dict(sorted(outcomes.items())),
    )


async def _rows(
    store: Store, since: float, until: float, tenant: str | None, agent: str | None
) -> AsyncIterator[RunRow]:
    after = None
    while page := await store.runs(since=since, until=until, tenant=tenant, agent=agent, after=after, limit=PAGE):
        for row in page:
            yield row
        after = page[-1].key


def _result(sample: Sample) -> str:
    return sample.labels.get("result", "")


def _rate(over: float, under: int) -> Rate:
    return Rate(value=over / under if under else None, of=under)
