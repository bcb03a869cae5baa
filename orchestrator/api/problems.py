"""Errors as `application/problem+json` (RFC 9457): what happened, and what to do. Nothing of the inside goes out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from orchestrator.api.tokens import TokensUnreadable
from orchestrator.core.clean import hide
from orchestrator.errors import ConfigError, OrchestratorError, StoreError
from orchestrator.inbox import NotTaken

MEDIA = "application/problem+json"
SOON = {"Retry-After": "2"}
_log = structlog.stdlib.get_logger("orchestrator.api")

_NOT_TAKEN: Mapping[str, int] = {
    "UNKNOWN_RUN": 404,
    "RUN_ENDED": 409,
    "NOT_WAITING": 409,
    "BAD_TOKEN": 403,  # nosec B105  # the name of an error
    "EXPIRED": 410,
    "BAD_RESULT": 422,
    "INVALID_ARGUMENTS": 422,
    "BUSY": 503,
}


class Problem(OrchestratorError):
    """An answer that is no success. `code` is an UPPER_SNAKE word, `detail` one sentence that says what to do."""

    def __init__(self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.status, self.code, self.detail = status, code, detail
        self.headers = dict(headers or {})


def body_of(problem: Problem) -> bytes:
    """The problem as JSON."""
    title = HTTPStatus(problem.status).phrase
    words = {
        "type": f"urn:orchestrator:problem:{problem.code.lower()}",
        "title": title,
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
    }
    return json.dumps(words).encode()


def reply(problem: Problem) -> Response:
    """The problem as a response."""
    return Response(body_of(problem), problem.status, problem.headers, MEDIA)


def of(error: Exception) -> Problem:
    """What an error says to a client. Anything unforeseen is a 500 that says nothing but that."""
    match error:
        case Problem():
            return error
        case NotTaken():
            status = _NOT_TAKEN.get(error.code, 409)
            return Problem(
                status, error.code, str(error).removeprefix(f"{error.code}: "), SOON if status == 503 else None
            )
        case ConfigError():
            return Problem(422, "NOT_CONFIGURED", str(error))
        case TokensUnreadable():
            return Problem(
                503,
                "TOKENS_UNAVAILABLE",
                f"this server's file of tokens {error.why}, so nobody gets in: its operator must mend it; the log names it",
                SOON,
            )
        case StoreError():
            return Problem(503, "STORE_UNAVAILABLE", "the store cannot be reached just now: try again later", SOON)
        case HTTPException():
            return _of_http(error)
        case _:
            return Problem(500, "INTERNAL_ERROR", "something unforeseen happened here; it is in this server's log")


def log(problem: Problem, error: Exception) -> None:
    """What is not the client's goes into the log."""
    if problem.status >= 500:
        _log.error("request failed", code=problem.code, error=repr(error))


async def handle(_request: Request, error: Exception, secrets: tuple[str, ...] = ()) -> Response:
    """For starlette: any error as a problem, without the `secrets`. What is not the client's goes into the log."""
    problem = of(error)
    log(problem, error)
    return reply(Problem(problem.status, problem.code, hide(problem.detail, secrets), problem.headers))


def _of_http(error: HTTPException) -> Problem:
    headers = dict(error.headers or {})
    if error.status_code == 404:
        return Problem(404, "NOT_FOUND", "there is nothing here: /openapi.json lists what there is", headers)
    if error.status_code == 405:
        allowed = headers.get("Allow") or headers.get("allow", "")
        return Problem(405, "METHOD_NOT_ALLOWED", f"use {allowed or 'another method'} here", headers)
    return Problem(error.status_code, "BAD_REQUEST", str(error.detail), headers)
