"""The live tail of a Trace, for every store: read a page, give it away, wait for a bell or for the next look."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager

from orchestrator.core.events import Entry, RunEnded, Trace

PAGE = 256
"""Entries read at once: a follower who starts at the beginning of a long run holds no more than this."""


class Bell:
    """Tells the followers of a run, in this process, that there is more to read. A hint: a lost ring only costs time."""

    def __init__(self) -> None:
        self._listeners: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)

    @contextmanager
    def listen(self, run_id: str) -> Iterator[asyncio.Future[None]]:
        """A future that the next ring for this run resolves."""
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listeners[run_id].add(heard)
        try:
            yield heard
        finally:
            self._listeners[run_id].discard(heard)
            if not self._listeners[run_id]:
                del self._listeners[run_id]

    def ring(self, run_ids: Iterable[str]) -> None:
        """Wake who listens to one of these runs."""
        if self._listeners:
            for run_id in self._listeners.keys() & set(run_ids):
                _wake(self._listeners[run_id])

    def ring_all(self) -> None:
        """Wake everybody: the store closes, or hints were lost."""
        for listeners in self._listeners.values():
            _wake(listeners)


def _wake(listeners: Iterable[asyncio.Future[None]]) -> None:
    for heard in listeners:
        if not heard.done():
            heard.set_result(None)


async def tail(
    page: Callable[[str, int, int], Awaitable[Trace]], bell: Bell, run_id: str, after: int, every: float
) -> AsyncIterator[Entry]:
    """Entries after `after`, up to RunEnded. Looks again at each ring, and every `every` seconds for other processes."""
    while True:
        with bell.listen(run_id) as heard:
            entries = await page(run_id, after, PAGE)
            if not entries:
                await asyncio.wait([heard], timeout=every)
        for entry in entries:
            after = entry.seq
            yield entry
            if isinstance(entry.event, RunEnded):
                return
