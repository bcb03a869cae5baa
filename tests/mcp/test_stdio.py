"""Child processes that do not behave: endless lines, noise among the messages, deaf to every signal but one."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

from orchestrator.egress import EgressSettings
from orchestrator.mcp.servers import open_servers
from orchestrator.mcp_settings import McpSettings
from orchestrator.toolbox import Toolbox
from tests.mcp.inside import call

SERVER = """
import json, os, signal, subprocess, sys
print("welcome to the server", flush=True)
print("\\x00\\xff {", flush=True)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").write(str(subprocess.Popen(["sleep", "600"], stdout=sys.stdout).pid))
TOOLS = [{"name": "echo", "description": "Echoes.", "inputSchema": {"type": "object"}}]
for line in sys.stdin:
    asked = json.loads(line)
    method = asked.get("method")
    if method == "initialize":
        about = {"name": "odd", "version": "1"}
        said = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    elif method == "tools/list":
        said = {"tools": TOOLS}
    elif method == "tools/call":
        print("thinking ...", flush=True)
        sys.stdout.buffer.write(b'{"jsonrpc": "2.0", "id": %d, "result": {"content": ' % asked["id"])
        sys.stdout.buffer.write(b'[{"type": "text", "text": "half \\xff a character"}]}}\\n')
        sys.stdout.flush()
        continue
    else:
        if "id" in asked:
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}}))
            sys.stdout.flush()
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": said}), flush=True)
import time; time.sleep(600)
"""


def command(*argv: str, **more: Any) -> dict[str, McpSettings]:
    return {"near": McpSettings(command=argv[0], args=argv[1:], tools="*", **more)}


async def test_noise_is_left_out_and_nothing_of_a_stubborn_process_survives(tmp_path: Path) -> None:
    child, toolbox = tmp_path / "child", Toolbox()
    async with open_servers(command(sys.executable, "-c", SERVER, str(child)), EgressSettings(), toolbox):
        seen = await call(toolbox, "echo")
        assert "half � a character" in seen.content
    for _ in range(100):
        if not alive(int(child.read_text())):
            break
        await asyncio.sleep(0.05)
    assert not alive(int(child.read_text()))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def test_a_line_without_an_end_costs_little_and_loses_the_server() -> None:
    toolbox = Toolbox()
    endless = command("sh", "-c", "tr '\\0' x < /dev/zero")
    begun = time.process_time()
    async with open_servers(endless, EgressSettings(), toolbox):
        assert "a line of more than 16777216 bytes" in toolbox.absent["mcp__near__"]
    assert time.process_time() - begun < 5


async def test_what_a_program_said_before_it_died_is_told_to_the_operator_without_secrets() -> None:
    toolbox = Toolbox()
    script = 'echo starting >&2; echo "bad key $KEY" >&2; exit 3'
    async with open_servers(command("sh", "-c", script, env={"KEY": "s3cret-value"}), EgressSettings(), toolbox):
        assert "bad key [REDACTED]" in toolbox.absent["mcp__near__"]


async def test_a_program_that_is_not_there_is_named() -> None:
    toolbox = Toolbox()
    async with open_servers(command("/nowhere/server"), EgressSettings(), toolbox):
        assert "/nowhere/server" in toolbox.absent["mcp__near__"]
