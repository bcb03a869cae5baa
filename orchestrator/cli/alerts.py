"""`monitor` and `alerts list|test|rules|serve`: the rules, whether they hold now, and the hooks that are told."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from orchestrator.alerts import Kind, Links, Rule, load_rules, prometheus, trial
from orchestrator.alerts.rule import shown
from orchestrator.alerts.settings import HookSettings
from orchestrator.assembly import make_store
from orchestrator.cli.context import Context, context, say, say_json, spin
from orchestrator.cli.exits import Exit
from orchestrator.cli.run import AsJson
from orchestrator.egress.address import is_loopback
from orchestrator.errors import CallError, ConfigError
from orchestrator.hooks import make_hook, make_hooks
from orchestrator.hooks.adapter import serving
from orchestrator.log import safe
from orchestrator.monitor import GaugeSource, MemoryBook, depth_of, make_book, make_monitor, queue_of
from orchestrator.monitor.page import Page, Standing, load
from orchestrator.show import plain, when
from orchestrator.stores import Store
from orchestrator.stores.memory import MemoryStore

app = typer.Typer(help="The alert rules, and the hooks that are told.", no_args_is_help=True)
HookName = Annotated[str, typer.Argument(metavar="HOOK", help=r"The name of a \[hooks.NAME] table.")]


def monitor(
    typed: typer.Context,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Look once, say what fires, and end; hooks are not told.")
    ] = False,
) -> None:
    """Evaluate the alert rules over the store, for all workers at once, and tell the hooks. Any number may run; one leads."""
    ctx = context(typed)
    spin(_once(ctx) if once else _monitor(ctx))


@app.command("list")
def list_alerts(typed: typer.Context, *, as_json: AsJson = False) -> None:
    """Every rule with its threshold, and what fires now as the monitor last wrote it down."""
    ctx = context(typed)
    rules = load_rules(ctx.settings.alerts.rules)
    page = spin(_page(ctx))
    if as_json:
        say_json({"rules": [asdict(rule) for rule in rules], **asdict(page)})
        return
    table = Table(box=None, pad_edge=False)
    for column in ("rule", "when", "in", "samples", "severity", "now"):
        table.add_column(column, no_wrap=column == "rule")
    for rule in rules:
        standing = [_standing(rule, each) for each in page.standing if each.rule == rule.name]
        window = "" if rule.kind in {Kind.GAUGE, Kind.ABSENCE} else shown(rule.window, "seconds")
        least = str(rule.minimum or "")
        table.add_row(rule.name, _condition(rule), window, least, rule.severity, Text(plain(", ".join(standing))))
    ctx.out.print(table)


@app.command("test")
def trial_of(
    typed: typer.Context,
    hook: HookName,
    *,
    rule: Annotated[
        str | None, typer.Option("--rule", help="A trial of this rule; the first one if not given.")
    ] = None,
) -> None:
    """Send one trial alert through a hook, once, and say how it was taken."""
    raise typer.Exit(spin(_test(context(typed), hook, rule)))


@app.command()
def rules(
    typed: typer.Context,
    *,
    only: Annotated[list[str] | None, typer.Option("--only", help="This rule alone; may be repeated.")] = None,
) -> None:
    """The rules as a Prometheus rule file, with the settings' thresholds."""
    alerts = context(typed).settings.alerts
    every = load_rules(alerts.rules)
    missing = set(only or ()) - {rule.name for rule in every}
    if missing:
        raise ConfigError(
            f"no alert rule {', '.join(sorted(missing))}: there are {', '.join(rule.name for rule in every)}"
        )
    chosen = [rule for rule in every if not only or rule.name in only]
    say(prometheus(chosen, Links(alerts.runbook, alerts.console)))


@app.command()
def serve(
    typed: typer.Context,
    hook: HookName,
    *,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")] = 9094,
    without_secret: Annotated[
        bool,
        typer.Option(
            "--without-secret",
            help="Beyond this machine though the hook has no `secret`: the network keeps others out.",
        ),
    ] = False,
) -> None:
    """Take Alertmanager's webhook at /alertmanager and post it to a WeCom group robot. Beyond this machine only with a secret."""
    ctx = context(typed)
    given = _hook(ctx, hook)
    if not (given.secret.get_secret_value() or without_secret or is_loopback(host)):
        raise ConfigError(
            f"--host {host} is not this machine alone and anybody could post to the robot: set hooks.{hook}.secret, which"
            " Alertmanager then sends as http_config.authorization.credentials, or bind to 127.0.0.1; where the network keeps"
            " others out, say --without-secret"
        )
    spin(_serve(ctx, hook, given, host, port))


async def _monitor(ctx: Context) -> None:
    hooks = make_hooks(ctx.settings)
    if not hooks:
        ctx.err.print("no hook is configured: alerts are only logged; write a [hooks.NAME] table")
    try:
        async with _seeing(ctx) as (store, gauges):
            watch = make_monitor(ctx.settings, store, hooks, gauges=gauges)
            await _until_stopped(watch.run())
    finally:
        for hook in hooks:
            await hook.close()


async def _once(ctx: Context) -> None:
    """A look of our own: the book of the monitors stays as it is."""
    async with _seeing(ctx) as (store, gauges):
        watch = make_monitor(ctx.settings, store, (), gauges=gauges, book=MemoryBook())
        await watch.look()
    names = {rule.name: rule for rule in load_rules(ctx.settings.alerts.rules)}
    for each in watch.standing:
        rule = names[each.rule]
        group = "".join(f" {label}={plain(value)}" for label, value in rule.labels(each.group).items())
        figure = "" if rule.kind is Kind.ABSENCE else f"{shown(each.state.value, rule.unit)}, "
        say(f"{each.rule}{group}: {figure}{_condition(rule)}")
    if not watch.standing:
        say("nothing is beyond its threshold, as far as there is data")


@asynccontextmanager
async def _seeing(ctx: Context) -> AsyncIterator[tuple[Store, GaugeSource]]:
    """The store and its queue, open. ConfigError for a store in memory: no other process's runs can be seen in it."""
    store = make_store(ctx.settings.store)
    if isinstance(store, MemoryStore):
        raise ConfigError("store = memory: a monitor sees the runs of other processes; use sqlite or postgresql")
    async with store:
        queue = queue_of(store)
        if queue is None:
            yield store, depth_of(None)
            return
        await queue.open()
        try:
            yield store, depth_of(queue)
        finally:
            await queue.close()


async def _page(ctx: Context) -> Page:
    async with make_store(ctx.settings.store) as store:
        return load(await make_book(store).peek()) or Page()


async def _test(ctx: Context, name: str, rule: str | None) -> Exit:
    given = _hook(ctx, name)
    known = load_rules(ctx.settings.alerts.rules)
    chosen = next((each for each in known if rule in {None, each.name}), None)
    if chosen is None:
        raise ConfigError(f"no alert rule {rule}: there are {', '.join(each.name for each in known)}")
    hook = make_hook(name, given, ctx.settings)
    try:
        await hook.attempt(trial(chosen, time.time()))
    except CallError as error:
        ctx.err.print(plain(safe(f"{name} ({given.kind}) did not take it: {error}")))
        return Exit.FAILED
    finally:
        await hook.close()
    say(f"{name} ({given.kind}) took it")
    return Exit.ANSWERED


async def _serve(ctx: Context, name: str, given: HookSettings, host: str, port: int) -> None:
    loopback = ctx.settings.egress.loopback
    async with serving(name, given, host, port, loopback=loopback) as url:
        say(url)
        sys.stdout.flush()
        await _until_stopped(asyncio.Event().wait())


async def _until_stopped(work: Coroutine[Any, Any, Any]) -> None:
    """Run until it ends or SIGTERM or SIGINT comes; then it is cancelled and may tidy up."""
    task = asyncio.create_task(work)
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, task.cancel)
    try:
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
    finally:
        task.cancel()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)


def _hook(ctx: Context, name: str) -> HookSettings:
    hooks = ctx.settings.hooks
    if name not in hooks:
        raise ConfigError(f"no hook {name!r}: configured are {sorted(hooks) or 'none'}; write a [hooks.{name}] table")
    return hooks[name]


def _condition(rule: Rule) -> str:
    if rule.kind is Kind.ABSENCE:
        return "absent"
    return f"{rule.comparison} {shown(rule.threshold, rule.unit)}"


def _standing(rule: Rule, each: Standing) -> str:
    group = " ".join(each.group)
    return f"{each.state.phase} {group} {shown(each.state.value, rule.unit)} since {when(each.state.since)}"
