"""The operations on runs: submit, list, get, follow, decide, call back."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from orchestrator.api.auth import Principal
from orchestrator.api.events import EventStream
from orchestrator.api.operation import Call
from orchestrator.api.problems import Problem
from orchestrator.api.service import Service
from orchestrator.api.state import cursor, line, opened, reply, state
from orchestrator.api.words import RunPage, RunState, Submission
from orchestrator.assembly import RunRequest, new_run_id, started
from orchestrator.core.events import Observation, RunStarted
from orchestrator.dispatch import Job, needs_of
from orchestrator.dispatch.lack import why
from orchestrator.inbox import Verdict
from orchestrator.stores import RunRow
from orchestrator.stores.earlier import informed
from orchestrator.traceparent import LABEL, parse

LONGEST_RUN_ID = 200
TRACEPARENT = 55
"""Characters of a traceparent of version 00; what a later version adds behind them is not ours to keep."""


async def submit_run(call: Call) -> Response:
    """Begin a run, once for each key: 201 for a new one, 200 for the one that there is already."""
    service, asked = call.service, call.body
    first = started(service.settings, service.specs, request_of(asked, tenant_of(call, asked.tenant)))
    first = continued(first, call.request.headers.get("traceparent", ""))
    now = service.clock()
    first = await informed(service.store, first, now=now)
    job = Job(new_run_id(now), first.tenant, asked.priority, asked.at or 0.0, asked.key, needs_of(first))
    done = await service.dispatcher.submit(job, first, now=now)
    words = await found(call, done.run_id)
    return reply(words, 201 if done.fresh else 200, {"Location": f"/v1/runs/{done.run_id}"})


def continued(first: RunStarted, given: str) -> RunStarted:
    """With the submitter's trace context (W3C) as a label, unless the labels hold one: the run's spans go on with that trace."""
    if LABEL in first.labels or parse(given[:TRACEPARENT]) is None:
        return first
    return replace(first, labels={**first.labels, LABEL: given[:TRACEPARENT]})


async def list_runs(call: Call) -> Response:
    """A page of the list."""
    query = call.query
    rows = await call.service.store.runs(
        since=query.since,
        until=query.until,
        outcome=query.outcome,
        agent=query.agent,
        tenant=query.tenant if call.who.tenant is None else tenant_of(call, query.tenant),
        after=None if query.cursor is None else opened(query.cursor),
        limit=query.limit + 1,
    )
    page = rows[: query.limit]
    words = RunPage(runs=[line(row) for row in page], next=cursor(page[-1]) if len(rows) > len(page) else None)
    return reply(words)


async def get_run(call: Call) -> Response:
    """A run as it stands; one that is open and that no worker takes says why."""
    words = await found(call, call.path["run_id"])
    if words.state == "open":
        lacks = await call.service.dispatcher.lacks(words.run_id, now=call.service.clock())
        words = words.model_copy(update={"detail": why(lacks)})
    return reply(words)


async def follow_run(call: Call) -> Response:
    """Its events from anywhere on, live until it ends."""
    row = await seen(call, call.path["run_id"])
    after = last_seen(call)
    if row.outcome is not None and after >= row.last_seq:
        return Response(status_code=204)
    return EventStream(call, row.run_id, after)


async def get_raw(call: Call) -> Response:
    """The body that a tool really sent, by the digest in its Observation. It is hostile: never shown, only saved."""
    row, digest = await seen(call, call.path["run_id"]), call.path["digest"]
    trace = await call.service.store.read(row.run_id)
    known = any(isinstance(entry.event, Observation) and entry.event.digest == digest for entry in trace)
    body = await call.service.store.blob(digest) if known else None
    if body is None:
        raise Problem(404, "UNKNOWN_BODY", "no Observation of this run has that raw body, or it has been purged")
    return Response(body, media_type="application/octet-stream", headers={"Content-Disposition": "attachment"})


async def cancel_run(call: Call) -> Response:
    """End it, wherever it is being driven."""
    row = await seen(call, call.path["run_id"])
    await call.service.inbox.cancel(row.run_id, by=call.who.name, via=call.who.token, reason=call.body.reason)
    return reply(await found(call, row.run_id))


async def approve_action(call: Call) -> Response:
    """Let an action that waits for a person go ahead."""
    return await decided(call, "approve")


async def edit_action(call: Call) -> Response:
    """Let it go ahead with another input."""
    return await decided(call, "edit")


async def refuse_action(call: Call) -> Response:
    """Refuse it; the model is told by whom and why."""
    return await decided(call, "refuse")


def expected(service: Service, request: Request) -> None:
    """NotTaken for a callback whose token is none of ours, or too old: its body is not even read."""
    service.inbox.claimed(request.path_params["token"])


async def call_back(call: Call) -> Response:
    """Bring the result of a long tool; the token in the path is signed, expires, and is good once."""
    await call.service.inbox.callback(call.path["token"], call.body.root)
    return Response(status_code=204)


async def decided(call: Call, verdict: Verdict) -> Response:
    """A person's word on an action."""
    row = await seen(call, call.path["run_id"])
    given = call.body.input if verdict == "edit" else None
    who = call.who
    await call.service.inbox.decide(
        row.run_id, call.path["action_id"], verdict, by=who.name, via=who.token, input=given, reason=call.body.reason
    )
    return reply(await found(call, row.run_id))


async def find(service: Service, who: Principal, run_id: str) -> RunRow:
    """The run's row. Problem 404 when there is none, and just the same when it is another tenant's."""
    row = await service.store.row(run_id) if run_id.isprintable() and len(run_id) <= LONGEST_RUN_ID else None
    if row is None or not who.sees(row.tenant):
        raise Problem(404, "UNKNOWN_RUN", "there is no such run: `GET /v1/runs` lists those that you can see")
    return row


async def seen(call: Call, run_id: str) -> RunRow:
    """The run's row, if whoever calls may know of it. Problem 404 as `find`."""
    return await find(call.service, call.who, run_id)


async def found(call: Call, run_id: str) -> RunState:
    """The run as it stands. Problem 404 as `seen`."""
    row = await seen(call, run_id)
    return state(row, await call.service.store.read(run_id))


def last_seen(call: Call) -> int:
    """Where to go on: the header of a client that comes back, or the query."""
    header = call.request.headers.get("last-event-id", "").strip()
    if not header:
        return int(call.query.after)
    if not (header.isascii() and header.isdigit() and len(header) < 17):
        raise Problem(422, "BAD_EVENT_ID", "Last-Event-ID is a seq, a whole number from 0: send the id of an event")
    return int(header)


def tenant_of(call: Call, asked: str | None) -> str:
    """On whose account. Problem 403 for another tenant's."""
    if asked is None or call.who.tenant is None:
        return asked or call.who.tenant or ""
    if asked != call.who.tenant:
        raise Problem(403, "FOREIGN_TENANT", "this token is another tenant's: leave `tenant` out")
    return asked


def request_of(asked: Submission, tenant: str) -> RunRequest:
    """The submission in the assembly's words."""
    return RunRequest(
        asked.goal,
        asked.agent,
        model=asked.model,
        protocol=asked.protocol,
        language=asked.language,
        instructions=asked.instructions,
        tools=asked.tools,
        max_steps=asked.max_steps,
        deadline=asked.deadline,
        max_tokens=asked.max_tokens,
        max_cost=asked.max_cost,
        tenant=tenant,
        run_kind=asked.kind,
        min_steps=asked.min_steps,
        labels=asked.labels,
    )
