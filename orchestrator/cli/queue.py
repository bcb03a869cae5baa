"""The queue from a terminal: `submit`, `status`, `cancel`, `approve`, `refuse`, `callback`, `purge`, `schedule`."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from getpass import getuser
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.assembly import RunRequest, new_run_id, open_toolbox, secrets_of, started
from orchestrator.cli.batch import read
from orchestrator.cli.context import Context, context, say, say_json, spin
from orchestrator.cli.run import (
    AgentName,
    AsJson,
    Deadline,
    LanguageName,
    MaxSteps,
    ModelName,
    ProtocolName,
    ToolNames,
    names,
)
from orchestrator.cli.trace import RunId
from orchestrator.core.events import Outcome
from orchestrator.core.run import Run, replay
from orchestrator.dispatch import Job, needs_of
from orchestrator.errors import ConfigError, StoreError
from orchestrator.inbox import Inbox, Verdict
from orchestrator.show import plain, when
from orchestrator.stores import Store
from orchestrator.stores.earlier import informed
from orchestrator.worker.queue import callback_key, open_queue
from orchestrator.worker.schedule import read as schedules_of

ActionId = Annotated[
    str, typer.Argument(metavar="ACTION", help="Its id, such as 2.0; `orchestrator status RUN` lists them.")
]
By = Annotated[
    str | None, typer.Option("--by", help="Who decides, as the Trace will say; the user's name if not given.")
]
Why = Annotated[str, typer.Option("--reason", help="Why, as the Trace will say.")]

DAY = 86_400.0
TOGETHER = 100
"""Runs of a file that are submitted side by side: they share commits."""
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY, "w": 7 * DAY}


def submit(  # noqa: PLR0913  one argument for each option of the command line
    typed: typer.Context,
    question: Annotated[str | None, typer.Argument(help="What the agent is to find out or do.")] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Many questions, one JSON object a line, as `batch` reads them.")
    ] = None,
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
) -> None:
    """Queue a run, or a file of them, for the workers on the same store. The ids are on stdout, one a line."""
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
    if file is None:
        asked = [(key, usual)]
    else:
        asked = [(key and f"{key}:{task.id}", task.request) for task in read(file, usual)]
    due = 0.0 if at is None else moment(at, time.time())
    spin(_submit(context(typed), asked, due, priority))


def status(
    typed: typer.Context,
    run_id: Annotated[str | None, typer.Argument(metavar="RUN", help="One run; the whole queue if not given.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """How the queue stands and how the last day's runs ended; or how one run stands and what it waits for."""
    spin(_status(context(typed), run_id, as_json=as_json))


def cancel(typed: typer.Context, run_id: RunId, *, by: By = None, reason: Why = "") -> None:
    """End a run, wherever it is being driven. Its Trace says who asked."""

    async def word(inbox: Inbox) -> Run:
        return await inbox.cancel(run_id, by=by or getuser(), reason=reason)

    spin(_say(context(typed), word))


def approve(  # noqa: PLR0913  one argument for each option of the command line
    typed: typer.Context,
    run_id: RunId,
    action_id: ActionId,
    *,
    input: Annotated[str | None, typer.Option("--input", help="A JSON object: this input instead.")] = None,
    by: By = None,
    reason: Why = "",
) -> None:
    """Let an action that waits for a person go ahead, as proposed or with another input."""
    edited = None if input is None else parsed(input, "--input")
    if edited is not None and not isinstance(edited, dict):
        raise ConfigError("--input: write a JSON object, such as '{\"amount\": 20}'")

    async def word(inbox: Inbox) -> Run:
        verdict: Verdict = "approve" if edited is None else "edit"
        return await inbox.decide(run_id, action_id, verdict, by=by or getuser(), input=edited, reason=reason)

    spin(_say(context(typed), word))


def refuse(typed: typer.Context, run_id: RunId, action_id: ActionId, *, by: By = None, reason: Why = "") -> None:
    """Refuse an action that waits for a person; the model is told by whom and why."""

    async def word(inbox: Inbox) -> Run:
        return await inbox.decide(run_id, action_id, "refuse", by=by or getuser(), reason=reason)

    spin(_say(context(typed), word))


def callback(
    typed: typer.Context,
    token: Annotated[str, typer.Argument(help="What the tool found in context().callback.")],
    result: Annotated[str, typer.Argument(help="JSON: the result, or {status, code, data, message}; - reads stdin.")],
) -> None:
    """Bring the result of a long tool; its run goes on. A token is good once."""
    value = parsed(sys.stdin.read() if result == "-" else result, "RESULT")

    async def word(inbox: Inbox) -> Run:
        return await inbox.callback(token, value)

    spin(_say(context(typed), word))


def purge(
    typed: typer.Context,
    *,
    older_than: Annotated[str, typer.Option("--older-than", help="Such as 30d, 12h: ended longer ago than this.")],
) -> None:
    """Delete runs that ended long ago, with their Traces and raw bodies. Open runs stay."""
    spin(_purge(context(typed), time.time() - span(older_than)))


def schedule(typed: typer.Context, *, as_json: AsJson = False) -> None:
    """List the schedules of the settings and when each is due next. Every worker keeps them; each time is run once."""
    settings, now = context(typed).settings, time.time()
    crons = schedules_of(settings)
    rows = [(name, next(cron.after(now)), settings.schedules[name].question) for name, cron in crons.items()]
    if as_json:
        say_json([{"schedule": name, "next": at, "question": question} for name, at, question in rows])
    else:
        say("\n".join(f"{when(at)}  {name}  {plain(question)}" for name, at, question in rows) or "no schedules")


async def _submit(ctx: Context, asked: list[tuple[str | None, RunRequest]], due: float, priority: int) -> None:
    async with open_toolbox(ctx.settings) as toolbox:
        offered = toolbox.specs
    firsts = [(key, started(ctx.settings, offered, request)) for key, request in asked]
    async with open_queue(ctx.settings) as (store, dispatcher):
        begun = time.time()
        firsts = [(key, await informed(store, first, now=begun)) for key, first in firsts]
        for start in range(0, len(firsts), TOGETHER):
            now = time.time()
            jobs = (
                (Job(new_run_id(now), first.tenant, priority, due, key, needs_of(first)), first)
                for key, first in firsts[start : start + TOGETHER]
            )
            for done in await asyncio.gather(*(dispatcher.submit(job, first, now=now) for job, first in jobs)):
                say(done.run_id)


async def _status(ctx: Context, run_id: str | None, *, as_json: bool) -> None:
    async with open_queue(ctx.settings) as (store, dispatcher):
        if run_id is None:
            depth = await dispatcher.depth(now=time.time())
            queue = {**asdict(depth), "oldest": round(depth.oldest, 1)}
            found = {"queue": queue, "last_day": await _ended(store, time.time() - DAY)}
        else:
            trace = await store.read(run_id)
            if not trace:
                raise StoreError(f"no run {run_id!r} in {ctx.settings.place}: `orchestrator runs` lists them")
            found = standing(replay(trace))
    if as_json:
        say_json(found)
        return
    for name, value in found.items():
        words = ", ".join(f"{key} {each}" for key, each in value.items()) if isinstance(value, dict) else value
        say(f"{name}: {words}")


async def _ended(store: Store, since: float) -> dict[str, int]:
    """How many of the runs that began since then ended how; "open" for the rest."""
    counts: dict[str, int] = {}
    after = None
    while page := await store.runs(since=since, after=after, limit=1000):
        for row in page:
            word = row.outcome.value if row.outcome else "open"
            counts[word] = counts.get(word, 0) + 1
        after = page[-1].key
    return counts


def standing(run: Run) -> dict[str, Any]:
    """How a run stands, as plain data."""
    found: dict[str, Any] = {"run": run.run_id, "state": "open", "steps": len(run.steps), "goal": run.start.goal}
    if run.ended is not None:
        found |= {"state": run.ended.outcome.value, "detail": run.ended.detail}
        if run.ended.outcome is Outcome.ANSWERED:
            found["answer"] = run.ended.answer
    for wait in run.waiting.values():
        action = run.action(wait.id)
        found["state"] = "waiting"
        found[f"action {wait.id}"] = {
            "waits for": "approval" if wait.reason == "approval" else "its result",
            "until": when(wait.until),
            **({"why": wait.why} if wait.why else {}),
            "tool": action.tool,
            "input": json.dumps(action.input, ensure_ascii=False, default=str),
        }
    return found


async def _say(ctx: Context, word: Any) -> None:
    async with _inbox(ctx) as inbox:
        run = await word(inbox)
    say(run.run_id)


@asynccontextmanager
async def _inbox(ctx: Context) -> AsyncIterator[Inbox]:
    async with open_queue(ctx.settings) as (store, dispatcher):
        yield Inbox(store, dispatcher, key=callback_key(ctx.settings), secrets=secrets_of(ctx.settings))


async def _purge(ctx: Context, before: float) -> None:
    async with open_queue(ctx.settings) as (store, _):
        say(f"{await store.purge(before)} runs deleted")


def parsed(text: str, place: str) -> Any:
    """JSON from the command line. ConfigError names the place."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{place} is no JSON: {error}") from error


def span(text: str) -> float:
    """Seconds of "30d", "12h", "90m", "45s", "2w". ConfigError for anything else."""
    match = re.fullmatch(r"\+?(\d{1,9})([smhdw])", text.strip())
    if match is None:
        raise ConfigError(f"{text!r} is no span of time: write a number and one of s, m, h, d, w, such as 30d")
    return int(match[1]) * UNITS[match[2]]


def moment(text: str, now: float) -> float:
    """Unix seconds of an ISO time (UTC unless it says otherwise), or of a span from now. ConfigError for anything else."""
    if text.startswith("+"):
        return now + span(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"--at {text!r} is no time: write 2026-12-24T18:00 or +2h ({error})") from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
