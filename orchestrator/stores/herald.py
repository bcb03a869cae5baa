"""Tells followers in other processes that a run has grown, and hears it from them (LISTEN/NOTIFY).

Only a hint: it is sent after the commit, in a statement of its own and at most 50 times a second, because a NOTIFY inside
the writer's transaction would make all writers of the database wait for each other. A follower looks by itself, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

import psycopg

from orchestrator.stores.follow import Bell
from orchestrator.stores.link import SQL

CALM = 0.02
"""Seconds between two announcements."""

RETRY = 1.0
"""Seconds between tries to listen again."""

LONGEST = 7900
"""Bytes of one announcement; the server takes 8000. Longer ones say nothing, which means: look, everybody."""


class Herald:
    """`connect` opens a connection of the herald's own, one to speak and, once somebody follows, one to listen."""

    def __init__(self, connect: Callable[[], Awaitable[psycopg.AsyncConnection[Any]]], bell: Bell) -> None:
        self._connect, self._bell = connect, bell
        self._news: set[str] = set()
        self._speaking: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._listens = asyncio.Event()

    def announce(self, run_ids: Iterable[str]) -> None:
        """These runs have grown: tell this process at once, the others soon."""
        self._news.update(run_ids)
        self._bell.ring(self._news)
        if self._news and self._speaking is None:
            self._speaking = asyncio.create_task(self._speak_on(), name="announcer of new entries")

    async def listen(self) -> None:
        """Hear the others from now on. Returns when that is so, or when the server did not answer in a second."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen_on(), name="listener for new entries")
        with suppress(TimeoutError):
            await asyncio.wait_for(self._listens.wait(), RETRY)

    async def close(self) -> None:
        """Stop speaking and listening."""
        tasks = [task for task in (self._speaking, self._listening) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _speak_on(self) -> None:
        while True:
            with suppress(psycopg.Error):
                async with await self._connect() as connection:
                    await self._speak(connection)
            await asyncio.sleep(RETRY)

    async def _speak(self, connection: psycopg.AsyncConnection[Any]) -> None:
        while True:
            if self._news:
                names, self._news = "\n".join(self._news), set()
                await connection.execute(SQL["notify"], (names if len(names.encode()) <= LONGEST else "",))
            await asyncio.sleep(CALM)

    async def _listen_on(self) -> None:
        while True:
            with suppress(psycopg.Error):
                async with await self._connect() as connection:
                    await connection.execute(SQL["listen"])
                    self._listens.set()
                    self._bell.ring_all()
                    async for notice in connection.notifies():
                        if notice.payload:
                            self._bell.ring(notice.payload.split("\n"))
                        else:
                            self._bell.ring_all()
            self._listens.clear()
            await asyncio.sleep(RETRY)
