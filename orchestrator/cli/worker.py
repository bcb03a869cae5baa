"""`worker`: drive what others submit, until told to stop. Exit codes of its own: 0 drained, 1 forced or crashed, 2 configuration."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Annotated, Any

import typer

from orchestrator import health, process
from orchestrator.assembly import Offered, open_ports, secrets_of
from orchestrator.cli.context import Context, context
from orchestrator.dispatch import Dispatcher
from orchestrator.errors import ConfigError
from orchestrator.hooks import make_hooks
from orchestrator.inbox import callback_token
from orchestrator.log import log_entry
from orchestrator.metrics import Metrics
from orchestrator.monitor import depth_of, make_monitor
from orchestrator.otel import tracing
from orchestrator.settings import Settings
from orchestrator.stores import Store
from orchestrator.toolbox import Toolbox
from orchestrator.worker import Ending, Watchdog, Worker
from orchestrator.worker.advice import advising
from orchestrator.worker.elsewhere import remember
from orchestrator.worker.gauges import WorkerCollector
from orchestrator.worker.queue import abilities, callback_key, open_queue, worker_rules
from orchestrator.worker.schedule import read, scheduling
from orchestrator.worker.tenants import metered


def worker(
    typed: typer.Context,
    *,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", "-c", min=1, help="Runs at once; `worker.concurrency` if not given.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65535, help="For /healthz, /readyz and /metrics; `worker.port` if not given."
        ),
    ] = None,
    monitor: Annotated[
        bool | None,
        typer.Option("--monitor/--no-monitor", help="Evaluate the alert rules as well; `worker.monitor` if not given."),
    ] = None,
) -> None:
    """Take runs and drive them until SIGTERM (drains: exit 0) or a second signal (forced: exit 1). Kill it as you like."""
    ctx = context(typed)
    given = {"concurrency": concurrency, "port": port, "monitor": monitor}
    changed = {key: value for key, value in given.items() if value is not None}
    settings = able(ctx.settings)
    settings = settings.model_copy(update={"worker": settings.worker.model_copy(update=changed)})
    raise typer.Exit(process.run(run_worker(ctx, settings)))


async def run_worker(
    ctx: Context,
    settings: Settings,
    shared: tuple[Store, Dispatcher] | None = None,
    tools: tuple[Toolbox, Metrics] | None = None,
) -> Ending:
    """Everything that a worker is, until it has drained: SIGTERM and SIGINT are its own inside. `shared`: the store and queue that
    this process has open already, so that it has one writer. `tools`: those that it has open already, so that no MCP server is
    started twice, and the metrics that their policies tell."""
    read(settings)
    async with AsyncExitStack() as stack:
        if shared is None:
            shared = await stack.enter_async_context(open_queue(settings))
        store, dispatcher = shared
        toolbox, metrics = tools or (None, Metrics())
        spans = stack.enter_context(tracing(settings, secrets_of(settings)))
        opened = await stack.enter_async_context(
            open_ports(
                settings,
                store=store,
                toolbox=toolbox,
                observers=(log_entry, metrics.observe, *spans),
                observe=metrics.incidents.observe,
            )
        )
        key = callback_key(settings)
        ports = replace(
            opened,
            models=metered(opened.models, settings, opened.clock),
            callback=lambda run, action_id: callback_token(key, run, action_id),
        )
        budgets = await remember(ports.models, store)
        offered = ports.toolbox.specs
        working = Worker(dispatcher, ports, worker_rules(settings), has=abilities(settings, offered))
        dog = await stack.enter_async_context(Watchdog())
        metrics.expect(settings, offered)
        metrics.registry.register(WorkerCollector(working, dog))
        url = stack.enter_context(
            health.serve(
                settings.worker.host,
                settings.worker.port,
                lambda: problem(working, dog),
                metrics.render,
                lambda: dict(ports.toolbox.absent),
            )
        )
        if settings.worker.monitor:
            await stack.enter_async_context(monitoring(ctx, settings, store, dispatcher))
        stack.enter_context(signals(working.stop))
        place = settings.store.rpartition("@")[2]
        ctx.err.print(f"worker {dispatcher.worker[:8]} takes runs from {place}; {url}/readyz", style="bold")
        now_offered = Offered(ports.toolbox)
        keeping = [
            scheduling(dispatcher, settings, now_offered, ports.clock),
            advising(now_offered, metrics.seconds_of),
        ]
        if budgets is not None:
            keeping.append(budgets.keep())
        return await _beside(working, keeping)


def able(settings: Settings) -> Settings:
    """The settings again. ConfigError without any model: such a worker would take runs and could drive none."""
    if not settings.models:
        raise ConfigError(
            "no model is configured, and a worker takes runs to drive them: write a [models.NAME] table, or set OPENAI_BASE_URL, "
            "OPENAI_API_KEY and OPENAI_MODEL (or the ANTHROPIC_ ones)"
        )
    return settings


@asynccontextmanager
async def monitoring(ctx: Context, settings: Settings, store: Store, dispatcher: Dispatcher) -> AsyncIterator[None]:
    """The alert rules are evaluated and the hooks told, inside; a fault of the monitor ends the worker."""
    async with AsyncExitStack() as stack:
        hooks = make_hooks(settings)
        for hook in hooks:
            stack.push_async_callback(hook.close)
        if not hooks:
            ctx.err.print("no hook is configured: alerts are only logged; write a [hooks.NAME] table")
        watch = make_monitor(settings, store, hooks, gauges=depth_of(dispatcher))
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(watch.run())
            yield
            looking.cancel()


@contextmanager
def signals(stop: Callable[[], object]) -> Iterator[None]:
    """SIGTERM and SIGINT stop inside."""
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop)
    try:
        yield
    finally:
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)


def problem(working: Worker, dog: Watchdog) -> str | None:
    """Why this process should get no work now."""
    if dog.stalled:
        return f"the event loop stood still ({dog.stalls} times so far)"
    return working.problem


async def _beside(working: Worker, keeping: Sequence[Coroutine[Any, Any, None]]) -> Ending:
    """The worker, and what is kept as long as it works: schedules, budgets, advice."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in keeping]
        ending = await working.run()
        for task in tasks:
            task.cancel()
    return ending
