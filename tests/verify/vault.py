"""The tables of a store behind its back: read, changed by SQL, and put back as they were."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import psycopg

Rows: TypeAlias = list[tuple[Any, ...]]
TABLES = ("runs", "entries", "blobs")


class Vault(Protocol):
    """One database. SQL with `?`; `body(...)` is a JSON text as this database holds it."""

    def ask(self, sql: str, *values: Any) -> Rows: ...

    def do(self, sql: str, *values: Any) -> int: ...

    def body(self, text: bytes) -> Any: ...

    def restore(self) -> None: ...


class SqliteVault:
    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA synchronous = OFF")
        self._kept = {table: self.ask(f"SELECT * FROM {table}") for table in TABLES}  # noqa: S608

    def ask(self, sql: str, *values: Any) -> Rows:
        return self._connection.execute(sql, values).fetchall()

    def do(self, sql: str, *values: Any) -> int:
        return self._connection.execute(sql, values).rowcount

    def body(self, text: bytes) -> Any:
        return text.decode()

    def restore(self) -> None:
        self.do("BEGIN")
        for table, rows in self._kept.items():
            self.do(f"DELETE FROM {table}")  # noqa: S608
            marks = ", ".join("?" * len(rows[0]))
            self._connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608
        self.do("COMMIT")

    def close(self) -> None:
        self._connection.close()


class PostgresVault:
    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("SET synchronous_commit = off")
        for table in TABLES:
            self._connection.execute(f"CREATE TABLE kept_{table} AS TABLE {table}".encode())

    def ask(self, sql: str, *values: Any) -> Rows:
        return self._connection.execute(sql.replace("?", "%s").encode(), values).fetchall()

    def do(self, sql: str, *values: Any) -> int:
        return self._connection.execute(sql.replace("?", "%s").encode(), values).rowcount

    def body(self, text: bytes) -> Any:
        return text

    def restore(self) -> None:
        with self._connection.transaction():
            for table in TABLES:
                self._connection.execute(f"DELETE FROM {table}".encode())  # noqa: S608
                self._connection.execute(f"INSERT INTO {table} TABLE kept_{table}".encode())

    def close(self) -> None:
        self._connection.close()
