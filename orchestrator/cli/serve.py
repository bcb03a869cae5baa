"""`serve`: the HTTP API and the console. `token`: who may come in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any

import typer

from orchestrator.api.tokens import EVERY_TENANT, SCOPES, Token, TokenFile
from orchestrator.cli.context import Context, context, say, say_json, spin
from orchestrator.cli.queue import span
from orchestrator.cli.run import AsJson
from orchestrator.cli.worker import able, run_worker, signals
from orchestrator.errors import ConfigError
from orchestrator.metrics import Metrics
from orchestrator.settings import Settings
from orchestrator.show import when

token = typer.Typer(
    name="token", help="Who may use the API and the console: make, list and take back tokens.", no_args_is_help=True
)


def serve(
    typed: typer.Context,
    *,
    host: Annotated[
        str | None, typer.Option("--host", help="Where to listen; `api.host` (this machine only) if not given.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="0 takes a free one; `api.port` if not given.")
    ] = None,
    worker: Annotated[bool, typer.Option("--worker", help="Drive runs too, in this process.")] = False,
) -> None:
    """Serve the HTTP API and the console until SIGTERM. Beyond this machine only once a token has been made."""
    ctx = context(typed)
    changed = {key: value for key, value in {"host": host, "port": port}.items() if value is not None}
    settings = ctx.settings.model_copy(update={"api": ctx.settings.api.model_copy(update=changed)})
    raise typer.Exit(spin(_serve(ctx, able(settings) if worker else settings, worker=worker)))


@token.command()
def create(
    typed: typer.Context,
    name: Annotated[str, typer.Argument(help="Whose it is: Traces say so of every approval.")],
    *,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            "-s",
            help=f"What it may do, of {', '.join(SCOPES)}; again for more. read and submit if not given.",
        ),
    ] = None,
    tenant: Annotated[str, typer.Option("--tenant", help=f"Whose runs it sees; {EVERY_TENANT} for all.")] = "",
    lasting: Annotated[
        str | None, typer.Option("--for", help="How long it is good, such as 90d; without end if not given.")
    ] = None,
) -> None:
    """Make a token. It is on stdout, this once: only its hash is kept."""
    if not (name.isprintable() and 0 < len(name) <= 100 and tenant.isprintable() and len(tenant) <= 100):
        raise ConfigError("NAME and --tenant are up to 100 printable characters")
    asked = scope or ["read", "submit"]
    if unknown := sorted(set(asked) - set(SCOPES)):
        raise ConfigError(f"--scope {unknown[0]}: there are {', '.join(SCOPES)}")
    now, scopes = time.time(), [each for each in SCOPES if each in asked]
    say(_file(typed).create(name, scopes, tenant, now, None if lasting is None else now + span(lasting)))


@token.command("list")
def list_(typed: typer.Context, *, as_json: AsJson = False) -> None:
    """List the tokens: id, name, scopes, tenant, end. Their text is kept nowhere."""
    rows = _file(typed).all()
    if as_json:
        say_json([each.model_dump(exclude={"digest"}) for each in rows])
    else:
        say("\n".join(map(_line, rows)) or "no tokens")


@token.command()
def revoke(typed: typer.Context, which: Annotated[str, typer.Argument(help="Its id or its name.")]) -> None:
    """Take a token back. Servers that see the file refuse it at once."""
    say(_file(typed).revoke(which).id)


def _file(typed: typer.Context) -> TokenFile:
    return TokenFile(context(typed).settings.api.tokens)


def _line(each: Token) -> str:
    end = "" if each.expires_at is None else f"  until {when(each.expires_at)}"
    return f"{each.id}  {each.name}  {','.join(each.scopes)}  tenant {each.tenant or '-'}{end}"


async def _serve(ctx: Context, settings: Settings, *, worker: bool) -> int:
    try:
        from orchestrator.api.app import create_app  # noqa: PLC0415  an extra
        from orchestrator.api.server import Server, listen, url_of  # noqa: PLC0415  an extra
        from orchestrator.api.service import open_service  # noqa: PLC0415  an extra
        from orchestrator.console import pages as console  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigError(f"serve needs the extra: pip install '.[api]' in the checkout ({error})") from error
    metrics = Metrics()
    tools = partial(metrics.incidents.observe, "tool")
    async with open_service(settings, tools) as service, _door(service, settings) as door:
        with listen(settings.api.host, settings.api.port) as listener:
            server = Server(create_app(service, [*door, *console.routes(service)]), service.closing)
            say_so = partial(ctx.err.print, f"serving {url_of(listener)}", style="bold")
            if not worker:
                with signals(server.stop):
                    say_so()
                    await server.run_on(listener)
                return 0
            say_so()
            serving = asyncio.create_task(server.run_on(listener))
            try:
                shared = service.store, service.dispatcher
                return await run_worker(ctx, settings, shared, (service.toolbox, metrics))
            finally:
                server.stop()
                await serving


@asynccontextmanager
async def _door(service: Any, settings: Settings) -> AsyncGenerator[list[Any], None]:
    """The route of the MCP server, where the settings ask for it."""
    if not settings.api.mcp:
        yield []
        return
    try:
        from orchestrator.api.mcp import open_door  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigError(f"api.mcp needs the extra: pip install '.[mcp]' in the checkout ({error})") from error
    async with open_door(service) as routes:
        yield routes
