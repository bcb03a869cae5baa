"""The orchestrator as an MCP server: submit, status and answer, with the API's tokens and tenants over HTTP, and over stdio."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
import pytest_asyncio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from orchestrator.api.app import create_app
from orchestrator.api.mcp import PATH, open_door
from orchestrator.api.server import Server, listen, url_of
from orchestrator.core.events import Outcome, RunEnded, RunStarted
from tests.api.place import NOW, Place
from tests.api.place import place as placed


@asynccontextmanager
async def served(place: Place) -> AsyncIterator[str]:
    async with open_door(place.service) as routes:
        server = Server(create_app(place.service, routes), place.service.closing)
        with listen("127.0.0.1", 0) as listener:
            task = asyncio.create_task(server.run_on(listener))
            try:
                yield url_of(listener) + PATH
            finally:
                server.stop()
                await task


@asynccontextmanager
async def client(url: str, token: str, **how: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http), cache=None, **how) as found,
    ):
        yield found


@pytest_asyncio.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with placed(tmp_path) as found:
        yield found


def told(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content
    first = result.content[0]
    assert isinstance(first, TextContent)
    assert json.loads(first.text) == found
    return found


def problem(result: CallToolResult) -> str:
    assert result.is_error
    first = result.content[0]
    assert isinstance(first, TextContent)
    return first.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_submits_follows_and_gets_the_answer(place: Place, mode: Any) -> None:
    async with served(place) as url, client(url, place.admin, mode=mode) as mcp:
        assert {tool.name for tool in (await mcp.list_tools()).tools} == {"submit", "status", "answer"}
        run_id = told(await mcp.call_tool("submit", {"goal": "Who wrote it?", "key": "k1"}))["run_id"]
        again = told(await mcp.call_tool("submit", {"goal": "Who wrote it?", "key": "k1"}))
        assert again["run_id"] == run_id
        assert told(await mcp.call_tool("status", {"run_id": run_id}))["goal"] == "Who wrote it?"
        assert told(await mcp.call_tool("answer", {"run_id": run_id, "wait": 0}))["state"] == "open"
        asking = asyncio.create_task(mcp.call_tool("answer", {"run_id": run_id, "wait": 20}))
        await asyncio.sleep(0.05)
        await place.store.append(run_id, 1, [RunEnded(Outcome.ANSWERED, "Ада\u202e Лавлейс")], at=NOW + 1)
        found = told(await asyncio.wait_for(asking, 10))
        assert (found["state"], found["outcome"], found["answer"]) == ("ended", "answered", "Ада\u202e Лавлейс")


async def test_one_tenant_never_sees_anothers_run(place: Place) -> None:
    ours, theirs = place.token("us", ["read", "submit"], "us"), place.token("them", ["read", "submit"], "them")
    async with served(place) as url:
        async with client(url, ours) as mcp:
            run_id = told(await mcp.call_tool("submit", {"goal": "Ours?"}))["run_id"]
        async with client(url, theirs) as mcp:
            for tool in ("status", "answer"):
                refusal = problem(await mcp.call_tool(tool, {"run_id": run_id}))
                assert refusal == problem(await mcp.call_tool(tool, {"run_id": "nothing"}))
                assert refusal.startswith("UNKNOWN_RUN")
    first = (await place.store.read(run_id))[0].event
    assert isinstance(first, RunStarted)
    assert first.tenant == "us"


async def test_each_tool_needs_its_scope(place: Place) -> None:
    async with served(place) as url:
        async with client(url, place.token("reader", ["read"])) as mcp:
            assert problem(await mcp.call_tool("submit", {"goal": "x"})).startswith("SCOPE_MISSING")
        async with client(url, place.token("writer", ["submit"])) as mcp:
            told(await mcp.call_tool("submit", {"goal": "x"}))
            assert problem(await mcp.call_tool("status", {"run_id": "x"})).startswith("SCOPE_MISSING")


@pytest.mark.parametrize(
    ("tool", "given", "says"),
    [
        ("submit", {}, "goal: Field required"),
        ("submit", {"goal": " "}, "the question is empty"),
        ("submit", {"goal": "x", "agent": "nobody"}, "no agent 'nobody'"),
        ("submit", {"goal": "x", "tenant": "them"}, "tenant: Extra inputs"),
        ("answer", {"run_id": "x", "wait": 3600}, "wait"),
        ("status", {"run_id": "x\u0000"}, "run_id"),
    ],
)
async def test_what_is_wrong_is_said_and_nothing_of_the_inside(place: Place, tool: str, given: Any, says: str) -> None:
    async with served(place) as url, client(url, place.admin) as mcp:
        assert says in problem(await mcp.call_tool(tool, given))


async def test_an_unforeseen_failure_tells_a_stranger_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr(place.store, "row", broken)
    async with served(place) as url, client(url, place.admin, mode="legacy") as mcp:
        refusal = problem(await mcp.call_tool("status", {"run_id": "x"}))
    assert refusal.startswith("INTERNAL_ERROR")
    assert "swordfish" not in refusal


async def test_an_unknown_tool_is_an_error_of_the_protocol(place: Place) -> None:
    async with served(place) as url, client(url, place.admin) as mcp:
        with pytest.raises(MCPError, match="Unknown tool: approve"):
            await mcp.call_tool("approve", {})


HELLO = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": "Bearer nonsense"}, 401),
        ({}, 401),
        ({"Origin": "https://evil.example"}, 403),
    ],
)
async def test_strangers_and_foreign_pages_do_not_come_in(place: Place, headers: dict[str, str], status: int) -> None:
    async with served(place) as url, httpx.AsyncClient() as http:
        reply = await http.post(url, json=HELLO, headers={**ACCEPT, **headers})
        assert reply.status_code == status
        assert reply.headers["content-type"] == "application/problem+json"
        assert (await http.get(url)).status_code == 405


async def test_a_name_that_was_bound_to_this_machine_does_not_get_in_where_there_are_no_tokens(tmp_path: Path) -> None:
    async with served(Place(tmp_path, tokens=False)) as url, httpx.AsyncClient() as http:
        assert (await http.post(url, json=HELLO, headers=ACCEPT)).status_code == 200
        rebound = await http.post(url, json=HELLO, headers={**ACCEPT, "Host": "evil.example:80"})
        assert rebound.status_code == 403


async def test_a_body_that_is_too_large_is_refused(place: Place) -> None:
    headers = {**ACCEPT, "Authorization": f"Bearer {place.admin}", "Content-Type": "application/json"}
    async with served(place) as url, httpx.AsyncClient() as http:
        assert (await http.post(url, content=b" " * 1_100_000, headers=headers)).status_code == 413
        assert (await http.post(url, content=b"{", headers=headers)).status_code == 400


async def test_over_stdio_a_client_submits_and_a_worker_beside_it_answers(tmp_path: Path) -> None:
    environment = {
        "ORCHESTRATOR_STORE": f"sqlite:///{tmp_path}/o.db",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "OPENAI_MODEL": "demo",
        "PATH": os.environ["PATH"],
    }
    argv = ["-m", "orchestrator", "mcp", "--worker", "--tenant", "us"]
    server = StdioServerParameters(command=sys.executable, args=argv, env=environment, cwd=str(tmp_path))
    async with Client(server, cache=None) as mcp:
        run_id = told(await mcp.call_tool("submit", {"goal": "Who?", "deadline": 1}))["run_id"]
        found = told(await mcp.call_tool("answer", {"run_id": run_id, "wait": 40}))
    assert found["state"] == "ended"
    assert found["outcome"] in {"deadline", "model_failed"}


async def test_serve_is_an_mcp_server_too_where_the_settings_say_so(tmp_path: Path) -> None:
    model = '[models.m]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "x"\n'
    (tmp_path / "orchestrator.toml").write_text(f"{model}[api]\nport = 0\nmcp = true\n", "utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ORCHESTRATOR_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "orchestrator", "serve", cwd=tmp_path, env=environment, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        place = (await asyncio.wait_for(process.stderr.readline(), 60)).decode().split()[-1]
        async with client(f"{place}/mcp", "") as mcp:
            run_id = told(await mcp.call_tool("submit", {"goal": "Who?"}))["run_id"]
            assert told(await mcp.call_tool("status", {"run_id": run_id}))["state"] == "open"
    finally:
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 30) == 0
