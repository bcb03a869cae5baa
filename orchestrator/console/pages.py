"""The pages and their forms."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import orjson
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from orchestrator.api import problems
from orchestrator.api.auth import COOKIE
from orchestrator.api.problems import Problem
from orchestrator.api.runs import find
from orchestrator.api.service import Service
from orchestrator.console.exact import raw_page, reply_page, request_page
from orchestrator.console.history import history
from orchestrator.console.listing import CHOICES, Filters, listed
from orchestrator.console.reader import view
from orchestrator.console.view import ended, labels_of, window
from orchestrator.console.visit import HERE, Page, Visit
from orchestrator.errors import ConfigError, OrchestratorError
from orchestrator.inbox import Verdict
from orchestrator.show import plain

VERDICTS: Mapping[str, Verdict] = {"approve": "approve", "edit": "edit", "refuse": "refuse"}
LONG = 200
"""Entries of a trace that is read on the event loop; a longer one is read beside it."""


def routes(service: Service) -> list[BaseRoute]:
    """The console's routes, for `create_app`."""

    def route(path: str, page: Page, method: str = "GET") -> Route:
        async def endpoint(request: Request) -> Response:
            visit = Visit(service, request)
            try:
                return await page(visit)
            except OrchestratorError as error:
                problem = problems.of(error)
                problems.log(problem, error)
                return refused(visit, problem)

        return Route(path, endpoint, methods=[method])

    return [
        route("/", list_page),
        route("/health", health_page),
        route("/runs/{run_id}", run_page),
        route("/runs/{run_id}/raw/{digest}", raw_page),
        route("/runs/{run_id}/steps/{step}/request", request_page),
        route("/runs/{run_id}/steps/{step}/reply", reply_page),
        route("/runs/{run_id}/cancel", cancel, "POST"),
        route("/runs/{run_id}/actions/{action_id}", decide, "POST"),
        route("/login", login_page),
        route("/login", login, "POST"),
        route("/logout", logout, "POST"),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]


def refused(visit: Visit, problem: Problem) -> Response:
    """The sign-in page for who is not known; else what is wrong, as a page."""
    if problem.status == 401 and visit.request.method == "GET":
        here = visit.request.url.path
        return RedirectResponse(f"/login?{urlencode({'next': here})}", 303)
    return visit.show("problem.html", problem.status, detail=plain(problem.detail), code=problem.code)


async def list_page(visit: Visit) -> Response:
    """The list of runs."""
    filters = Filters.of(visit.request.query_params)
    page = await listed(visit.service.store, filters, visit.known.tenant, visit.service.clock())
    older = None if page.next is None else urlencode({**filters.said, "cursor": page.next})
    return visit.show(
        "runs.html", rows=page.rows, searched=page.searched, filters=filters, older=older, choices=CHOICES
    )


async def run_page(visit: Visit) -> Response:
    """One run: waterfall and trace. `?from=N`: the steps from N on. `?part=1`: only what changes while it runs."""
    row = await find(visit.service, visit.known, visit.request.path_params["run_id"])
    trace, now = await visit.service.store.read(row.run_id), visit.service.clock()
    shown = view(trace, now) if len(trace) <= LONG else await asyncio.to_thread(view, trace, now)
    asked = _from(visit.request.query_params.get("from", ""))
    if shown.run.started is None:
        return visit.show("problem.html", 200, detail=shown.damaged, code="DAMAGED")
    return visit.show(
        "live.html" if visit.request.query_params.get("part") else "run.html",
        view=shown,
        run=shown.run,
        end=ended(shown.run),
        labels=labels_of(shown.run),
        row=row,
        window=window(shown, asked),
        asked=asked,
    )


async def cancel(visit: Visit) -> Response:
    """End a run."""
    fields = await visit.signed_form()
    visit.known.need("submit")
    row = await find(visit.service, visit.known, visit.request.path_params["run_id"])
    await visit.service.inbox.cancel(
        row.run_id, by=visit.known.name, via=visit.known.token, reason=fields.get("reason", "")
    )
    return RedirectResponse(f"/runs/{row.run_id}", 303)


async def decide(visit: Visit) -> Response:
    """A person's word on an action."""
    fields = await visit.signed_form()
    visit.known.need("approve")
    row = await find(visit.service, visit.known, visit.request.path_params["run_id"])
    verdict = VERDICTS.get(fields.get("verdict", ""))
    if verdict is None:
        raise Problem(422, "BAD_FORM", "approve, edit or refuse: reload the page and try again")
    given = _edited(fields.get("input", "")) if verdict == "edit" else None
    await visit.service.inbox.decide(
        row.run_id,
        visit.request.path_params["action_id"],
        verdict,
        by=visit.known.name,
        via=visit.known.token,
        input=given,
        reason=fields.get("reason", ""),
    )
    return RedirectResponse(f"/runs/{row.run_id}", 303)


async def health_page(visit: Visit) -> Response:
    """The three health metrics with their history."""
    hours = visit.request.query_params.get("hours", "24")
    span = int(hours) if re.fullmatch(r"[1-9]\d{0,3}", hours) else 24
    tenant, now = visit.known.tenant, visit.service.clock()
    return visit.show("health.html", hours=span, **await history(visit.service.store, tenant, now, span))


async def login_page(visit: Visit) -> Response:
    """Where a token is pasted."""
    return visit.show("login.html", next=_next(visit.request.query_params.get("next", "/")), wrong=False)


async def login(visit: Visit) -> Response:
    """Keep the token in a cookie that no script sees."""
    visit.service.gate.same_origin(visit.request)
    fields = await visit.form()
    after, text = _next(fields.get("next", "/")), fields.get("token", "").strip()
    try:
        visit.service.gate.known(text)
    except Problem:
        return visit.show("login.html", 401, next=after, wrong=True)
    response = RedirectResponse(after, 303)
    # behind a proxy that ends TLS only the Origin knows
    secure = "https" in {visit.request.url.scheme, visit.request.headers.get("origin", "").partition(":")[0]}
    response.set_cookie(COOKIE, text, httponly=True, samesite="lax", secure=secure)
    return response


async def logout(visit: Visit) -> Response:
    """Forget the token."""
    await visit.signed_form()
    response = RedirectResponse("/login", 303)
    response.delete_cookie(COOKIE)
    return response


def _from(text: str) -> int | None:
    """The step that the page begins with, if it is one."""
    return int(text) if re.fullmatch(r"[1-9][0-9]{0,6}", text) else None


def _edited(text: str) -> dict[str, Any]:
    try:
        given = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"the input is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise ConfigError('the input is a JSON object, such as {"amount": 20}')
    return given


def _next(asked: str) -> str:
    """Where to go after signing in: one of our own pages."""
    return asked if re.fullmatch(r"/(?:runs/[\w.:%~-]+|health)?", asked) else "/"
