"""One PostgreSQL server: how it is reached, its schema brought up to date, and how its failures are told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from orchestrator.errors import ConfigError, StoreError
from orchestrator.stores import arrays
from orchestrator.stores.script import script

_SCRIPT = script(Path(__file__).with_name("postgres.sql"))
SQL: Final[Mapping[str, bytes]] = {name: text.encode() for name, text in _SCRIPT.queries.items()}
LIST: Final = _SCRIPT.queries["list"]

PATIENT = {
    "application_name": "orchestrator",
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
"""A server that vanished without a word is noticed within about 15 s. What the URL says wins."""

ADVICE: Mapping[type[psycopg.Error], str] = {
    errors.DiskFull: "the server's disk is full: make room; nothing acknowledged is lost",
    errors.InsufficientPrivilege: "the role may not do this: grant it the tables runs, entries and blobs",
    errors.UndefinedTable: "the schema is missing: open the store with a role that may create tables",
    errors.ReadOnlySqlTransaction: "this server is a standby: give the primary's address",
    errors.InvalidPassword: "check user and password in the database URL",
    errors.InvalidCatalogName: "create that database, or give another name in the URL",
}


def conninfo(url: str) -> str:
    """The connection string, in UTF-8, with our timeouts where it names none. ConfigError if it cannot be read."""
    try:
        named = conninfo_to_dict(url)
        ours = {key: value for key, value in PATIENT.items() if key not in named}
        return make_conninfo(url, **ours, client_encoding="UTF8")
    except psycopg.ProgrammingError as error:
        raise ConfigError(f"database URL: {error}; write postgresql://user:password@host:5432/name") from error


async def connect(info: str) -> psycopg.AsyncConnection[tuple[Any, ...]]:
    """A connection in autocommit mode, configured."""
    connection = await psycopg.AsyncConnection.connect(info, autocommit=True)
    try:
        await configure(connection)
    except BaseException:
        await connection.close()
        raise
    return connection


async def configure(connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> None:
    """It knows our arrays; commits are durable even where the server's default is not; a client that freezes soon loses its locks."""
    arrays.register(connection.adapters)
    await connection.execute(SQL["configure"])


async def migrate(connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> None:
    """Bring the schema to this release's version, once, whoever comes first. A newer one is left alone: StoreError."""
    async with connection.transaction():
        await connection.execute(SQL["lock schema"])
        await connection.execute(SQL["version table"])
        row = await (await connection.execute(SQL["version"])).fetchone()
        version = row[0] if row else 0
        if version > len(_SCRIPT.migrations):
            raise StoreError(f"database schema version {version} is newer than this release; upgrade the orchestrator")
        for number, statements in enumerate(_SCRIPT.migrations[version:], version + 1):
            for statement in statements:
                await connection.execute(statement.encode())
            await connection.execute(SQL["set version"], (number,))


def is_lost(connection: psycopg.AsyncConnection[Any] | None, error: BaseException) -> bool:
    """Is the connection gone (or was it never there), so that what was under way may or may not have happened?"""
    if isinstance(error, errors.InvalidPassword | errors.InvalidCatalogName | errors.InvalidAuthorizationSpecification):
        return False
    return connection is None or connection.closed or isinstance(error, TimeoutError | errors.AdminShutdown)


def failure(error: BaseException, place: str, what: str) -> StoreError:
    """The server's error as a caller should see it."""
    text = " ".join(str(error).split()) or type(error).__name__
    told = StoreError(
        f"{place}: PostgreSQL: {text}; {ADVICE.get(type(error), what) if isinstance(error, psycopg.Error) else what}"
    )
    told.__cause__ = error
    return told
