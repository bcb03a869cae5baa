"""Where the Page is kept, and who may write it: one row beside the traces, with a leader and an expiry.

Any number of monitors may run; the one that holds the row evaluates and tells the hooks. `save` is fenced by the leader's
name, and is done before a hook is called: of two that both believe they lead (clocks differ), one gets no further.
"""

# ruff: noqa: D102  Book says what each method does
from __future__ import annotations

import sqlite3
from typing import Protocol

from orchestrator.stores.sqlite import SqliteStore


class Book(Protocol):
    """One row. Every method raises StoreError when the store cannot be reached."""

    async def lead(self, who: str, *, now: float, until: float) -> bytes | None:
        """Take or renew the lead up to unix time `until`. The stored page ("" at first); None: another one leads."""
        ...

    async def save(self, who: str, body: bytes) -> bool:
        """Write the page. False: `who` leads no more, nothing was written."""
        ...

    async def peek(self) -> bytes:
        """The stored page, for whoever wants to look."""
        ...

    async def resign(self, who: str) -> None:
        """Let another one lead at once; harmless for who does not lead."""
        ...


class MemoryBook(Book):
    """For a store in memory: one process, several monitors if they share this object."""

    def __init__(self) -> None:
        self._leader = ""
        self._until = 0.0
        self._body = b""

    async def lead(self, who: str, *, now: float, until: float) -> bytes | None:
        if self._leader not in {"", who} and self._until > now:
            return None
        self._leader, self._until = who, until
        return self._body

    async def save(self, who: str, body: bytes) -> bool:
        if self._leader != who:
            return False
        self._body = body
        return True

    async def peek(self) -> bytes:
        return self._body

    async def resign(self, who: str) -> None:
        if self._leader == who:
            self._leader = ""


class SqliteBook(Book):
    """A row in the store's own file."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def lead(self, who: str, *, now: float, until: float) -> bytes | None:
        def take(connection: sqlite3.Connection) -> bytes | None:
            connection.execute(_SQLITE_TABLE)
            connection.execute("INSERT INTO alert_state (id) VALUES (1) ON CONFLICT DO NOTHING")
            taken = connection.execute(
                "UPDATE alert_state SET leader = ?, until = ? WHERE leader IN ('', ?) OR until <= ?",
                (who, until, who, now),
            )
            if not taken.rowcount:
                return None
            (body,) = connection.execute("SELECT body FROM alert_state").fetchone()
            return bytes(body)

        return await self._store.transaction(take)

    async def save(self, who: str, body: bytes) -> bool:
        def write(connection: sqlite3.Connection) -> bool:
            saved = connection.execute("UPDATE alert_state SET body = ? WHERE leader = ?", (body, who))
            return bool(saved.rowcount)

        return await self._store.transaction(write)

    async def peek(self) -> bytes:
        def look(connection: sqlite3.Connection) -> bytes:
            connection.execute(_SQLITE_TABLE)
            found = connection.execute("SELECT body FROM alert_state").fetchone()
            return bytes(found[0]) if found else b""

        return await self._store.transaction(look)

    async def resign(self, who: str) -> None:
        def leave(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE alert_state SET leader = '' WHERE leader = ?", (who,))

        await self._store.transaction(leave)


_SQLITE_TABLE = """
CREATE TABLE IF NOT EXISTS alert_state (
    id INTEGER PRIMARY KEY CHECK (id = 1), leader TEXT NOT NULL DEFAULT '', until REAL NOT NULL DEFAULT 0, body BLOB NOT NULL DEFAULT x''
)
"""
