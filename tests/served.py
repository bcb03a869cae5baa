"""The demo model server in a thread of its own, for tests of code that runs its own event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.demo.server import serve


@contextmanager
def demo_server() -> Iterator[str]:
    """Its URL, without a path."""
    loop = asyncio.new_event_loop()
    ready: list[str] = []
    up, done = threading.Event(), asyncio.Event()

    async def work() -> None:
        async with serve() as server:
            ready.append(server.url)
            up.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(work(),))
    thread.start()
    try:
        assert up.wait(10)
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()
