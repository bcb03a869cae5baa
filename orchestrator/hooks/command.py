"""A local command: the Alertmanager document on its stdin, its exit code the answer. No shell is involved."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import orjson

from orchestrator.alerts import Notification, Wording
from orchestrator.errors import Rejected, Timeout, Unavailable
from orchestrator.hooks.webhook import document
from orchestrator.policy import Ask

PASSED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")
"""The variables that the command sees: none of them is a key."""


class Command:
    """The innermost call. `argv` is run as it stands; after `timeout` seconds it is killed with its children."""

    def __init__(self, argv: Sequence[str], wording: Wording, timeout: float) -> None:
        self._argv = tuple(argv)
        self._wording = wording
        self._timeout = timeout

    async def __call__(self, ask: Ask[Notification]) -> None:
        """Run it once. Raises Rejected when it cannot be started, Unavailable for an exit code that is not 0, Timeout."""
        body = orjson.dumps(document(ask.input, self._wording)) + b"\n"
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={name: os.environ[name] for name in PASSED if name in os.environ},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise Rejected("HOOK_REJECTED", f"the command {self._argv[0]!r} cannot be started: {error}") from error
        try:
            async with asyncio.timeout(self._timeout):
                await process.communicate(body)
        except TimeoutError as error:
            raise Timeout("TIMEOUT", f"the command {self._argv[0]!r} ran longer than {self._timeout:g} s") from error
        finally:
            await _ended(process)
        if process.returncode:
            raise Unavailable("HOOK_FAILED", f"the command {self._argv[0]!r} ended with exit code {process.returncode}")

    async def close(self) -> None:
        """Nothing is held between calls."""


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Kill the process and its children, if it still runs, and collect it."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
