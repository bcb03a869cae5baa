"""Notifications on their way: a queue and a task for each hook, so that one that hangs holds up nothing and nobody."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from orchestrator.errors import CallError, Permanent
from orchestrator.hooks import Hook
from orchestrator.monitor.page import Owed

PAUSE: Final = 60.0
"""Seconds before a hook is tried again whose retries are used up."""

GIVEN_UP: Final = 86_400.0
"""Seconds after which a Notification that no one takes is dropped."""

_log = structlog.stdlib.get_logger("orchestrator.monitor")


class Courier:
    """Delivers in order, per hook. `settled` is called when a Notification was taken, refused for good, or too old."""

    def __init__(self, hooks: Iterable[Hook], settled: Callable[[Owed], None], clock: Callable[[], float]) -> None:
        self._hooks = {hook.name: hook for hook in hooks}
        self._settled = settled
        self._clock = clock
        self._queues: dict[str, asyncio.Queue[Owed]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def put(self, owed: Owed) -> None:
        """Deliver this one after those before it. One for a hook that is no longer configured is settled at once."""
        if owed.hook not in self._hooks:
            self._settled(owed)
            return
        if owed.hook not in self._queues:
            queue = self._queues[owed.hook] = asyncio.Queue()
            self._tasks.append(asyncio.create_task(self._carry(self._hooks[owed.hook], queue)))
        self._queues[owed.hook].put_nowait(owed)

    async def stop(self) -> None:
        """Drop what is under way; it is still owed in the book."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        self._queues.clear()

    async def _carry(self, hook: Hook, queue: asyncio.Queue[Owed]) -> None:
        while True:
            owed = await queue.get()
            await self._deliver(hook, owed)
            self._settled(owed)

    async def _deliver(self, hook: Hook, owed: Owed) -> None:
        """Until nothing is left to do for it."""
        while True:
            if await self._delivered(hook, owed):
                return
            await asyncio.sleep(PAUSE)

    async def _delivered(self, hook: Hook, owed: Owed) -> bool:
        """Whether nothing is left to do for it."""
        note = owed.note
        try:
            await hook.send(note)
        except CallError as error:
            lost = isinstance(error, Permanent) or self._clock() - note.at > GIVEN_UP
            level, word = (logging.ERROR, "alert_lost") if lost else (logging.WARNING, "alert_delayed")
            _log.log(level, word, hook=hook.name, rule=note.rule, status=note.status, error=str(error))
            return lost
        _log.info("alert_delivered", hook=hook.name, rule=note.rule, status=note.status)
        return True
