"""What the processes note beside the product: claims, and effects by idempotency key. Whoever is killed, this stays."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS effects (key TEXT NOT NULL, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS claims (pid INTEGER NOT NULL, run_id TEXT NOT NULL, epoch INTEGER NOT NULL, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS ends (pid INTEGER NOT NULL, run_id TEXT NOT NULL, epoch INTEGER NOT NULL, at REAL NOT NULL);
"""


class Notes:
    """One process's pen. Not synchronised to the disk: a killed process loses nothing of what it has written."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, timeout=60, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.executescript(_SCHEMA)

    def effect(self, key: str) -> None:
        self._db.execute("INSERT INTO effects VALUES (?, ?)", (key, time.time()))

    def claimed(self, run_id: str, epoch: int) -> None:
        self._db.execute("INSERT INTO claims VALUES (?, ?, ?, ?)", (os.getpid(), run_id, epoch, time.time()))

    def ended(self, run_id: str, epoch: int) -> None:
        self._db.execute("INSERT INTO ends VALUES (?, ?, ?, ?)", (os.getpid(), run_id, epoch, time.time()))

    def effects(self) -> dict[str, int]:
        """How often each effect happened."""
        return dict(self._db.execute("SELECT key, count(*) FROM effects GROUP BY key"))

    def claims(self) -> list[tuple[int, str, int, float]]:
        """(process, run, epoch, unix seconds), in order."""
        return list(self._db.execute("SELECT pid, run_id, epoch, at FROM claims ORDER BY at"))

    def handed_on(self) -> set[tuple[str, int]]:
        """The claims that their holders gave up by themselves."""
        return set(self._db.execute("SELECT run_id, epoch FROM ends"))
