"""An MCP server in the test's own process, written with the SDK: its tools can be changed, hung and crashed while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import mcp.types as words
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.shared.memory import create_client_server_memory_streams

from orchestrator.core.events import Action, Observation
from orchestrator.core.spec import Json
from orchestrator.egress import EgressSettings, Rules
from orchestrator.mcp.servers import open_servers
from orchestrator.mcp.transport import Tail, Watched
from orchestrator.mcp_settings import McpSettings
from orchestrator.tool import Context
from orchestrator.toolbox import Toolbox

Answer = words.CallToolResult
Handle = Callable[[Mapping[str, Any]], Awaitable[Answer]]
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def said(*texts: str, error: bool = False, structured: Any = None) -> Answer:
    content: list[Any] = [words.TextContent(type="text", text=each) for each in texts]
    return Answer(content=content, is_error=error, structured_content=structured)


class Inside:
    """A server by the name of `near`. `calls` are those that reached it; `down`: nobody can connect."""

    def __init__(self) -> None:
        self.tools: dict[str, tuple[words.Tool, Handle]] = {}
        self.calls: list[tuple[str, dict[str, Any] | None]] = []
        self.metas: list[dict[str, Any]] = []
        self.cancelled: list[str] = []
        self.connections = self.looks = 0
        self.down = False
        self.deaf = False
        self._sessions: list[Any] = []
        self._serving: list[asyncio.Task[None]] = []

    def tool(
        self, name: str, handle: Handle, *, description: str = "A tool.", schema: Any = None, **hints: bool
    ) -> None:
        annotations = words.ToolAnnotations.model_validate(hints, by_name=True) if hints else None
        listed = words.Tool(
            name=name, description=description, input_schema=TEXT if schema is None else schema, annotations=annotations
        )
        self.tools[name] = (listed, handle)

    def crash(self) -> None:
        """The process is gone: nothing more comes, what was under way is lost."""
        for task in self._serving:
            task.cancel()

    async def announce(self) -> None:
        """Tell every client that the tools changed."""
        for session in self._sessions:
            await session.send_tool_list_changed()

    @asynccontextmanager
    async def lead(
        self, _settings: McpSettings, _rules: Rules, ended: Callable[[], None], _tail: Tail
    ) -> AsyncIterator[tuple[Any, Any]]:
        if self.down:
            raise ConnectionRefusedError("nobody is at home")
        self.connections += 1
        async with create_client_server_memory_streams() as (ours, theirs):
            serving = asyncio.create_task(self._serve(theirs))
            self._serving = [serving]
            try:
                yield Watched(ours[0], ended), ours[1]
            finally:
                serving.cancel()
                await asyncio.wait((serving,))

    async def _serve(self, streams: Any) -> None:
        server: Server[Any] = Server("near", on_list_tools=self._list, on_call_tool=self._call)
        options = server.create_initialization_options(NotificationOptions(tools_changed=True))
        try:
            await server.run(streams[0], streams[1], options)
        finally:
            for stream in streams:
                await stream.aclose()

    async def _list(self, context: ServerRequestContext[Any], _params: Any) -> words.ListToolsResult:
        self.looks += 1
        if self.deaf:
            await asyncio.Event().wait()
        self._sessions = [context.session]
        return words.ListToolsResult(tools=[listed for listed, _ in self.tools.values()])

    async def _call(self, _context: ServerRequestContext[Any], params: words.CallToolRequestParams) -> Answer:
        self.calls.append((params.name, params.arguments))
        self.metas.append(dict(params.meta or {}))
        try:
            return await self.tools[params.name][1](params.arguments or {})
        except asyncio.CancelledError:
            self.cancelled.append(params.name)
            raise


async def until(true: Callable[[], object]) -> None:
    """Look again and again, as an operator would; virtual time makes that cheap."""
    async with asyncio.timeout(300):
        while not true():  # noqa: ASYNC110  what is waited for has no event
            await asyncio.sleep(0.05)


async def echo(given: Mapping[str, Any]) -> Answer:
    return said(str(given.get("text", "")))


async def hang(_given: Mapping[str, Any]) -> Answer:
    await asyncio.Event().wait()
    raise AssertionError


@asynccontextmanager
async def opened(server: Inside, **settings: Any) -> AsyncIterator[Toolbox]:
    """A toolbox with the tools of `server`, under the names mcp__near__NAME."""
    toolbox = Toolbox()
    given = McpSettings.model_validate({"command": "inside", "tools": "*", **settings})
    async with open_servers({"near": given}, EgressSettings(), toolbox, server.lead):
        yield toolbox


async def call(toolbox: Toolbox, tool: str, **given: Json) -> Observation:
    called = await toolbox.call(Action("1.0", f"mcp__near__{tool}", given), context=Context("run", "1.0", "run:1.0"))
    assert called.observation is not None
    return called.observation
