"""The pages and their forms."""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qs, quote, urlencode

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from orchestrator.api import problems
from orchestrator.api.auth import COOKIE, Principal
from orchestrator.api.operation import body_of
from orchestrator.api.problems import Problem
from orchestrator.api.runs import find
from orchestrator.api.service import Service
from orchestrator.console.history import history
from orchestrator.console.listing import CHOICES, Filters, listed
from orchestrator.console.view import ended, labels_of, view
from orchestrator.console.words import preferred, words
from orchestrator.core.events import Observation
from orchestrator.errors import ConfigError, OrchestratorError
from orchestrator.inbox import Verdict
from orchestrator.show import plain, when

HERE = Path(__file__).parent
LARGEST_FORM = 256 * 1024
LARGEST_RAW = 2_000_000
YEAR = 365 * 86_400
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
VERDICTS: Mapping[str, Verdict] = {"approve": "approve", "edit": "edit", "refuse": "refuse"}

Page: TypeAlias = Callable[["Visit"], Awaitable[Response]]

_pages = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_pages.filters |= {
    "when": when,
    "plain": plain,
    "seconds": "{:.2f}".format,
    "link": lambda text: quote(plain(text), safe=""),
}


class Visit:
    """One request of a browser. `who` is None before signing in."""

    def __init__(self, service: Service, request: Request) -> None:
        self.service, self.request = service, request
        self.who: Principal | None = None
        asked = request.query_params.get("lang")
        self.language = preferred(asked, request.cookies.get("lang"), request.headers.get("accept-language", ""))

    @property
    def known(self) -> Principal:
        """Who it is. Problem 401 before signing in, 403 without leave to read."""
        if self.who is None:
            self.who = self.service.gate.who(self.request)
            self.who.need("read")
        return self.who

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page."""
        common = {"t": words(self.language), "lang": self.language, "who": self.who, "path": self.request.url.path}
        text = _pages.get_template(template).render({**common, **values})
        body = text.encode("utf-8", "replace")
        response = Response(body, status, {"Content-Security-Policy": POLICY}, "text/html")
        if self.request.query_params.get("lang") in {"en", "zh"}:
            response.set_cookie("lang", self.language, YEAR, httponly=True, samesite="lax")
        return response

    async def form(self) -> Mapping[str, str]:
        """What was filled in; each field once."""
        raw = await body_of(self.request, LARGEST_FORM)
        try:
            fields = parse_qs(raw.decode(), keep_blank_values=True, strict_parsing=bool(raw), max_num_fields=20)
        except (UnicodeDecodeError, ValueError):
            raise Problem(422, "BAD_FORM", "this is no form of ours: reload the page and try again") from None
        return {name: values[-1] for name, values in fields.items()}

    async def signed_form(self) -> Mapping[str, str]:
        """A form that came from our own page. Problem 403 otherwise."""
        who, fields = self.known, await self.form()
        if not hmac.compare_digest(fields.get("form", "").encode(), who.form.encode()):
            raise Problem(
                403,
                "FOREIGN_FORM",
                "this form is not from this page, or you signed in anew: reload the page and try again",
            )
        return fields


def routes(service: Service) -> list[BaseRoute]:
    """The console's routes, for `create_app`."""

    def route(path: str, page: Page, method: str = "GET") -> Route:
        async def endpoint(request: Request) -> Response:
            visit = Visit(service, request)
            try:
                return await page(visit)
            except OrchestratorError as error:
                return refused(visit, problems.of(error))

        return Route(path, endpoint, methods=[method])

    return [
        route("/", list_page),
        route("/health", health_page),
        route("/runs/{run_id}", run_page),
        route("/runs/{run_id}/raw/{digest}", raw_page),
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
    """One run: waterfall and trace. `?part=1`: only what changes while it runs."""
    row = await find(visit.service, visit.known, visit.request.path_params["run_id"])
    trace = await visit.service.store.read(row.run_id)
    shown = view(trace, visit.service.clock())
    template = "live.html" if visit.request.query_params.get("part") else "run.html"
    if shown.run.started is None:
        return visit.show("problem.html", 200, detail=shown.damaged, code="DAMAGED")
    return visit.show(template, view=shown, run=shown.run, end=ended(shown.run), labels=labels_of(shown.run), row=row)


async def raw_page(visit: Visit) -> Response:
    """What a tool really sent, as text."""
    row, digest = (
        await find(visit.service, visit.known, visit.request.path_params["run_id"]),
        visit.request.path_params["digest"],
    )
    trace = await visit.service.store.read(row.run_id)
    known = any(isinstance(entry.event, Observation) and entry.event.digest == digest for entry in trace)
    body = await visit.service.store.blob(digest) if known else None
    if body is None:
        raise Problem(404, "UNKNOWN_BODY", "no Observation of this run has that raw body, or it has been purged")
    text = plain(body[:LARGEST_RAW].decode("utf-8", "backslashreplace"))
    return visit.show("raw.html", row=row, digest=digest, text=text, size=len(body), cut=len(body) > LARGEST_RAW)


async def cancel(visit: Visit) -> Response:
    """End a run."""
    fields = await visit.signed_form()
    visit.known.need("submit")
    row = await find(visit.service, visit.known, visit.request.path_params["run_id"])
    await visit.service.inbox.cancel(row.run_id, by=visit.known.name, reason=fields.get("reason", ""))
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
    secure = visit.request.url.scheme == "https"
    response.set_cookie(COOKIE, text, httponly=True, samesite="lax", secure=secure)
    return response


async def logout(visit: Visit) -> Response:
    """Forget the token."""
    await visit.signed_form()
    response = RedirectResponse("/login", 303)
    response.delete_cookie(COOKIE)
    return response


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
