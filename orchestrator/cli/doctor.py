"""`doctor`, `config show` and `version`: is everything there, and what does this process believe?"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from bisect import insort
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from importlib.metadata import version as installed
from math import ceil

import typer

from orchestrator.assembly import make_store, open_toolbox
from orchestrator.cli.context import Context, context, say, say_json, spin
from orchestrator.cli.exits import Exit
from orchestrator.cli.meant import Check, of_others, of_tools, of_variables
from orchestrator.cli.run import AsJson
from orchestrator.core.decide import AskModel
from orchestrator.core.events import Entry, Observation, RunStarted
from orchestrator.core.run import replay
from orchestrator.core.spec import AgentSpec, Limits, ToolSpec
from orchestrator.errors import CallError, OrchestratorError
from orchestrator.metrics.slow import ADVICE, SHARE, slow
from orchestrator.model import EndpointModels
from orchestrator.permission_settings import idle
from orchestrator.settings import Settings, redacted
from orchestrator.show import counted

PATIENCE = 30.0
"""Seconds that a probe of a model may take."""
NEWEST = 200
"""Runs whose tool calls are looked at."""

OPTIONS = frozenset(
    f"ORCHESTRATOR_{name}"
    for name in ("CONFIG", "AGENT", "MODEL", "PROTOCOL", "LANGUAGE", "MAX_STEPS", "DEADLINE", "URL", "TOKEN")
)
"""Variables of options that are no settings."""

config = typer.Typer(help="What the settings come to.", no_args_is_help=True)


@config.command("show")
def show(typed: typer.Context) -> None:
    """All settings as JSON, secrets as asterisks."""
    say_json(redacted(context(typed).settings))


def version() -> None:
    """The version of the orchestrator, and of Python."""
    say(f"orchestrator {installed('orchestrator')}, Python {platform.python_version()}")


def doctor(typed: typer.Context, *, as_json: AsJson = False) -> None:
    """Probe the settings, the store, the tools, and each model with one short question."""
    raise typer.Exit(spin(_doctor(context(typed), as_json=as_json)))


async def _doctor(ctx: Context, *, as_json: bool) -> Exit:
    checks = [check async for check in _checks(ctx)]
    if as_json:
        say_json([check.line for check in checks])
    else:
        width = max(len(check.name) for check in checks)
        say("\n".join(f"{check.mark:<4}  {check.name:<{width}}  {check.detail}" for check in checks))
    return Exit.ANSWERED if all(check.ok for check in checks) else Exit.FAILED


async def _checks(ctx: Context) -> AsyncIterator[Check]:
    try:
        settings = ctx.settings
    except OrchestratorError as error:
        yield Check("settings", ok=False, detail=str(error))
        return
    found = f"{counted(len(settings.agents), 'agent')}, {counted(len(settings.models), 'model')}"
    yield Check("settings", ok=True, detail=found)
    for check in of_variables(os.environ, OPTIONS):
        yield check
    async for check in of_others(settings):
        yield check
    yield await _store(settings)
    specs, checks = await _tools(settings)
    for check in (*checks, *await _slow(settings, specs)):
        yield check
    if not settings.models:
        yield Check("models", ok=False, detail="none: set OPENAI_BASE_URL and OPENAI_MODEL (or the ANTHROPIC_ ones)")
    async with EndpointModels(settings) as models:
        for check in await asyncio.gather(*(_model(models, settings, name) for name in settings.models)):
            yield check


async def _store(settings: Settings) -> Check:
    place = settings.store.rpartition("@")[2]
    try:
        async with make_store(settings.store) as store:
            newest = await store.runs(limit=1)
    except OrchestratorError as error:
        return Check("store", ok=False, detail=str(error))
    return Check("store", ok=True, detail=f"{place}, newest run {newest[0].run_id if newest else 'none yet'}")


async def _tools(settings: Settings) -> tuple[tuple[ToolSpec, ...], list[Check]]:
    """The tools; whether there are any, what of the MCP servers is not there, and which rules mean none of them."""
    try:
        async with open_toolbox(settings) as toolbox:
            specs, absent = toolbox.specs, dict(toolbox.absent)
    except OrchestratorError as error:
        return (), [Check("tools", ok=False, detail=str(error))]
    found = Check("tools", ok=bool(specs), detail=f"{len(specs)}: {', '.join(spec.name for spec in specs)}")
    unasked = tuple(f"mcp__{name}__" for name, server in settings.mcp.items() if server.tools == "*")
    return specs, [
        found,
        *(Check(name, name.startswith(unasked) and name not in unasked, why) for name, why in absent.items()),
        *of_tools(settings, specs, absent),
        *_idle(settings, specs, absent),
    ]


def _idle(settings: Settings, specs: Sequence[ToolSpec], absent: Collection[str]) -> Iterator[Check]:
    """A rule for tools that no worker with these settings has is perhaps a slip of the pen."""
    for rule, glob in idle(settings.permissions, [spec.name for spec in specs], absent):
        told = f"{glob!r} in its `tools` matches no tool here; `orchestrator tools list` has their names"
        yield Check(f"permissions: {rule}", ok=True, detail=told, advice=True)


async def _slow(settings: Settings, specs: Sequence[ToolSpec]) -> list[Check]:
    """Tools that hold runs up, by the newest runs of the store: advice, no fault."""
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    try:
        async with make_store(settings.store) as store:
            for row in await store.runs(limit=NEWEST):
                for entry in await store.read(row.run_id):
                    if isinstance(entry.event, Observation) and entry.event.seconds:
                        insort(seconds[entry.event.tool], entry.event.seconds)
    except OrchestratorError:
        seconds.clear()  # the check of the store has said it

    def measured(tool: str) -> tuple[int, float]:
        calls = seconds.get(tool, [])
        return len(calls), calls[ceil(SHARE * len(calls)) - 1] if calls else 0.0

    advised = slow(specs, measured)
    return [Check(f"slow: {each.tool}", ok=True, detail=f"{each.why}; {ADVICE}", advice=True) for each in advised]


async def _model(models: EndpointModels, settings: Settings, name: str) -> Check:
    """One question without tools, straight through codec and endpoint."""
    found = settings.model(name)
    agent = AgentSpec(name="doctor", models=(name,), protocol=found.protocol)
    limits = Limits(deadline=PATIENCE)
    run = replay((Entry("doctor", 1, time.time(), RunStarted("Say the word ready.", agent, limits)),))
    label, place = f"model {name}", f"{found.model} at {found.base_url}"
    try:
        async with asyncio.timeout(PATIENCE):
            turn = await models.open(run).turn(run, AskModel(limits.max_output), lambda _: None)
    except TimeoutError:
        return Check(label, ok=False, detail=f"{place}: no reply within {PATIENCE:g} s")
    except CallError as error:
        return Check(label, ok=False, detail=f"{place}: {error}")
    return Check(label, ok=True, detail=f"{place}: replied in {turn.seconds:.2f} s, stop reason {turn.stop}")
