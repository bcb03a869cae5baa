"""`submit` and `watch`: runs that a worker drives, begun and followed from a terminal, on the store or through an API."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.agent import Result
from orchestrator.assembly import RunRequest
from orchestrator.cli.batch import read
from orchestrator.cli.context import Context, context, say, say_json, spin
from orchestrator.cli.door import ApiToken, Asked, Door, Url, open_door
from orchestrator.cli.exits import Exit
from orchestrator.cli.live import View
from orchestrator.cli.queue import moment
from orchestrator.cli.run import (
    AgentName,
    AsJson,
    Deadline,
    LanguageName,
    MaxSteps,
    ModelName,
    ProtocolName,
    Quiet,
    ToolNames,
    names,
    plain_result,
    report,
)
from orchestrator.cli.trace import RunId
from orchestrator.core.events import Outcome
from orchestrator.core.run import Run, evolve
from orchestrator.errors import ConfigError


def submit(  # noqa: PLR0913  one argument for each option of the command line
    typed: typer.Context,
    question: Annotated[str | None, typer.Argument(help="What the agent is to find out or do.")] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Many questions, one JSON object a line, as `batch` reads them.")
    ] = None,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            "-w",
            help="Until it has ended: the answer on stdout, exit code as `run`; of a file, a JSON line each.",
        ),
    ] = False,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", help="The same key again gives back the first run and begins no other; with a file, key and id."
        ),
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", help="Not before: 2026-12-24T18:00 (with +01:00, or UTC), or +90m, +2h, +1d.")
    ] = None,
    priority: Annotated[int, typer.Option("--priority", help="Larger goes first.")] = 0,
    tenant: Annotated[str, typer.Option("--tenant", help="On whose account.")] = "",
    agent: AgentName = "default",
    model: ModelName = None,
    protocol: ProtocolName = None,
    language: LanguageName = None,
    tools: ToolNames = None,
    max_steps: MaxSteps = None,
    deadline: Deadline = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    url: Url = None,
    api_token: ApiToken = None,
) -> None:
    """Queue a run, or a file of them, for the workers on the same store, or of an API. The ids are on stdout, one a line."""
    usual = RunRequest(
        question or "",
        agent,
        model=model,
        protocol=protocol,
        language=language,
        tools=names(tools),
        max_steps=max_steps,
        deadline=deadline,
        tenant=tenant,
    )
    if (question is None) == (file is None):
        raise ConfigError("write either a question or --file FILE")
    due = 0.0 if at is None else moment(at, time.time())
    asked = [Asked(request, name, due, priority) for name, request in _named(usual, key, file)]
    waiting = _Waiting(many=file is not None, as_json=as_json, quiet=quiet) if wait else None
    raise typer.Exit(spin(_submit(context(typed), asked, waiting, url, api_token)))


def watch(typed: typer.Context, run_id: RunId, *, url: Url = None, api_token: ApiToken = None) -> None:
    """Follow a run from its beginning to its end, as it happens. The answer is on stdout, the rest on stderr."""

    async def work() -> Exit:
        ctx = context(typed)
        async with open_door(ctx, url, api_token) as door:
            return report(ctx, run_id, await followed(door, run_id, View(ctx.err)), as_json=False)

    raise typer.Exit(spin(work()))


async def followed(door: Door, run_id: str, view: View | None) -> Run:
    """The run once it has ended, seen on the view meanwhile."""
    run = Run()
    async with aclosing(door.entries(run_id)) as entries:
        async for entry in entries:
            if view is not None:
                view.entry(run, entry)
            run = evolve(run, entry)
    return run


@dataclass(frozen=True, slots=True)
class _Waiting:
    """How somebody waits: for a file of runs or for one, and what of it is shown."""

    many: bool
    as_json: bool
    quiet: bool


def _named(usual: RunRequest, key: str | None, file: Path | None) -> Iterator[tuple[str | None, RunRequest]]:
    """The requests, each with the key under which it is begun once."""
    if file is None:
        yield key, usual
        return
    for task in read(file, usual):
        yield key and f"{key}:{task.id}", task.request


async def _submit(
    ctx: Context, asked: Sequence[Asked], waiting: _Waiting | None, url: str | None, token: str | None
) -> Exit:
    async with open_door(ctx, url, token) as door:
        if waiting is None:
            async for run_id in door.submit(asked):
                say(run_id)
            return Exit.ANSWERED
        run_ids = [run_id async for run_id in door.submit(asked)]
        if await door.idle():
            ctx.err.print("no worker is alive on this store: start one with: orchestrator worker", style="yellow")
        if waiting.many:
            return await _all_ended(door, run_ids)
        run = await followed(door, run_ids[0], None if waiting.quiet else View(ctx.err))
        return report(ctx, run_ids[0], run, as_json=waiting.as_json)


async def _all_ended(door: Door, run_ids: Sequence[str]) -> Exit:
    """One after the other: they are driven side by side all the same."""
    outcomes: set[Outcome | None] = set()
    for run_id in run_ids:
        result = Result.of(await followed(door, run_id, None))
        say_json(plain_result(result), indent=None)
        outcomes.add(result.outcome)
    return Exit.ANSWERED if outcomes <= {Outcome.ANSWERED} else Exit.FAILED
