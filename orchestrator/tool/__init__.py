"""What a tool is, and all that a file in `tools/` may import.

::

    @tool(repeatable=True, timeout=5, facts={"temperature": "/temperature"})
    async def get_weather(city: str) -> dict[str, float]:
        \"\"\"The weather now in a city.\"\"\"

A tool returns any JSON value (a success), a ToolResult, or `pending(...)`; it raises ToolError(code, message) to say that it
failed, and any other exception is reported by type and message. `context()` tells it on whose behalf it runs. What it fetches
it fetches through `web_client("its_name")`, which reaches what the operator's `[egress]` allows.
"""

from __future__ import annotations

from orchestrator.core.spec import ToolResult, ToolSpec
from orchestrator.egress import web_client
from orchestrator.tool.context import Context, context, on_behalf_of, trace_headers
from orchestrator.tool.define import Tool, ToolError, pending, tool
from orchestrator.tool.signature import Arguments
from orchestrator.tool.threads import Threads, abandoned

__all__ = [
    "Arguments",
    "Context",
    "Threads",
    "Tool",
    "ToolError",
    "ToolResult",
    "ToolSpec",
    "abandoned",
    "context",
    "on_behalf_of",
    "pending",
    "tool",
    "trace_headers",
    "web_client",
]
