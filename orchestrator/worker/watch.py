"""Does the event loop still turn? Seen from a thread of its own, because a loop that is stuck cannot say so.

One tool that blocks stalls every run of the process: the stack of the thread that the loop runs in names the line.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from typing import Self

import structlog

LIMIT = 1.0
"""Seconds without a turn of the loop that count as a stall."""
CALM = 2.0
"""Seconds of quick turns after a stall before the process counts as quick again."""
PULSE = 0.1
WORST = 15.0
"""Seconds that the worst delay is remembered, at least; at most twice as long."""

_log = structlog.stdlib.get_logger("orchestrator.worker")


class Watchdog:
    """`async with Watchdog() as dog:` on the loop to be watched; `dog.stalled` may be asked from any thread."""

    def __init__(self, limit: float = LIMIT, calm: float = CALM) -> None:
        self.stalls = 0
        self._limit, self._calm = limit, calm
        self._turned = self._slow = -float("inf")
        self._looping = self._half = 0
        self._delays = (0.0, 0.0)
        self._over = threading.Event()
        self._pulse: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._looping, self._turned = threading.get_ident(), time.monotonic()
        self._pulse = asyncio.create_task(self._pulsing())
        threading.Thread(target=self._watching, name="watchdog", daemon=True).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        if self._pulse is not None:
            self._pulse.cancel()

    @property
    def lag(self) -> float:
        """Seconds since the loop last turned; up to PULSE is what a quick one has."""
        return time.monotonic() - self._turned

    @property
    def worst(self) -> float:
        """The longest delay of a turn in the last WORST seconds or more, in seconds; a scrape sees what happened between two of them."""
        return max(0.0, self.lag - PULSE, *self._delays)

    @property
    def stalled(self) -> bool:
        """Has the loop been stuck for longer than the limit, now or until a moment ago?"""
        return self.lag > self._limit or time.monotonic() - self._slow < self._calm

    async def _pulsing(self) -> None:
        while True:
            if self.lag > self._limit:
                self._slow = time.monotonic()
            self._note(max(0.0, self.lag - PULSE))
            self._turned = time.monotonic()
            await asyncio.sleep(PULSE)

    def _note(self, delay: float) -> None:
        """Keep the worst of this half of the window and of the one before."""
        half = int(time.monotonic() / WORST)
        if half != self._half:
            self._delays = (0.0, self._delays[0] if half == self._half + 1 else 0.0)
            self._half = half
        self._delays = (max(delay, self._delays[0]), self._delays[1])

    def _watching(self) -> None:
        told = False
        while not self._over.wait(PULSE):
            stuck = self.lag > self._limit
            if stuck and not told:
                self.stalls += 1
                _log.error("event_loop_stalled", seconds=round(self.lag, 2), stack=self._stack())
            told = stuck

    def _stack(self) -> str:
        """Where the loop's thread is at this moment."""
        frame = sys._current_frames().get(self._looping)  # noqa: SLF001  the documented way to see another thread
        return "".join(traceback.format_stack(frame)) if frame is not None else ""
