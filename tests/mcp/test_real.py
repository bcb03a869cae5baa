"""Real runs against two servers that we did not write: PyPI's mcp-server-time and npm's @modelcontextprotocol/server-everything."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.decide import AskModel
from orchestrator.core.events import Action, ModelTurn, Observation, Outcome, RunStarted
from orchestrator.core.run import Run
from orchestrator.egress import EgressSettings
from orchestrator.errors import CallError
from orchestrator.mcp.connection import Connection
from orchestrator.mcp.listing import Listing
from orchestrator.mcp.servers import open_servers
from orchestrator.mcp.transport import rules_for, transport
from orchestrator.mcp_settings import McpSettings
from orchestrator.runner import Ports, drive
from orchestrator.stores.memory import MemoryStore
from orchestrator.tool import Context, on_behalf_of
from orchestrator.toolbox import Toolbox
from tests.build import ScriptedModel, acts, final
from tests.mcp.inside import until

TIME = str(Path(sys.executable).parent / "mcp-server-time")
EVERYTHING = "mcp-server-everything"
BERLIN = {"timezone": "Europe/Berlin"}


def with_pid(command: str, pid: Path) -> dict[str, Any]:
    """A server that says which process it is, so that the test can kill it."""
    return {"command": "sh", "args": ["-c", f'echo $$ > {pid}; exec {command} "$@"', "sh"], "tools": "*"}


@asynccontextmanager
async def serving(name: str, given: dict[str, Any], *, loopback: bool = False) -> AsyncIterator[Toolbox]:
    toolbox = Toolbox()
    async with open_servers({name: McpSettings.model_validate(given)}, EgressSettings(loopback=loopback), toolbox):
        yield toolbox


async def driven(toolbox: Toolbox, script: list[ModelTurn] | Callable[[Run, AskModel], ModelTurn]) -> Run:
    store = MemoryStore()
    await store.open()
    await store.append("r1", 0, [RunStarted("What time is it?", tools=toolbox.specs)], at=time.time())
    return await drive("r1", Ports(store, ScriptedModel(script), toolbox))


def seen(run: Run) -> list[Observation]:
    return [each for step in run.steps for each in step.observations]


async def test_a_run_asks_the_time_server_and_survives_a_refusal_and_an_unknown_tool() -> None:
    async with serving("time", {"command": TIME, "tools": ["get_current_time", "convert_time"]}) as toolbox:
        run = await driven(
            toolbox,
            [
                acts(1, ("mcp__time__get_current_time", BERLIN), ("mcp__time__get_current_time", {})),
                acts(2, ("mcp__time__get_current_time", {"timezone": "Mars/Olympus"}), ("mcp__time__nope", {})),
                final("noon"),
            ],
        )
    assert run.ended is not None
    assert run.ended.outcome is Outcome.ANSWERED
    assert [each.code for each in seen(run)] == [None, "INVALID_ARGUMENTS", "TOOL_EXECUTION_ERROR", "TOOL_NOT_FOUND"]
    assert "Europe/Berlin" in seen(run)[0].content


async def test_a_run_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    def script(run: Run, _ask: AskModel) -> ModelTurn:
        if run.step == 2:
            os.kill(int(pid.read_text()), signal.SIGKILL)
        return final("noon") if run.step == 4 else acts(run.step, ("mcp__time__get_current_time", BERLIN))

    async with serving("time", with_pid(TIME, pid)) as toolbox:
        first = pid.read_text()
        run = await driven(toolbox, script)
        assert pid.read_text() != first
    assert [each.code for each in seen(run)] == [None, None, None]


@pytest.mark.needs(EVERYTHING)
async def test_a_run_meets_a_hang_a_kill_in_mid_call_and_an_unknown_tool(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    long = "trigger-long-running-operation"
    own = {long: {"repeatable": False, "side_effect": True, "timeout": 1.0}}
    given = with_pid(f"{EVERYTHING} stdio", pid) | {"tool": own, "tools": [long, "echo", "get-tiny-image"]}

    def kill() -> None:
        os.kill(int(pid.read_text()), signal.SIGKILL)

    def script(run: Run, _ask: AskModel) -> ModelTurn:
        match run.step:
            case 1:
                return acts(1, (f"mcp__every__{long}", {"duration": 30}), ("mcp__every__echo", {"message": "beside"}))
            case 2:
                asyncio.get_running_loop().call_later(0.4, kill)
                return acts(2, (f"mcp__every__{long}", {"duration": 29}))
            case 3:
                return acts(3, ("mcp__every__echo", {"message": "again"}), ("mcp__every__get-env", {}))
            case 4:
                return acts(4, ("mcp__every__get-tiny-image", {}))
        return final("done")

    async with serving("every", given) as toolbox:
        run = await driven(toolbox, script)
    hung, beside, killed, again, unknown, image = seen(run)
    assert (hung.code, beside.code, killed.code) == ("TOOL_TIMEOUT", None, "OUTCOME_UNKNOWN")
    assert (again.code, unknown.code, image.code) == (None, "TOOL_NOT_FOUND", None)
    assert "Echo: again" in again.content
    assert "image/png" in image.content
    assert run.ended is not None
    assert run.ended.outcome is Outcome.ANSWERED


@pytest.mark.needs(EVERYTHING)
async def test_the_child_inherits_no_secret_and_what_it_is_given_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-the-server")
    monkeypatch.setenv("HIDDEN", "s3cret-value")
    given = {"command": EVERYTHING, "args": ["stdio"], "tools": ["get-env"], "env": {"NOTE": "env:HIDDEN", "TZ": "UTC"}}
    settings = McpSettings.model_validate(given)
    async with serving("every", given) as toolbox:
        action = Action("1.0", "mcp__every__get-env", {})
        called = await toolbox.call(action, context=Context("r", "1.0", "r:1.0"), secrets=settings.secrets)
    assert called.observation is not None
    assert "sk-not-for-the-server" not in called.observation.content
    assert "s3cret-value" not in called.observation.content
    assert '"TZ": "UTC"' in called.observation.content


@pytest.mark.needs(EVERYTHING)
async def test_an_unknown_tool_has_one_code_whichever_server_is_asked() -> None:
    codes = []
    for given in ({"command": TIME, "tools": "*"}, {"command": EVERYTHING, "args": ["stdio"], "tools": "*"}):
        settings, found = McpSettings.model_validate(given), asyncio.get_running_loop().create_future()

        def pinned(_connection: Connection, listing: Listing, found: asyncio.Future[Listing] = found) -> None:
            found.set_result(listing)

        way = partial(transport, settings, rules_for(settings, EgressSettings(), "x"))
        connection = Connection("x", settings, way, pinned, {})
        running = asyncio.create_task(connection.run())
        await connection.settled.wait()
        on_behalf_of(Context("r", "1.0", "r:1.0"))
        try:
            known = next(iter((await found).tools.values()))
            codes.append((await connection.call(replace(known, name="nope"), {})).code)
        except CallError as error:
            codes.append(error.code)
        connection.stop()
        await running
    assert codes == ["TOOL_NOT_FOUND", "TOOL_NOT_FOUND"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def everything_over_http(port: int) -> AsyncIterator[None]:
    environment = {**os.environ, "PORT": str(port)}
    silent = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        EVERYTHING, "streamableHttp", env=environment, stdout=silent, stderr=silent
    )
    try:
        async with asyncio.timeout(30):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    break
                except OSError:
                    await asyncio.sleep(0.05)
        writer.close()
        yield
    finally:
        process.kill()
        await process.wait()


@pytest.mark.needs(EVERYTHING)
async def test_a_run_over_http_survives_a_restart_of_the_server() -> None:
    port = free_port()
    tools = ["echo", "get-sum", "toggle-simulated-logging"]
    given = {"url": f"http://127.0.0.1:{port}/mcp", "tools": tools, "headers": {"X-Key": "k" * 20}}
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(AsyncExitStack())
        await first.enter_async_context(everything_over_http(port))
        toolbox = await stack.enter_async_context(serving("web", given, loopback=True))
        run = await driven(toolbox, [acts(1, ("mcp__web__get-sum", {"a": 2, "b": 3})), final("5")])
        assert "The sum of 2 and 3 is 5" in seen(run)[0].content
        await first.aclose()
        run = await driven(toolbox, [acts(1, ("mcp__web__toggle-simulated-logging", {})), final("?")])
        assert seen(run)[0].code in {"OUTCOME_UNKNOWN", "UNAVAILABLE"}
        await stack.enter_async_context(everything_over_http(port))
        await until(lambda: not toolbox.absent)
        run = await driven(toolbox, [acts(1, ("mcp__web__echo", {"message": "back"})), final("back")])
        assert "Echo: back" in seen(run)[0].content


@pytest.mark.needs(EVERYTHING)
async def test_this_machine_is_asked_over_http_only_where_the_operator_says_so() -> None:
    port = free_port()
    async with (
        everything_over_http(port),
        serving("web", {"url": f"http://127.0.0.1:{port}/mcp", "tools": "*"}) as toolbox,
    ):
        assert toolbox.specs == ()
        assert "FORBIDDEN_ADDRESS" in toolbox.absent["mcp__web__"]
