"""The Page in PostgreSQL. Needs the extra `postgres`."""

# ruff: noqa: D102  Book says what each method does
from __future__ import annotations

from typing import Any

import psycopg

from orchestrator.monitor.book import Book
from orchestrator.stores.link import failure
from orchestrator.stores.postgres import PostgresStore

_TABLE = """
CREATE TABLE IF NOT EXISTS alert_state (
    id integer PRIMARY KEY CHECK (id = 1), leader text NOT NULL DEFAULT '', until double precision NOT NULL DEFAULT 0,
    body bytea NOT NULL DEFAULT ''
)
"""
_LEAD = """
INSERT INTO alert_state AS held (id, leader, until) VALUES (1, %(who)s, %(until)s)
ON CONFLICT (id) DO UPDATE SET leader = excluded.leader, until = excluded.until
WHERE held.leader IN ('', excluded.leader) OR held.until <= %(now)s
RETURNING body
"""
_SAVE = "UPDATE alert_state SET body = %(body)s WHERE leader = %(who)s RETURNING id"
_RESIGN = "UPDATE alert_state SET leader = '' WHERE leader = %(who)s RETURNING id"


class PostgresBook(Book):
    """A row in the store's database."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._made = False

    async def lead(self, who: str, *, now: float, until: float) -> bytes | None:
        await self._make()
        found = await self._query(_LEAD, who=who, until=until, now=now)
        return bytes(found[0][0]) if found else None

    async def save(self, who: str, body: bytes) -> bool:
        return bool(await self._query(_SAVE, who=who, body=body))

    async def peek(self) -> bytes:
        await self._make()
        found = await self._query("SELECT body FROM alert_state")
        return bytes(found[0][0]) if found else b""

    async def resign(self, who: str) -> None:
        await self._query(_RESIGN, who=who)

    async def _make(self) -> None:
        if not self._made:
            await self._query("SELECT pg_advisory_xact_lock(hashtext('orchestrator schema'))", _TABLE)
            self._made = True

    async def _query(self, *statements: str, **values: Any) -> list[tuple[Any, ...]]:
        try:
            async with self._store.pool.connection() as connection, connection.transaction():
                for statement in statements:
                    cursor = await connection.execute(statement.encode(), values or None)
                return await cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise failure(error, "monitor", "try again; if it stays, look at the server's log") from error
