"""Schedules: each due time is one submission under a key made of the schedule and the time, whoever makes it first.

So any number of workers may keep the same schedules: the queue's de-duplication by key is all they need to agree.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import structlog

from orchestrator.assembly import RunRequest, new_run_id, started
from orchestrator.core.spec import ToolSpec
from orchestrator.cron import Cron
from orchestrator.dispatch import Dispatcher, Job, needs_of
from orchestrator.errors import ConfigError, StoreError
from orchestrator.settings import Settings

LATE = 600.0
"""Seconds after its time that a schedule is still kept: longer than a restart takes, shorter than most schedules."""
LOOK = 5.0

_log = structlog.stdlib.get_logger("orchestrator.worker")


def read(settings: Settings) -> Mapping[str, Cron]:
    """The schedules of the settings. ConfigError names the one that cannot be read."""
    return {name: Cron.parse(each.cron, f"schedules.{name}.cron") for name, each in settings.schedules.items()}


async def scheduling(
    dispatcher: Dispatcher, settings: Settings, offered: Sequence[ToolSpec], clock: Callable[[], float]
) -> None:
    """Submit what is due, until cancelled. Where the queue is away, or a tool that the agent must have, it is tried again: the key
    makes that harmless."""
    crons = read(settings)
    kept: dict[str, float] = {}
    while crons:
        for name, cron in crons.items():
            now = clock()
            at = cron.last(now, LATE)
            if at is None or kept.get(name) == at:
                continue
            try:
                await submit(dispatcher, settings, offered, name, at=at, now=now)
                kept[name] = at
            except (ConfigError, StoreError) as error:
                _log.warning("schedule_not_kept", schedule=name, error=str(error))
        await asyncio.sleep(LOOK * random.uniform(0.8, 1.2))  # nosec B311  # jitter


async def submit(  # noqa: PLR0913  one schedule at one time
    dispatcher: Dispatcher, settings: Settings, offered: Sequence[ToolSpec], name: str, *, at: float, now: float
) -> None:
    """One run of a schedule, unless it has been submitted already."""
    each = settings.schedules[name]
    question = each.question.replace("{date}", datetime.fromtimestamp(at, UTC).date().isoformat())
    first = started(settings, offered, RunRequest(question, each.agent, tenant=each.tenant, labels={"schedule": name}))
    key = f"schedule:{name}:{at:.0f}"
    job = Job(new_run_id(now), each.tenant, each.priority, key=key, needs=needs_of(first))
    done = await dispatcher.submit(job, first, now=now)
    if done.fresh:
        _log.info("scheduled", schedule=name, run=done.run_id)
