"""All servers of the settings: opened together, their tools put into a toolbox, what is missing said there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

from orchestrator.core.spec import ToolResult
from orchestrator.egress import EgressSettings, Rules
from orchestrator.mcp.connection import Connection
from orchestrator.mcp.listing import Listing, Pinned, offered_name
from orchestrator.mcp.transport import Tail, rules_for, transport
from orchestrator.mcp_settings import McpSettings
from orchestrator.tool import Tool
from orchestrator.toolbox import Toolbox

ENDING = 8.0
"""Seconds that sessions have to end: a child process that ignores the end of its stdin is killed within them."""

Lead: TypeAlias = Callable[[McpSettings, Rules, Callable[[], None], Tail], AbstractAsyncContextManager[tuple[Any, Any]]]
"""How a server of the settings is reached; tests lead to one in their own process."""


@asynccontextmanager
async def open_servers(
    servers: Mapping[str, McpSettings], egress: EgressSettings, toolbox: Toolbox, lead: Lead = transport
) -> AsyncIterator[None]:
    """Connected while the block lasts. Waits for each server until it is there or has failed once, never raises for one.

    Tools of a server that comes later join the toolbox then; `toolbox.absent` says what is not there, and why.
    """
    for name in ("mcp", "client"):  # the SDK logs what servers send, unmasked
        logging.getLogger(name).setLevel(logging.CRITICAL)

    def pinned(connection: Connection, listing: Listing) -> None:
        toolbox.join(_tool(connection, each) for each in listing.tools.values())
        toolbox.absent.update({offered_name(connection.name, tool): why for tool, why in listing.refused.items()})

    connections = [
        Connection(name, each, partial(lead, each, rules_for(each, egress, name)), pinned, toolbox.absent)
        for name, each in servers.items()
    ]
    tasks = {asyncio.create_task(each.run(), name=f"mcp {each.name}"): each for each in connections}
    try:
        await asyncio.gather(*(each.settled.wait() for each in connections))
        yield
    finally:
        for task, each in tasks.items():
            each.stop()
            if not each.connected:
                task.cancel()
        _, late = await asyncio.wait(tasks, timeout=ENDING)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=ENDING)


def _tool(connection: Connection, pinned: Pinned) -> Tool:
    async def call(**arguments: Any) -> ToolResult:
        return await connection.call(pinned, arguments)

    return Tool(pinned.spec, call, pinned.arguments, home=f"the MCP server {connection.name}")
