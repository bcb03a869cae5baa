"""The demo model server in a thread of its own, for tests of code that runs its own event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from orchestrator.demo.server import serve

T = TypeVar("T")


@contextmanager
def in_a_thread(
    opened: Callable[[asyncio.AbstractEventLoop], AbstractAsyncContextManager[T]],
) -> Iterator[T]:
    """What `opened(loop)` gives, kept open by an event loop in a thread of its own."""
    loop, up, done, found = asyncio.new_event_loop(), threading.Event(), asyncio.Event(), list[T]()

    async def work() -> None:
        async with opened(loop) as value:
            found.append(value)
            up.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(work(),))
    thread.start()
    try:
        assert up.wait(10)
        yield found[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()


@contextmanager
def demo_server() -> Iterator[str]:
    """Its URL, without a path."""
    with in_a_thread(lambda _: serve()) as server:
        yield server.url


def only_the_demo(monkeypatch: pytest.MonkeyPatch, folder: Path, url: str) -> None:
    """In this folder, with no settings of the environment but the demo model at this URL."""
    for name in list(os.environ):
        if name.startswith(("ORCHESTRATOR_", "OPENAI_", "ANTHROPIC_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
    monkeypatch.setenv("OPENAI_MODEL", "demo")
