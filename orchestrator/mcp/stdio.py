"""A child process that speaks MCP over its stdin and stdout, one JSON message a line.

The SDK's own transport joins what it read to a growing text for each piece, so a line without an end takes quadratic time and
all memory. Here a line is read by asyncio's StreamReader, in linear time and up to LARGEST bytes. The end is the one that MCP
asks for: close stdin, wait, SIGTERM to the process group, wait, SIGKILL.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, TextIO

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from orchestrator.mcp_settings import McpSettings

LARGEST = 16 * 2**20
"""Bytes of one message."""
GRACE = 2.0
"""Seconds that the process has after the end of its stdin, and again after SIGTERM."""
_LOOK = 0.02


@asynccontextmanager
async def stdio(settings: McpSettings, stderr: TextIO) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a session with a new child process. ConnectionError when it cannot be started, or says too much."""
    process = await _started(settings, stderr)
    try:
        came, coming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        going, gone = anyio.create_memory_object_stream[SessionMessage](0)
        async with came, coming, going, gone, anyio.create_task_group() as pumps:
            pumps.start_soon(_read, process, came)
            pumps.start_soon(_write, process, gone)
            yield coming, going
            pumps.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


async def _started(settings: McpSettings, stderr: TextIO) -> Process:
    env = {name: value.get_secret_value() for name, value in settings.env.items()}
    try:
        return await asyncio.create_subprocess_exec(
            settings.command,
            *settings.args,
            stdin=PIPE,
            stdout=PIPE,
            stderr=stderr,
            env=get_default_environment() | env,
            cwd=settings.cwd,
            start_new_session=True,
            limit=LARGEST,
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
        raise ConnectionError(
            f"{settings.command} cannot be started: {error}; is it installed, and on the PATH?"
        ) from error


async def _read(process: Process, came: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    """Lines to messages. What is no message (a server that prints) is left out."""
    if process.stdout is None:
        return
    async with came:
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError as error:
                raise ConnectionError(f"the server wrote a line of more than {LARGEST} bytes") from error
            if not line:
                return
            try:
                message = jsonrpc_message_adapter.validate_json(line.decode("utf-8", "replace"), by_name=False)
            except ValueError:
                continue
            try:
                await came.send(SessionMessage(message))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


async def _write(process: Process, gone: MemoryObjectReceiveStream[SessionMessage]) -> None:
    if process.stdin is None:
        return
    async with gone:
        async for each in gone:
            process.stdin.write(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            with suppress(ConnectionError):  # its end is seen by whoever reads
                await process.stdin.drain()


async def _end(process: Process) -> None:
    """Nothing of it is left behind, not even children of its own."""
    if process.stdin is not None:
        process.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        if await _ended(process):
            break
        _kill(process, number)
    await _ended(process)
    _kill(process, signal.SIGKILL)
    transport = getattr(process, "_transport", None)  # holds the pipes open as long as a stray child does
    if transport is not None:
        transport.close()


async def _ended(process: Process) -> bool:
    """Polled: `Process.wait` waits for the pipes too, which a child's child may hold open."""
    with anyio.move_on_after(GRACE):
        while process.returncode is None:  # noqa: ASYNC110  as above
            await anyio.sleep(_LOOK)
    return process.returncode is not None


def _kill(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
