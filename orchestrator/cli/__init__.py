"""The command line. stdout is the result, stderr the log and the live view; exit codes are in `exits`."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from orchestrator.cli import (
    alerts,
    batch,
    doctor,
    exits,
    mcp,
    measure,
    proof,
    queue,
    run,
    serve,
    submit,
    tools,
    trace,
    worker,
)
from orchestrator.cli.context import Context
from orchestrator.errors import OrchestratorError
from orchestrator.log import safe
from orchestrator.show import plain

__all__ = ["app", "main"]

UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPIPE})
"""The disk that stdout is sent to has no room, or nobody reads the pipe any more."""

app = typer.Typer(
    name="orchestrator",
    help="The asyncio production orchestrator for ReAct agents.",
    epilog=exits.table(),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def options(
    typed: typer.Context,
    *,
    config: Annotated[
        Path | None,
        typer.Option(envvar="ORCHESTRATOR_CONFIG", help="Settings file; ./orchestrator.toml if there is one."),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            envvar="ORCHESTRATOR_STORE", help="Where Traces are kept: memory, sqlite:///PATH, postgresql://..."
        ),
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        typer.Option(envvar="ORCHESTRATOR_LOG_LEVEL", help="What the log on stderr shows; `warning` if not set."),
    ] = None,
    log_format: Annotated[
        Literal["console", "json", "auto"] | None,
        typer.Option(envvar="ORCHESTRATOR_LOG_FORMAT", help="`auto` is console on a terminal and JSON otherwise."),
    ] = None,
) -> None:
    """The asyncio production orchestrator for ReAct agents: a question in, an answer out, and a Trace that proves it."""
    typed.obj = Context(config, store, log_level, log_format)


ASK, LOOK, DRIVE, KEEP, SET_UP = "Ask", "Look", "Drive and serve", "Keep and prove", "Set up"
"""The headings of `--help`."""

app.command(rich_help_panel=ASK)(run.run)
app.command(rich_help_panel=ASK)(run.resume)
app.command(rich_help_panel=ASK)(batch.batch)
app.command(rich_help_panel=ASK)(submit.submit)
app.command(rich_help_panel=ASK)(submit.watch)
app.command(rich_help_panel=ASK)(queue.cancel)
app.command(rich_help_panel=ASK)(queue.approve)
app.command(rich_help_panel=ASK)(queue.refuse)
app.command(rich_help_panel=ASK)(queue.callback)
app.command(rich_help_panel=LOOK)(trace.runs)
app.command(rich_help_panel=LOOK)(trace.show)
app.command(rich_help_panel=LOOK)(queue.status)
app.command(rich_help_panel=LOOK)(measure.measure)
app.command(rich_help_panel=LOOK)(trace.replay)
app.command(rich_help_panel=DRIVE)(worker.worker)
app.command(rich_help_panel=DRIVE)(serve.serve)
app.command(rich_help_panel=DRIVE)(mcp.mcp)
app.command(rich_help_panel=DRIVE)(alerts.monitor)
app.command(rich_help_panel=DRIVE)(queue.schedule)
app.command(rich_help_panel=KEEP)(proof.verify)
app.command(rich_help_panel=KEEP)(proof.export)
app.command("signing-key", rich_help_panel=KEEP)(proof.signing_key)
app.command(rich_help_panel=KEEP)(queue.purge)
app.command(rich_help_panel=SET_UP)(doctor.doctor)
app.add_typer(doctor.config, name="config", rich_help_panel=SET_UP)
app.add_typer(tools.app, name="tools", rich_help_panel=SET_UP)
app.add_typer(alerts.app, name="alerts", rich_help_panel=SET_UP)
app.add_typer(serve.token, name="token", rich_help_panel=SET_UP)
app.command(rich_help_panel=SET_UP)(doctor.version)


def main() -> None:
    """The console script. An error that was raised on purpose is one line on stderr, and an exit code."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except OrchestratorError as error:
        sys.stderr.write(f"{type(error).__name__}: {' '.join(plain(safe(str(error))).splitlines())}\n")
        sys.exit(exits.of_error(error))
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in the buffer goes nowhere
        if error.errno != errno.EPIPE:
            sys.stderr.write(f"nothing more can be written: {error.strerror}\n")
        sys.exit(exits.Exit.FAILED)
