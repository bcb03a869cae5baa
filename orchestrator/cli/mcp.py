"""`mcp`: this orchestrator as an MCP server on stdin and stdout, for a client that starts it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated, Any

import typer

from orchestrator.api.tokens import EVERY_TENANT
from orchestrator.cli.context import Context, context, spin
from orchestrator.cli.worker import able, run_worker
from orchestrator.errors import ConfigError
from orchestrator.metrics import Metrics
from orchestrator.show import plain
from orchestrator.worker import Ending


def mcp(
    typed: typer.Context,
    *,
    tenant: Annotated[
        str, typer.Option("--tenant", help=f"On whose account, and whose runs it sees; {EVERY_TENANT} for all.")
    ] = "",
    worker: Annotated[bool, typer.Option("--worker", help="Drive runs too, in this process.")] = False,
) -> None:
    """Be an MCP server on stdin and stdout: the tools submit, status and answer. Whoever starts it needs no token."""
    raise typer.Exit(spin(_mcp(context(typed), None if tenant == EVERY_TENANT else tenant, worker=worker)))


async def _mcp(ctx: Context, tenant: str | None, *, worker: bool) -> int:
    try:
        from mcp.server.stdio import stdio_server  # noqa: PLC0415  an extra

        from orchestrator.api.auth import Principal  # noqa: PLC0415  an extra
        from orchestrator.api.mcp import make_server  # noqa: PLC0415  an extra
        from orchestrator.api.service import open_service  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigError(f"mcp needs the extras: pip install '.[api,mcp]' in the checkout ({error})") from error
    # nothing is bound, so nobody must be kept out: whoever can start this can read the store
    near = ctx.settings.api.model_copy(update={"host": "127.0.0.1"})
    settings = ctx.settings.model_copy(update={"api": near})
    if worker:
        able(settings)
    who = Principal("mcp", tenant, frozenset({"read", "submit"}))
    async with AsyncExitStack() as stack:
        metrics = Metrics()
        service = await stack.enter_async_context(open_service(settings, partial(metrics.incidents.observe, "tool")))
        shared = service.store, service.dispatcher
        tools = service.toolbox, metrics
        working = asyncio.create_task(_told(ctx, run_worker(ctx, settings, shared, tools))) if worker else None
        read, write = await stack.enter_async_context(stdio_server())
        server = make_server(service, lambda _context: who)
        try:
            await server.run(read, write, server.create_initialization_options())
        finally:
            if working is not None:
                working.cancel()
                await asyncio.wait([working])
    return 0 if working is None or working.cancelled() else working.result()


async def _told(ctx: Context, work: Coroutine[Any, Any, Ending]) -> Ending:
    """The worker's end. A fault of it is said at once: the client goes on submitting, and nobody drives."""
    try:
        return await work
    except Exception as error:
        ctx.err.print(f"the worker has ended, runs wait for another: {plain(str(error))}", style="red")
        raise
