"""One row for each operation: the same table routes requests and writes /openapi.json, so the two cannot differ."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from orchestrator.api.auth import Principal
from orchestrator.api.problems import Problem
from orchestrator.api.service import Service
from orchestrator.api.tokens import Scope
from orchestrator.api.words import Nothing

LARGEST_BODY = 1024 * 1024
BODY_SECONDS = 20.0
"""Seconds that a client has to send a body."""

NOBODY = Principal("", None, frozenset())
_ALWAYS = (401, 403, 422, 431, 500, 503)
_WITH_BODY = (408, 413, 415)


@dataclass(frozen=True, slots=True)
class Call:
    """One request, let in and read. `query` and `body` are of the operation's models."""

    service: Service
    request: Request
    who: Principal
    query: Any
    body: Any

    @property
    def path(self) -> Mapping[str, str]:
        """The variables of the path."""
        return self.request.path_params


Handler: TypeAlias = Callable[[Call], Awaitable[Response]]
Admits: TypeAlias = Callable[[Service, Request], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`scope` None: no token is asked for; then `admits` raises before the body of a stranger is read. `answers` is by status; a string there is a media type. `largest` is in bytes."""

    method: str
    path: str
    says: str
    handler: Handler
    scope: Scope | None
    answers: Mapping[int, type[BaseModel] | str | None]
    query: type[BaseModel] = Nothing
    body: type[BaseModel] | None = None
    optional: bool = False
    admits: Admits | None = None
    largest: int = LARGEST_BODY
    problems: tuple[int, ...] = field(default=())

    @property
    def name(self) -> str:
        """The operation's id."""
        return self.handler.__name__.rstrip("_")

    @property
    def statuses(self) -> tuple[int, ...]:
        """Every problem it may answer with."""
        usual = tuple(each for each in _ALWAYS if self.scope is not None or each not in {401, 403})
        return tuple(sorted({*usual, *self.problems, *(_WITH_BODY if self.body else ())}))

    async def answer(self, service: Service, request: Request) -> Response:
        """Let in, read, do. Problem for whatever is not as it should be."""
        who = NOBODY
        if self.scope is not None:
            who = service.gate.who(request)
            who.need(self.scope)
        if self.admits is not None:
            self.admits(service, request)
        query = checked(self.query, dict(request.query_params), "the query")
        body = None if self.body is None else checked(self.body, await self._read(request), "the body")
        return await self.handler(Call(service, request, who, query, body))

    async def _read(self, request: Request) -> Any:
        """The body as plain data; {} for none where none is needed."""
        raw = await body_of(request, self.largest)
        if not raw and self.optional:
            return {}
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Problem(415, "NOT_JSON", "send the body as JSON, with `Content-Type: application/json`")
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise Problem(422, "BAD_JSON", f"the body is no JSON: {error}") from None


def checked(model: type[BaseModel], raw: Any, place: str) -> Any:
    """The model's value. Problem 422 names each field that is wrong."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        wrong: dict[str, list[ErrorDetails]] = {}
        for each in error.errors():
            wrong.setdefault(_place(each, raw) or place, []).append(each)
        said = [f"{where}: {_said(several)}" for where, several in wrong.items()]
        raise Problem(422, "INVALID", f"{place} is not as it should be. {'; '.join(said[:5])}") from None


def _place(error: ErrorDetails, raw: Any) -> str:
    """Where it is in what was sent. The names that pydantic gives to the choices of a type are ours, and left out."""
    here: Any = raw
    parts: list[int | str] = []
    for part in error["loc"]:
        if part in here if isinstance(here, Mapping) else isinstance(here, list) and isinstance(part, int):
            parts.append(part)
            here = here[part]
        elif error["type"] == "missing" and part == error["loc"][-1]:
            parts.append(part)
    return ".".join(map(str, parts))


def _said(several: Sequence[ErrorDetails]) -> str:
    """What is wrong in one place: each of the choices of a type says what it allows."""
    allowed = [each.get("ctx", {}).get("expected") for each in several]
    if len(several) > 1 and all(allowed):
        return f"Input should be {' or '.join(map(str, allowed))}"
    return " or ".join(dict.fromkeys(each["msg"] for each in several))


async def body_of(request: Request, largest: int) -> bytes:
    """The whole body. Problem 413 as soon as it is too large, 408 when it does not come."""
    too_large = Problem(
        413, "TOO_LARGE", f"the body is larger than {largest} bytes: send less", {"Connection": "close"}
    )
    said = request.headers.get("content-length", "0")
    if not said.isdecimal() or int(said[:20]) > largest:
        raise too_large
    pieces = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                pieces += piece
                if len(pieces) > largest:
                    raise too_large
    except TimeoutError:
        raise Problem(
            408, "TOO_SLOW", f"the body did not come within {BODY_SECONDS:g} s: send it again", {"Connection": "close"}
        ) from None
    except ClientDisconnect:
        raise Problem(408, "GONE", "the client went away in the middle of its body") from None
    return bytes(pieces)
