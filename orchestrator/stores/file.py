"""One SQLite file: how it is opened, brought up to date, and how its failures are told."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.errors import StoreError
from orchestrator.stores.script import script

_SCRIPT = script(Path(__file__).with_name("sqlite.sql"))
SQL = _SCRIPT.queries
VERSION = len(_SCRIPT.migrations)

ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full: make room; nothing acknowledged is lost, and writing goes on by itself",
    sqlite3.SQLITE_BUSY: "another process holds the write lock: look for one that is stuck",
    sqlite3.SQLITE_LOCKED: "another process holds the write lock: look for one that is stuck",
    sqlite3.SQLITE_IOERR: "the disk refuses: look at its health, free space, quotas and file size limits",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened: does the folder exist, and may this user write in it?",
    sqlite3.SQLITE_READONLY: "the file cannot be written: may this user write it and its folder?",
    sqlite3.SQLITE_NOTADB: "this is no SQLite database: give another path",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: restore a backup; `sqlite3 FILE .recover` saves what can be read",
}


@dataclass(slots=True, eq=False)
class Work:
    """`run(connection)` is to be called in a thread that has a connection, perhaps again if the transaction had to be redone;
    and the future that answers who asked."""

    run: Callable[[sqlite3.Connection], Any]
    result: Any = None
    error: BaseException | None = None
    future: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


def connect(path: Path, busy: float, *, reading: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode. A commit reaches the disk itself (synchronous=FULL) before it returns.

    `busy` is how many seconds to wait for another process's write lock.
    """
    connection = sqlite3.connect(path, timeout=busy, isolation_level=None, check_same_thread=False)
    try:
        if reading:
            connection.execute("PRAGMA query_only = ON")
        else:
            _use_wal(connection, busy)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA journal_size_limit = 67108864")
    except BaseException:
        connection.close()
        raise
    return connection


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the schema to this release's version, inside the caller's transaction. A newer one is left alone: StoreError."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise StoreError(
            f"{path}: schema version {version} is newer than this release's {VERSION}; upgrade the orchestrator"
        )
    if version < VERSION:
        for statement in (sql for step in _SCRIPT.migrations[version:] for sql in step):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


def failure(path: Path, error: BaseException) -> BaseException:
    """The error as a caller should see it: SQLite's as a StoreError with advice, any other as it is."""
    if not isinstance(error, (sqlite3.Error, OverflowError)):
        return error
    code = getattr(error, "sqlite_errorcode", 0) or 0
    told = StoreError(f"{path}: {error}; {ADVICE.get(code & 0xFF, 'nothing of this transaction was written')}")
    told.__cause__ = error
    return told


def _use_wal(connection: sqlite3.Connection, busy: float) -> None:
    """Switching the journal does not wait for locks, though several processes may start at once: so wait here."""
    deadline = time.monotonic() + busy
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            return
