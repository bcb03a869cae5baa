"""The ASGI application: the table's routes, /openapi.json, and around them what every answer carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import orjson
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.api.openapi import document
from orchestrator.api.problems import Problem, handle, reply
from orchestrator.api.server import HEADERS
from orchestrator.api.service import Service
from orchestrator.api.state import JSON
from orchestrator.api.table import OPERATIONS
from orchestrator.assembly import secrets_of
from orchestrator.errors import OrchestratorError

ALWAYS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer a browser's own form says `Origin: null`
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
USUALLY: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}
"""Unless the answer says otherwise."""


TOO_MUCH = reply(
    Problem(
        431,
        "HEAD_TOO_LARGE",
        f"the request's line and headers are larger than {HEADERS} bytes: send less",
        {"Connection": "close"},
    )
)


def create_app(service: Service, pages: Sequence[BaseRoute] = ()) -> ASGIApp:
    """The API of this service; `pages` are the console's routes."""
    paths = dict.fromkeys(operation.path for operation in OPERATIONS)
    handling = partial(handle, secrets=secrets_of(service.settings))
    app = Starlette(
        routes=[*(_route(service, path) for path in paths), Route("/openapi.json", _openapi), *pages],
        exception_handlers={OrchestratorError: handling, HTTPException: handling, Exception: handling},
    )
    app.router.redirect_slashes = False
    return _Headers(app)


def _route(service: Service, path: str) -> Route:
    """One path, whatever its methods are."""
    operations = {operation.method: operation for operation in OPERATIONS if operation.path == path}

    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await operations[method].answer(service, request)

    return Route(path, endpoint, methods=list(operations))


async def _openapi(_request: Request) -> Response:
    return Response(orjson.dumps(document()), media_type=JSON)


class _Headers:
    """Security headers on every answer, and none for what a server should not say. A head that is too large goes no further: what
    comes in one piece is parsed whole, whatever the parser's own bound."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(ALWAYS)
                for name, value in USUALLY.items():
                    headers.setdefault(name, value)
            await send(message)

        await (TOO_MUCH if _head(scope) > HEADERS else self._app)(scope, receive, sending)


def _head(scope: Scope) -> int:
    """Bytes of a request's line and headers."""
    lines = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    return len(scope.get("raw_path") or b"") + len(scope["query_string"]) + lines
