"""The orchestrator as an MCP server (extra `[mcp]`): three tools, `submit`, `status` and `answer`, for agents that ask agents.

They stand on the same service as the HTTP API, with its tokens, scopes and tenants. Approving is no tool: that is a person's word.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import orjson
import structlog
from mcp import MCPError
from mcp import types as words
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from orchestrator.api.auth import Principal
from orchestrator.api.operation import LARGEST_BODY, body_of, checked
from orchestrator.api.problems import of
from orchestrator.api.runs import find, request_of
from orchestrator.api.service import Service
from orchestrator.api.state import reply, state
from orchestrator.api.tokens import Scope as Right
from orchestrator.api.words import Asked, Count, Name, RunState, Submission
from orchestrator.assembly import new_run_id, secrets_of, started
from orchestrator.core.clean import hide
from orchestrator.dispatch import Job, needs_of

PATH = "/mcp"
LONGEST_WAIT = 50.0
"""Seconds that one call of `answer` may wait: clients give up on a call after a minute."""
_WHO = "orchestrator.who"
_BRIEF = frozenset({"run_id", "state", "outcome", "answer", "missing", "code", "detail", "waiting"})
_log = structlog.stdlib.get_logger("orchestrator.api")


class Submit(Asked):
    """Ask an agent a question: begins a run and gives its id. The same key again gives back the first run."""

    goal: Annotated[str, Field(min_length=1, max_length=100_000, description="The question, complete in itself.")]
    agent: Annotated[Name, Field(description="Which agent of this orchestrator is to answer.")] = "default"
    max_steps: Count | None = None
    deadline: Annotated[float, Field(gt=0, le=1e9, description="Seconds for the whole run.")] | None = None
    key: Annotated[Name, Field(min_length=1, description="Makes a repeated submission harmless.")] | None = None


class Status(Asked):
    """How a run stands: its state, steps, tokens, and what waits for a person."""

    run_id: Name


class Answer(Asked):
    """The answer of a run. Waits for it; while the state is not "ended" there is none yet, so ask again."""

    run_id: Name
    wait: Annotated[float, Field(ge=0, le=LONGEST_WAIT, description="Seconds to wait at most.")] = 30.0


Work: TypeAlias = Callable[[Service, Principal, Any], Awaitable[RunState]]
Who: TypeAlias = Callable[[ServerRequestContext[Any, Any]], Principal]
"""On whose behalf a message came. Raises Problem for nobody."""


@dataclass(frozen=True, slots=True)
class _Tool:
    asked: type[BaseModel]
    scope: Right
    work: Work
    told: frozenset[str] | None = _BRIEF


async def _submit(service: Service, who: Principal, asked: Submit) -> RunState:
    wanted = Submission.model_validate(asked.model_dump())
    first = started(service.settings, service.specs, request_of(wanted, who.tenant or ""))
    now = service.clock()
    job = Job(new_run_id(now), first.tenant, 0, 0.0, asked.key, needs_of(first))
    done = await service.dispatcher.submit(job, first, now=now)
    return await _found(service, who, done.run_id)


async def _status(service: Service, who: Principal, asked: Status) -> RunState:
    return await _found(service, who, asked.run_id)


async def _answer(service: Service, who: Principal, asked: Answer) -> RunState:
    row = await find(service, who, asked.run_id)
    if row.outcome is None and asked.wait:
        with service.followers.one_more(who.name):
            ended = asyncio.ensure_future(_ended(service, row.run_id, row.last_seq))
            closing = asyncio.ensure_future(service.closing.wait())
            try:
                await asyncio.wait((ended, closing), timeout=asked.wait, return_when=asyncio.FIRST_COMPLETED)
            finally:
                ended.cancel()
                closing.cancel()
                await asyncio.gather(ended, closing, return_exceptions=True)
    return await _found(service, who, asked.run_id)


async def _ended(service: Service, run_id: str, after: int) -> None:
    async for _ in service.store.follow(run_id, after):
        pass


async def _found(service: Service, who: Principal, run_id: str) -> RunState:
    row = await find(service, who, run_id)
    return state(row, await service.store.read(run_id))


TOOLS: Mapping[str, _Tool] = {
    "submit": _Tool(Submit, "submit", _submit),
    "status": _Tool(Status, "read", _status, None),
    "answer": _Tool(Answer, "read", _answer),
}


def make_server(service: Service, who: Who) -> Server[Any]:
    """The three tools over this service."""
    tools = _Tools(service, who)
    return Server("orchestrator", version="1", on_list_tools=tools.listed, on_call_tool=tools.call)


class _Tools:
    def __init__(self, service: Service, who: Who) -> None:
        self._service, self._who = service, who
        self._secrets = secrets_of(service.settings)

    async def listed(self, _context: Any, _params: Any) -> words.ListToolsResult:
        return words.ListToolsResult(tools=[_listed(name, tool) for name, tool in TOOLS.items()])

    async def call(
        self, context: ServerRequestContext[Any, Any], params: words.CallToolRequestParams
    ) -> words.CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(words.INVALID_PARAMS, f"Unknown tool: {params.name[:80]}")
        try:
            who = self._who(context)
            who.need(tool.scope)
            asked = checked(tool.asked, params.arguments or {}, "the arguments")
            return _told(await tool.work(self._service, who, asked), tool.told)
        except Exception as error:  # noqa: BLE001  the SDK would tell a stranger what went wrong inside
            problem = of(error)
            if problem.status >= 500:
                _log.error("request failed", code=problem.code, error=repr(error))
            text = hide(f"{problem.code}: {problem.detail}", self._secrets)
            return words.CallToolResult(content=[words.TextContent(type="text", text=text)], is_error=True)


def _listed(name: str, tool: _Tool) -> words.Tool:
    schema = tool.asked.model_json_schema()
    description = schema.pop("description")
    hints = words.ToolAnnotations(read_only_hint=tool.scope == "read", destructive_hint=False, open_world_hint=True)
    return words.Tool(name=name, description=description, input_schema=schema, annotations=hints)


def _told(run: RunState, fields: frozenset[str] | None) -> words.CallToolResult:
    """As the HTTP API writes it: whatever a model wrote, it is JSON."""
    told = orjson.loads(bytes(reply(run).body))
    told = {key: value for key, value in told.items() if fields is None or key in fields}
    text = orjson.dumps(told).decode()
    return words.CallToolResult(content=[words.TextContent(type="text", text=text)], structured_content=told)


@asynccontextmanager
async def open_door(service: Service) -> AsyncIterator[list[BaseRoute]]:
    """The route for streamable HTTP, while the block lasts: each POST stands for itself, with its token; there are no sessions."""

    def who(context: ServerRequestContext[Any, Any]) -> Principal:
        request: Any = context.request
        known: Principal = request.scope[_WHO]
        return known

    manager = StreamableHTTPSessionManager(
        make_server(service, who), json_response=True, stateless=True, max_request_body_size=LARGEST_BODY
    )
    async with manager.run():
        yield [Route(PATH, _Door(service, manager), methods=["POST"])]


class _Door:
    """Lets in as the HTTP API does: the token, the foreign page, the size and the time of the body; then it is the SDK's."""

    def __init__(self, service: Service, manager: StreamableHTTPSessionManager) -> None:
        self._service, self._manager = service, manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        principal = self._service.gate.who(request)
        body: Message | None = {"type": "http.request", "body": await body_of(request, LARGEST_BODY)}

        async def again() -> Message:
            nonlocal body
            whole, body = body, None
            return await receive() if whole is None else whole

        await self._manager.handle_request({**scope, _WHO: principal}, again, send)
