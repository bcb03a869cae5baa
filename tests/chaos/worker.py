"""Worker processes: `python -m tests.chaos.worker STORE NOTES MODEL_URL SCRIPT LEASE` is their nursery.

For each line on its stdin it forks one and says `born PID`; of each that has ended it says `gone PID CODE`. A worker that is forked
works at once, however long it takes to import it, so that one may be killed every two seconds and there is always another.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from orchestrator.assembly import open_ports
from orchestrator.dispatch import Dispatcher, Slice
from orchestrator.settings import Settings
from orchestrator.tool import context, tool
from orchestrator.toolbox import Toolbox
from orchestrator.worker import Worker
from orchestrator.worker.queue import abilities, open_queue, worker_rules
from tests.chaos.notes import Notes

NOTES: list[Notes] = []


@tool(timeout=60)
async def look(key: str) -> str:
    """Pays for an entry, once, and takes its time before and after."""
    await asyncio.sleep(random.random())
    NOTES[0].effect(context().key)
    await asyncio.sleep(random.random())
    return f"{key} is paid: {context().key} v1"


TOOLBOX = Toolbox([look])


def settings_for(store: str, model_url: str, script: str, lease: float) -> Settings:
    """One agent that never gives up because of errors: what is asked is whether it comes to its end.

    `script` is the mock's: k6-l2000 is six tool calls, and two seconds for each turn.
    """
    model = {"provider": "openai", "base_url": model_url, "model": script, "stream": False}
    worker = {"beat": lease / 5, "lease": lease}
    limits = {"tool_errors": 99, "stall": 98, "stall_end": 99, "deadline": 600}
    return Settings.model_validate(
        {"store": store, "models": {"default": model}, "agents": {"default": {"limits": limits}}, "worker": worker}
    )


class Noted:
    """A dispatcher that notes what it takes and lets go of."""

    def __init__(self, inner: Dispatcher, notes: Notes) -> None:
        self._inner, self._notes = inner, notes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def take(self, *args: Any, **more: Any) -> Sequence[Slice]:
        taken = await self._inner.take(*args, **more)
        for each in taken:
            self._notes.claimed(each.run_id, each.epoch)
        return taken

    async def done(self, taken: Slice) -> None:
        await self._inner.done(taken)
        self._notes.ended(taken.run_id, taken.epoch)

    async def park(self, taken: Slice, until: float, *, approval: bool = False) -> None:
        await self._inner.park(taken, until, approval=approval)
        self._notes.ended(taken.run_id, taken.epoch)

    async def release(self, taken: Slice) -> None:
        await self._inner.release(taken)
        self._notes.ended(taken.run_id, taken.epoch)


async def work(store_url: str, notes: str, model_url: str, script: str, lease: str) -> int:
    """One worker's life. SIGTERM drains it."""
    NOTES.append(Notes(Path(notes)))
    settings = settings_for(store_url, model_url, script, float(lease))
    async with open_queue(settings) as (store, dispatcher), open_ports(settings, store=store, toolbox=TOOLBOX) as ports:
        noted = cast("Dispatcher", Noted(dispatcher, NOTES[0]))
        working = Worker(noted, ports, worker_rules(settings), has=abilities(settings, TOOLBOX.specs))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.stop)
        return await working.run()


def nursery(arguments: list[str]) -> None:
    """Until stdin ends."""
    signal.signal(signal.SIGCHLD, lambda *_: reap())
    for _ in iter(sys.stdin.readline, ""):
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(2, 1)  # what a worker logs is not for whoever listens to the nursery
            os._exit(asyncio.run(work(*arguments)))
        os.write(1, f"born {pid}\n".encode())


def reap() -> None:
    """Say who has ended, and how."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            os.write(1, f"gone {ended[0]} {os.waitstatus_to_exitcode(ended[1])}\n".encode())


if __name__ == "__main__":
    nursery(sys.argv[1:6])
