"""How the tests of the shipped tools call them: the plain function, and what it says when it refuses."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchestrator.tool import Tool, ToolError

RECORDED = Path(__file__).parent / "recorded"


async def call(tool: Tool, **given: Any) -> Any:
    """What the tool's function returns."""
    result = tool.function(**given)
    return await result if inspect.isawaitable(result) else result


async def refused(tool: Tool, **given: Any) -> ToolError:
    """The ToolError of a call that must not succeed."""
    with pytest.raises(ToolError) as caught:
        await call(tool, **given)
    return caught.value


def answering(choose: Callable[[httpx.Request], str | httpx.Response]) -> httpx.MockTransport:
    """A transport that answers with the recorded file that `choose` names, or with its response."""

    def handle(request: httpx.Request) -> httpx.Response:
        chosen = choose(request)
        return (
            chosen
            if isinstance(chosen, httpx.Response)
            else httpx.Response(200, json=json.loads((RECORDED / chosen).read_text("utf-8")))
        )

    return httpx.MockTransport(handle)
