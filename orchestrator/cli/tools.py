"""`tools list|schema|call`: each tool can be looked at and tried alone, exactly as a run would call it."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from orchestrator.assembly import chosen, new_run_id, open_toolbox, secrets_of
from orchestrator.cli.context import Context, context, say, say_json, spin
from orchestrator.cli.exits import Exit
from orchestrator.cli.run import AsJson
from orchestrator.core.events import Action
from orchestrator.core.spec import Limits, ToolSpec
from orchestrator.errors import ConfigError
from orchestrator.metrics.slow import ADVICE, slow, unmeasured
from orchestrator.show import plain
from orchestrator.toolbox import Called
from orchestrator.toolbox import Context as CallContext

app = typer.Typer(help="Look at the tools, and try one alone.", no_args_is_help=True)
ToolName = Annotated[str, typer.Argument(metavar="NAME", help="As `tools list` prints it.")]


@app.command("list")
def list_tools(typed: typer.Context, *, as_json: AsJson = False) -> None:
    """All tools: what each does (read, write, send), which may be repeated, whose results come from outside, what each is for."""
    specs, absent = spin(_looked(context(typed)))
    if as_json:
        say_json([asdict(spec) for spec in specs])
        return
    table = Table(box=None, pad_edge=False)
    for column in ("name", "timeout", "marks", "description"):
        table.add_column(column, no_wrap=column == "name")
    for spec in specs:
        marks = [spec.does, *(word for word in ("repeatable", "requires_approval") if getattr(spec, word))]
        marks += [] if spec.trusted else ["untrusted"]
        first = next(iter(plain(spec.description).strip().splitlines()), "")
        table.add_row(Text(spec.name, "bold"), f"{spec.timeout:g} s", ", ".join(marks), Text(first))
    context(typed).out.print(table)
    for each in slow(specs, unmeasured):
        context(typed).err.print(f"slow: {each.tool}: {each.why}; {ADVICE}", style="yellow")
    for name, why in absent.items():
        context(typed).err.print(f"not here: {name}: {why}", style="yellow")


@app.command()
def schema(typed: typer.Context, name: ToolName) -> None:
    """The JSON Schema of a tool's input."""
    (spec,) = chosen(spin(_looked(context(typed)))[0], (name,))
    say_json(spec.schema)


@app.command()
def call(
    typed: typer.Context,
    name: ToolName,
    given: Annotated[str, typer.Argument(metavar="JSON", help='The input, e.g. \'{"expression": "6 * 7"}\'.')] = "{}",
    *,
    as_json: AsJson = False,
    raw: Annotated[bool, typer.Option("--raw", help="The body as the tool sent it, on stdout.")] = False,
) -> None:
    """Call one tool and print the Observation that a model would read."""
    raise typer.Exit(spin(_call(context(typed), name, parse(given), as_json=as_json, raw=raw)))


def parse(text: str) -> dict[str, Any]:
    """A tool's input. ConfigError when it is no JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f'the input is no JSON: {error}; write an object, e.g. \'{{"query": "x"}}\'') from error
    if not isinstance(value, dict):
        raise ConfigError(f'the input is a JSON {type(value).__name__}; write an object, e.g. \'{{"query": "x"}}\'')
    return value


async def _looked(ctx: Context) -> tuple[tuple[ToolSpec, ...], dict[str, str]]:
    """The tools that are there, and what is not."""
    async with open_toolbox(ctx.settings) as toolbox:
        return toolbox.specs, dict(toolbox.absent)


async def _call(ctx: Context, name: str, given: dict[str, Any], *, as_json: bool, raw: bool) -> Exit:
    settings = ctx.settings
    run_id = new_run_id(time.time())
    about = CallContext(run_id, "1.0", f"{run_id}:1.0")
    async with open_toolbox(settings) as toolbox:
        chosen(toolbox.specs, (name,))
        called = await toolbox.call(
            Action("1.0", name, given), context=about, limit=Limits().observation_chars, secrets=secrets_of(settings)
        )
    return _printed(called, as_json=as_json, raw=raw)


def _printed(called: Called, *, as_json: bool, raw: bool) -> Exit:
    seen = called.observation
    if seen is None:
        say_json(asdict(called.pending) if called.pending else None)
        return Exit.ANSWERED
    if as_json:
        say_json(asdict(replace(seen, id="")))
    elif raw and called.raw is not None:
        say(called.raw.decode("utf-8", "backslashreplace"))
    else:
        say(seen.content)
    return Exit.ANSWERED if seen.status == "success" else Exit.FAILED
