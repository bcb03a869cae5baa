"""`show`, `replay` and `runs`: what is stored, read back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from orchestrator.assembly import make_store
from orchestrator.cli.context import Context, context, say, say_json, spin
from orchestrator.cli.exits import Exit
from orchestrator.cli.run import AsJson
from orchestrator.core.decide import Record, decide
from orchestrator.core.events import Entry, Observation, Outcome, RunEnded, Trace
from orchestrator.core.run import Run, evolve
from orchestrator.errors import IllegalEvent, StoreError
from orchestrator.show import figures, plain, tree, when
from orchestrator.stores import Ended, RunRow, Store
from orchestrator.stores.record import dump_entry

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The id that `run` and `runs` print.")]


def show(
    typed: typer.Context,
    run_id: RunId,
    *,
    raw: Annotated[bool, typer.Option("--raw", help="Also the bodies as the tools sent them.")] = False,
    whole: Annotated[bool, typer.Option("--whole", help="Texts at full length.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The Trace as JSON lines, one Entry each.")] = False,
) -> None:
    """The Trace of a run as a tree: times, tokens, errors, anomalies."""
    spin(_show(context(typed), run_id, raw=raw, whole=whole, as_json=as_json))


def replay(typed: typer.Context, run_id: RunId, *, as_json: AsJson = False) -> None:
    """Recompute a run from its Trace and check that it equals what was stored."""
    raise typer.Exit(spin(_replay(context(typed), run_id, as_json=as_json)))


def runs(  # noqa: PLR0913  one argument for each option of the command line
    typed: typer.Context,
    *,
    outcome: Annotated[Outcome | None, typer.Option("--outcome", help="Only runs that ended so.")] = None,
    opened: Annotated[bool, typer.Option("--open", help="Only runs that have not ended.")] = False,
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="Only runs of this agent.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, the newest first.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """List runs, the newest first."""
    rows = spin(_rows(context(typed), "open" if opened else outcome, agent, limit))
    if as_json:
        for row in rows:
            say_json(asdict(row), indent=None)
        return
    table = Table(box=None, pad_edge=False)
    for column in ("run", "started", "outcome", "steps", "agent", "question"):
        table.add_column(column, overflow="fold", no_wrap=column == "run")
    for row in rows:
        ended = row.outcome.value if row.outcome else "open"
        table.add_row(
            row.run_id, when(row.started_at), ended, str(row.steps), Text(plain(row.agent)), Text(plain(row.goal))
        )
    context(typed).out.print(table)
    if not rows:
        wanted = opened or outcome or agent
        context(typed).err.print(
            f"no {'such ' if wanted else ''}runs in {context(typed).settings.place} (from {Path.cwd()})", style="yellow"
        )


async def _show(ctx: Context, run_id: str, *, raw: bool, whole: bool, as_json: bool) -> None:
    async with _store(ctx) as store:
        trace = await _trace(ctx, store, run_id)
        if as_json:
            say("\n".join(dump_entry(entry).decode() for entry in trace))
            return
        digests = (
            {e.event.digest for e in trace if isinstance(e.event, Observation) and e.event.digest} if raw else set()
        )
        bodies = {digest: await store.blob(digest) for digest in digests}
        found = {digest: body for digest, body in bodies.items() if body is not None}
        ctx.out.print(tree(trace, whole=whole or raw, raw=found))


async def _replay(ctx: Context, run_id: str, *, as_json: bool) -> Exit:
    async with _store(ctx) as store:
        trace, row = await _trace(ctx, store, run_id), await store.row(run_id)
    run, problems = check(trace, row)
    if as_json:
        outcome = run.ended.outcome if run.ended else None
        say_json(
            {"run_id": run_id, "entries": len(trace), "outcome": outcome, "equal": not problems, "problems": problems}
        )
    else:
        state = run.ended.outcome.value if run.ended else "open"
        say(f"run {run_id}: {len(trace)} entries, {state}, {figures(run)}")
        say(
            "\n".join(problems)
            if problems
            else "equal: the state recomputed from the Trace is the state that was stored"
        )
    return Exit.FAILED if problems else Exit.ANSWERED


def check(trace: Trace, row: RunRow | None) -> tuple[Run, list[str]]:
    """The run as recomputed, and every way in which the stored Trace or its row in the index differs from it."""
    run = Run()
    problems: list[str] = []
    for entry in trace:
        try:
            after = evolve(run, entry)
        except IllegalEvent as error:
            return run, [*problems, f"IllegalEvent: {error}"]
        problems += _undecided(run, entry)
        run = after
    return run, [*problems, *_different(run, row)]


def _undecided(run: Run, entry: Entry) -> Iterator[str]:
    """A run ends only as the ladder says. The model's failure is the shell's to record, so it is not asked for."""
    event = entry.event
    if not isinstance(event, RunEnded) or event.outcome is Outcome.MODEL_FAILED:
        return
    commands = [decide(run, at) for at in (entry.at, run.at)]
    ends = [c.event.outcome for c in commands if isinstance(c, Record) and isinstance(c.event, RunEnded)]
    if event.outcome not in ends:
        named = ends[0].value if ends else "no end"
        yield f"RunEnded at #{entry.seq} says {event.outcome}, this release decides {named}"


def _different(run: Run, row: RunRow | None) -> Iterator[str]:
    if row is None:
        yield "RunRow: the index has no line for this run"
        return
    steps = len(run.steps) + (run.turn is not None)
    pairs = (
        ("outcome", row.outcome, run.ended.outcome if run.ended else None),
        ("steps", row.steps, steps),
        ("last_seq", row.last_seq, run.seq),
        ("last_at", row.last_at, run.at),
        ("started_at", row.started_at, run.started_at),
        ("ended_at", row.ended_at, run.at if run.ended else None),
        ("agent", row.agent, run.start.agent.name),
    )
    for name, stored, recomputed in pairs:
        if stored != recomputed:
            yield f"RunRow.{name}: stored {json.dumps(stored)}, recomputed {json.dumps(recomputed)}"


async def _rows(ctx: Context, outcome: Ended | None, agent: str | None, limit: int) -> tuple[RunRow, ...]:
    async with _store(ctx) as store:
        return await store.runs(outcome=outcome, agent=agent, limit=limit)


async def _trace(ctx: Context, store: Store, run_id: str) -> Trace:
    trace = await store.read(run_id)
    if not trace:
        raise StoreError(f"no run {run_id!r} in {ctx.settings.place}: `orchestrator runs` lists them")
    return trace


@asynccontextmanager
async def _store(ctx: Context) -> AsyncIterator[Store]:
    store = make_store(ctx.settings.store)
    async with store:
        yield store
