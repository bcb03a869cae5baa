"""Ctrl-C: runs are let go between two effects, so each can be resumed and none is torn.

The first signal stops at once what only waits for a model, and lets tools that have been started end and be recorded. The
second stops those too; a tool that must not run twice is then recorded as OUTCOME_UNKNOWN when the run is resumed.
"""

from __future__ import annotations

import asyncio
import signal
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from orchestrator.core.events import ActionStarted, Entry, Observation, Waiting
from orchestrator.core.run import Run


class Interrupt:
    """Whether somebody asked to stop, and which runs have tools under way. One per command."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._runs: dict[str, asyncio.Task[Run]] = {}
        self._under_way: defaultdict[str, set[str]] = defaultdict(set)
        self.signals = 0

    def stopping(self) -> bool:
        """For `Ports.stopping`."""
        return self.signals > 0

    def observe(self, _run: Run, entry: Entry) -> None:
        """An observer: keeps count of tools that have been started and not yet observed."""
        match entry.event:
            case ActionStarted(id=action_id):
                self._under_way[entry.run_id].add(action_id)
            case Observation(id=action_id) | Waiting(id=action_id):
                self._under_way[entry.run_id].discard(action_id)

    async def run(self, run_id: str, driving: Coroutine[Any, Any, Run]) -> Run | None:
        """The run as it stands when it was let go; None when it had to be cut off."""
        task = self._runs[run_id] = asyncio.create_task(driving)
        try:
            await asyncio.wait([task])
            return None if task.cancelled() else task.result()
        finally:
            task.cancel()
            del self._runs[run_id]
            self._under_way.pop(run_id, None)

    @contextmanager
    def armed(self) -> Iterator[None]:
        """SIGINT and SIGTERM are ours inside."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for each in signals:
            loop.add_signal_handler(each, self.interrupt)
        try:
            yield
        finally:
            for each in signals:
                loop.remove_signal_handler(each)

    def interrupt(self) -> None:
        """What a signal does."""
        self.signals += 1
        patient = self.signals == 1
        waiting = [run_id for run_id in self._runs if self._under_way[run_id]]
        for run_id, task in self._runs.items():
            if not (patient and run_id in waiting):
                task.cancel()
        if patient and waiting:
            self._tell(f"waiting for tools that have been started ({len(waiting)} runs); Ctrl-C again to stop at once")
