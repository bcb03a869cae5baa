"""The threads of this process that read a SQLite file: what one turn of the event loop asks for goes over together.

A thread costs a busy event loop as much to wake and to hear from as the reading of a run's trace does; a thousand runs that begin
at once need not pay that a thousand times. Reading never blocks the writer, nor the writer reading (WAL).
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from orchestrator.stores.batch import settle
from orchestrator.stores.file import Work, connect, failure

T = TypeVar("T")

THREADS = 2
TOGETHER = 32
"""Readings that are handed to one thread at once: one that takes long holds up no more than these."""


class Readers:
    """A pool of threads, each with a connection of its own to the file `path`; `busy` is in seconds, as for `connect`."""

    def __init__(self, path: Path, busy: float) -> None:
        self._path, self._busy = path, busy
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"reader of {path.name}")
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._gathered: list[Work] = []

    async def read(self, run: Callable[[sqlite3.Connection], T]) -> T:
        """What `run(connection)` gives back, or raises: SQLite's own errors as StoreErrors. It leaves no cursor and no transaction
        open, so no reader holds anything."""
        reading = Work(run)
        if not self._gathered:
            self._loop.call_soon(self._hand_over)
        self._gathered.append(reading)
        result: T = await reading.future
        return result

    async def close(self) -> None:
        """Read what has been asked for, end the threads, close their connections."""
        self._hand_over()
        await asyncio.to_thread(self._threads.shutdown)
        for connection in self._connections:
            connection.close()

    def _hand_over(self) -> None:
        asked, self._gathered = self._gathered, []
        for start in range(0, len(asked), TOGETHER):
            self._threads.submit(self._read, asked[start : start + TOGETHER])

    def _read(self, readings: Sequence[Work]) -> None:
        for reading in readings:
            try:
                reading.result = reading.run(self._connection())
            except Exception as error:  # noqa: BLE001  a border: the others are read all the same, and the caller is told
                reading.error = failure(self._path, error)
        with suppress(RuntimeError):  # the loop was closed under us: nobody is left to be told
            self._loop.call_soon_threadsafe(settle, readings)

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self._path, self._busy, reading=True)
            self._connections.append(connection)
        return connection
