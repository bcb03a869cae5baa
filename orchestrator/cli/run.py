"""`run` and `resume`: one run, live on stderr, its answer on stdout."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from orchestrator.agent import Result
from orchestrator.assembly import RunRequest, finish, open_ports, secrets_of, submit
from orchestrator.cli.context import Context, context, say, say_json, spin
from orchestrator.cli.exits import Exit, of_outcome
from orchestrator.cli.interrupt import Interrupt
from orchestrator.cli.live import View
from orchestrator.core.events import RunEnded
from orchestrator.core.run import Run
from orchestrator.core.spec import Language, Protocol
from orchestrator.errors import StoreError
from orchestrator.log import configure, log_entry
from orchestrator.otel import tracing
from orchestrator.runner import Ports

AsJson = Annotated[bool, typer.Option("--json", help="The result as one JSON object on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No live view on stderr.")]
ModelName = Annotated[
    str | None,
    typer.Option("--model", "-m", envvar="ORCHESTRATOR_MODEL", help="A model of the settings, instead of the agent's."),
]
ProtocolName = Annotated[
    Protocol | None,
    typer.Option("--protocol", "-p", envvar="ORCHESTRATOR_PROTOCOL", help="Native tool use, or text ReAct."),
]
LanguageName = Annotated[
    Language | None, typer.Option("--language", "-l", envvar="ORCHESTRATOR_LANGUAGE", help="Of the prompt.")
]
ToolNames = Annotated[
    str | None,
    typer.Option("--tools", "-t", help="Names of the tools to offer, with commas; all of the agent's if not given."),
]
MaxSteps = Annotated[
    int | None, typer.Option("--max-steps", min=1, envvar="ORCHESTRATOR_MAX_STEPS", help="Turns of the model at most.")
]
Deadline = Annotated[
    float | None, typer.Option("--deadline", min=0.1, envvar="ORCHESTRATOR_DEADLINE", help="Seconds for the whole run.")
]
AgentName = Annotated[str, typer.Option("--agent", "-a", envvar="ORCHESTRATOR_AGENT", help="An agent of the settings.")]


def run(  # noqa: PLR0913  one argument for each option of the command line
    typed: typer.Context,
    question: Annotated[str, typer.Argument(help="What the agent is to find out or do.")],
    *,
    agent: AgentName = "default",
    model: ModelName = None,
    protocol: ProtocolName = None,
    language: LanguageName = None,
    tools: ToolNames = None,
    max_steps: MaxSteps = None,
    deadline: Deadline = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Ask one question. Thought, Action and Observation appear live on stderr, the answer on stdout."""
    request = RunRequest(
        question,
        agent,
        model=model,
        protocol=protocol,
        language=language,
        tools=names(tools),
        max_steps=max_steps,
        deadline=deadline,
    )
    raise typer.Exit(spin(_run(context(typed), request, as_json=as_json, quiet=quiet)))


def resume(
    typed: typer.Context,
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="The id that `run` and `runs` print.")],
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a run that was interrupted, crashed, or waits. Nothing that has happened is done again."""
    raise typer.Exit(spin(_resume(context(typed), run_id, as_json=as_json, quiet=quiet)))


def names(text: str | None) -> tuple[str, ...] | None:
    """Names from a list with commas; None stays None."""
    return None if text is None else tuple(name for name in (part.strip() for part in text.split(",")) if name)


async def _run(ctx: Context, request: RunRequest, *, as_json: bool, quiet: bool) -> Exit:
    async with _watched(ctx, quiet=quiet) as (ports, interrupt):
        run_id = await submit(ports, ctx.settings, request)
        return report(ctx, run_id, await interrupt.run(run_id, finish(run_id, ports)), as_json=as_json)


async def _resume(ctx: Context, run_id: str, *, as_json: bool, quiet: bool) -> Exit:
    async with _watched(ctx, quiet=quiet) as (ports, interrupt):
        trace = await ports.store.read(run_id)
        if not trace:
            raise StoreError(f"no run {run_id!r} in {ctx.settings.place}: `orchestrator runs` lists them")
        if not quiet:
            over = isinstance(trace[-1].event, RunEnded)
            ctx.err.print(
                f"run {run_id} {'has ended already' if over else f'goes on after {len(trace)} entries'}", style="bold"
            )
        return report(ctx, run_id, await interrupt.run(run_id, finish(run_id, ports)), as_json=as_json)


@asynccontextmanager
async def _watched(ctx: Context, *, quiet: bool) -> AsyncIterator[tuple[Ports, Interrupt]]:
    """Ports with the log, the spans, the live view and Ctrl-C attached.

    The view says what warnings would say; so beside it the log shows errors only, unless a level was asked for.
    """
    if not quiet:
        errors_only(ctx)
    view, interrupt = View(ctx.err), Interrupt(lambda text: ctx.err.print(text, style="yellow"))
    watching = (interrupt.observe, log_entry) if quiet else (interrupt.observe, log_entry, view.entry)
    with tracing(ctx.settings, secrets_of(ctx.settings)) as spans:
        async with open_ports(ctx.settings, observers=(*watching, *spans), listener=view.delta) as ports:
            with interrupt.armed():
                if quiet:
                    yield replace(ports, stopping=interrupt.stopping), interrupt
                    return
                with view.shown():
                    yield replace(ports, stopping=interrupt.stopping), interrupt


def errors_only(ctx: Context) -> None:
    """Where warnings would say what is shown or written anyway, unless a level was asked for."""
    if "log_level" not in ctx.settings.model_fields_set:
        configure(ctx.settings.log_format, "error", secrets_of(ctx.settings))


def report(ctx: Context, run_id: str, run: Run | None, *, as_json: bool) -> Exit:
    """Print how a run stands, and say what that means to a shell."""
    if run is None or run.ended is None:
        ctx.err.print(f"interrupted: the run is kept; go on with: orchestrator resume {run_id}", style="yellow")
        return Exit.INTERRUPTED
    result = Result.of(run)
    if as_json:
        say_json(plain_result(result))
    elif run.ended.answer:
        say(run.ended.answer)
    elif run.ended.missing:
        say(f"insufficient: {run.ended.missing}")
    return of_outcome(run.ended.outcome)


def plain_result(result: Result) -> dict[str, Any]:
    """A Result as JSON has it."""
    return asdict(result)
