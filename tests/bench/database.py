"""The PostgreSQL of the bench: the one of ORCHESTRATOR_TEST_DATABASE_URL or one of our own, a fresh database a measurement."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.postgres import OwnServer

TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of a server where databases may be created."""
    given = os.environ.get("ORCHESTRATOR_TEST_DATABASE_URL")
    if given:
        yield given
        return
    server = OwnServer()
    try:
        yield server.url
    finally:
        server.remove()


@contextmanager
def fresh(server: str) -> Iterator[str]:
    """The URL of an empty database."""
    name = f"bench_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield urlsplit(server)._replace(path=f"/{name}").geturl()
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def server_cpu(url: str) -> float | None:
    """CPU seconds of the server's processes, ended ones too; None where it is not on this machine."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    try:
        master = int(Path(str(row and row[0]), "postmaster.pid").read_text("ascii").split()[0])
        own = _stat(master)
    except (OSError, ValueError):
        return None
    ticks = sum(own[11:15])  # utime, stime and those of children that were waited for
    for process in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            each = _stat(int(process.name))
            ticks += sum(each[11:13]) if each[1] == master else 0
    return ticks / TICKS


def _stat(process: int) -> list[int]:
    """The numbers behind the name in /proc/N/stat: 0 (the state), the parent, and so on; see proc(5)."""
    fields = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
    return [0, *map(int, fields[1:])]
