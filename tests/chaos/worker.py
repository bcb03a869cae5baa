"""One worker process: `python -m tests.chaos.worker STORE NOTES MODEL_URL SECONDS`. SIGTERM drains it."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections.abc import Sequence
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

STEPS = 6
LATENCY = 2000  # milliseconds that the model takes

NOTES: list[Notes] = []


@tool(timeout=60)
async def look(key: str) -> str:
    """Pays for an entry, once, and takes its time before and after."""
    await asyncio.sleep(random.random())
    NOTES[0].effect(context().key)
    await asyncio.sleep(random.random())
    return f"{key} is paid: {context().key} v1"


TOOLBOX = Toolbox([look])


def settings_for(store: str, model_url: str) -> Settings:
    """One agent that never gives up because of errors: what is asked is whether it comes to its end."""
    model = {"provider": "openai", "base_url": model_url, "model": f"k{STEPS}-l{LATENCY}", "stream": False}
    limits = {"tool_errors": 99, "stall": 98, "stall_end": 99, "deadline": 600}
    return Settings.model_validate(
        {"store": store, "models": {"default": model}, "agents": {"default": {"limits": limits}}}
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


async def main(store_url: str, notes: str, model_url: str) -> int:
    NOTES.append(Notes(Path(notes)))
    settings = settings_for(store_url, model_url)
    async with open_queue(settings) as (store, dispatcher), open_ports(settings, store=store, toolbox=TOOLBOX) as ports:
        noted = cast("Dispatcher", Noted(dispatcher, NOTES[0]))
        working = Worker(noted, ports, worker_rules(settings), has=abilities(settings, TOOLBOX.specs))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.stop)
        return await working.run()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:4])))
