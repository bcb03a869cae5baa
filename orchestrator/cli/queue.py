"""The queue from a terminal: `status`, `cancel`, `approve`, `refuse`, `callback`, `purge`, `schedule`."""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from orchestrator.cli.context import Context, context, say, say_json, spin
from orchestrator.cli.door import DAY, ApiToken, By, Url, open_door
from orchestrator.cli.run import AsJson
from orchestrator.cli.trace import RunId
from orchestrator.errors import ConfigError
from orchestrator.inbox import Verdict
from orchestrator.show import plain, when
from orchestrator.worker.queue import open_queue
from orchestrator.worker.schedule import read as schedules_of

ActionId = Annotated[
    str, typer.Argument(metavar="ACTION", help="Its id, such as 2.0; `orchestrator status RUN` lists them.")
]
Why = Annotated[str, typer.Option("--reason", help="Why, as the Trace will say.")]

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY, "w": 7 * DAY}


def status(
    typed: typer.Context,
    run_id: Annotated[str | None, typer.Argument(metavar="RUN", help="One run; the whole queue if not given.")] = None,
    *,
    as_json: AsJson = False,
    url: Url = None,
    api_token: ApiToken = None,
) -> None:
    """How the queue stands and how the last day's runs ended; or how one run stands and what it waits for."""

    async def work() -> dict[str, Any]:
        async with open_door(context(typed), url, api_token) as door:
            return await door.overview() if run_id is None else (await door.standing(run_id)).plain()

    found = spin(work())
    if as_json:
        say_json(found)
        return
    for name, value in found.items():
        words = ", ".join(f"{key} {each}" for key, each in value.items()) if isinstance(value, dict) else value
        say(f"{name}: {words}")
        if isinstance(value, dict) and value.get("waits for") == "approval":
            action_id = name.removeprefix("action ")
            say(f"  orchestrator approve {run_id} {action_id}\n  orchestrator refuse {run_id} {action_id}")


def cancel(  # noqa: PLR0913  one argument for each option of the command line
    typed: typer.Context,
    run_id: RunId,
    *,
    by: By = None,
    reason: Why = "",
    url: Url = None,
    api_token: ApiToken = None,
) -> None:
    """End a run, wherever it is being driven. Its Trace says who asked."""

    async def work() -> None:
        async with open_door(context(typed), url, api_token, by=by) as door:
            await door.cancel(run_id, reason)

    spin(work())
    say(run_id)


def approve(  # noqa: PLR0913  one argument for each option of the command line
    typed: typer.Context,
    run_id: RunId,
    action_id: ActionId,
    *,
    input: Annotated[str | None, typer.Option("--input", help="A JSON object: this input instead (an edit).")] = None,
    by: By = None,
    reason: Why = "",
    url: Url = None,
    api_token: ApiToken = None,
) -> None:
    """Let an action that waits for a person go ahead, as proposed or with another input."""
    edited = None if input is None else parsed(input, "--input")
    if edited is not None and not isinstance(edited, dict):
        raise ConfigError("--input: write a JSON object, such as '{\"amount\": 20}'")
    verdict: Verdict = "approve" if edited is None else "edit"

    async def work() -> None:
        async with open_door(context(typed), url, api_token, by=by) as door:
            await door.decide(run_id, action_id, verdict, reason, edited)

    spin(work())
    say(run_id)


def refuse(  # noqa: PLR0913  one argument for each option of the command line
    typed: typer.Context,
    run_id: RunId,
    action_id: ActionId,
    *,
    by: By = None,
    reason: Why = "",
    url: Url = None,
    api_token: ApiToken = None,
) -> None:
    """Refuse an action that waits for a person; the model is told by whom and why."""

    async def work() -> None:
        async with open_door(context(typed), url, api_token, by=by) as door:
            await door.decide(run_id, action_id, "refuse", reason, None)

    spin(work())
    say(run_id)


def callback(
    typed: typer.Context,
    token: Annotated[str, typer.Argument(help="What the tool found in context().callback.")],
    result: Annotated[str, typer.Argument(help="JSON: the result, or {status, code, data, message}; - reads stdin.")],
    *,
    url: Url = None,
) -> None:
    """Bring the result of a long tool; its run goes on. A token is good once."""
    value = parsed(sys.stdin.read() if result == "-" else result, "RESULT")

    async def work() -> str:
        async with open_door(context(typed), url, None) as door:
            return await door.callback(token, value)

    say(spin(work()))


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
