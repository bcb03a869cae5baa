"""Streamable HTTP to servers that refuse, redirect, compress, never end, or lead elsewhere: through the egress, and told to the operator."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from orchestrator.egress import EgressSettings
from orchestrator.mcp.servers import open_servers
from orchestrator.mcp.stdio import LARGEST
from orchestrator.mcp_settings import McpSettings
from orchestrator.toolbox import Toolbox
from tests.mcp.inside import call
from tests.mcp.raw import answer

Reply = Callable[[dict[str, Any], asyncio.StreamWriter], Awaitable[None]]


async def send(writer: asyncio.StreamWriter, status: str, body: bytes = b"", **headers: str) -> None:
    given = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close", **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in given.items())
    writer.write(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body)
    await writer.drain()


def said(asked: dict[str, Any]) -> bytes:
    result = answer(asked["method"], asked.get("params", {}))
    shape = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
    return json.dumps({"jsonrpc": "2.0", "id": asked["id"], **shape}).encode()


@asynccontextmanager
async def served(reply: Reply) -> AsyncIterator[str]:
    """A server on loopback that gives each message with an id to `reply`, and takes the others."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length:")[2].partition("\r\n")[0] or 0)
            asked = json.loads(await reader.readexactly(length) or b"{}")
            if head.startswith("post") and "id" in asked:
                await reply(asked, writer)
            else:
                await send(writer, "202 Accepted" if head.startswith("post") else "405 Method Not Allowed")
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()


@asynccontextmanager
async def offered(reply: Reply, **more: Any) -> AsyncIterator[Toolbox]:
    toolbox = Toolbox()
    async with served(reply) as url:
        near = McpSettings(url=url, tools="*", connect=5, **more)
        async with open_servers({"near": near}, EgressSettings(loopback=True), toolbox):
            yield toolbox


async def test_a_plain_server_that_answers_in_json_is_enough() -> None:
    async def reply(asked: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await send(writer, "200 OK", said(asked))

    async with offered(reply) as toolbox:
        assert "echo: hello" in (await call(toolbox, "echo", text="hello")).content


async def test_a_packed_reply_is_unpacked_within_bounds_and_a_bomb_is_not() -> None:
    async def reply(asked: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        body = said(asked)
        if asked["method"] == "tools/call" and asked["params"]["arguments"]["text"] == "bomb":
            body = b" " * (4 * LARGEST) + body
        await send(writer, "200 OK", gzip.compress(body, 1), Content_Encoding="gzip")

    async with offered(reply) as toolbox:
        assert (await call(toolbox, "echo", text="hello")).status == "success"
        seen = await call(toolbox, "echo", text="bomb")
        assert (seen.status, seen.code) == ("error", "UNAVAILABLE")


@pytest.mark.parametrize("status", ["401 Unauthorized", "503 Service Unavailable"])
async def test_what_a_server_answers_instead_is_told_to_the_operator(status: str) -> None:
    async def reply(_asked: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await send(writer, status)

    async with offered(reply) as toolbox:
        assert f"HTTP {status[:3]}" in toolbox.absent["mcp__near__"]


async def test_a_redirect_to_another_origin_is_not_followed() -> None:
    async def elsewhere(asked: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        reached.append(asked["method"])
        await send(writer, "200 OK", said(asked))

    async def reply(_asked: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await send(writer, "307 Temporary Redirect", Location=other)

    reached: list[str] = []
    async with served(elsewhere) as other, offered(reply, headers={"Authorization": "Bearer tok-tok-tok"}) as toolbox:
        assert toolbox.specs == ()
        assert toolbox.absent
    assert reached == []


async def test_a_reply_that_never_ends_is_cut_off_at_the_tools_timeout() -> None:
    async def reply(asked: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if asked["method"] != "tools/call":
            await send(writer, "200 OK", said(asked))
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        while not writer.is_closing():
            writer.write(b": still here\n\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with offered(reply, timeout=0.5, annotations=False) as toolbox:
        assert (await call(toolbox, "echo", text="hello")).code == "TOOL_TIMEOUT"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://10.0.0.1/mcp", "FORBIDDEN_ADDRESS"),
        ("http://169.254.169.254/latest/meta-data", "FORBIDDEN_ADDRESS"),
        ("http://[::1]/mcp", "FORBIDDEN_ADDRESS"),
        ("http://2130706433/mcp", "FORBIDDEN_ADDRESS"),
        ("http://user:secret@192.0.2.1/mcp", "INVALID_URL"),
        ("http://tools.internal/mcp", "FORBIDDEN_ADDRESS"),
    ],
)
async def test_a_url_that_leads_inside_is_refused_before_anything_is_sent(url: str, why: str) -> None:
    toolbox = Toolbox()
    async with open_servers({"near": McpSettings(url=url, tools="*", connect=5)}, EgressSettings(), toolbox):
        assert why in toolbox.absent["mcp__near__"]
        assert "secret" not in toolbox.absent["mcp__near__"]
