"""A run exactly as it is stored, for one who does not trust it: read in one snapshot, nothing parsed, nothing believed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import StoreError
from orchestrator.stores.row import RunRow
from orchestrator.stores.script import run_row


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One stored entry. `seq`, `at` and `epoch` are whatever the database gives; `hash` is None where there is none."""

    seq: Any
    at: Any
    epoch: Any
    body: bytes
    hash: bytes | None


@dataclass(frozen=True, slots=True)
class StoredBody:
    """One raw body: the sha256 hex it is kept under, the one it has, its size in bytes; the body itself if it was asked for."""

    digest: str
    found: str
    size: int
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is stored of one run. `row` is None when the index has no line for it, or none that can be read (`unreadable`
    says why). `head` is the hash of the newest entry and its seal. `since` (unix seconds) is when this database began to hash; 0: from its beginning."""

    run_id: str
    row: RunRow | None = None
    head: bytes | None = None
    entries: tuple[StoredEntry, ...] = ()
    bodies: tuple[StoredBody, ...] = ()
    since: float = 0.0
    unreadable: str = ""


def stored_body(digest: str, body: bytes, *, keep: bool) -> StoredBody:
    """A raw body, digested; the body itself only if it is to be kept."""
    return StoredBody(str(digest), hashlib.sha256(body).hexdigest(), len(body), body if keep else None)


def evidence(
    run_id: str, line: Sequence[Any] | None, entries: Iterable[Sequence[Any]], bodies: Iterable[StoredBody], since: Any
) -> Evidence:
    """From the columns that a database gave: those of RunRow with the head after them; seq, at, epoch, body, hash."""
    row, problem = None, ""
    try:
        row = run_row(line[:-1]) if line else None
    except StoreError as error:
        problem = str(error)
    return Evidence(
        run_id,
        row,
        _bytes(line[-1]) if line else None,
        tuple(StoredEntry(seq, at, epoch, _bytes(body) or b"", _bytes(each)) for seq, at, epoch, body, each in entries),
        tuple(bodies),
        float(since) if isinstance(since, int | float) else 0.0,
        problem,
    )


def _bytes(value: Any) -> bytes | None:
    """A column that should be bytes; a damaged one may hold anything."""
    if isinstance(value, bytes | memoryview | bytearray):
        return bytes(value)
    return None if value is None else str(value).encode("utf-8", "replace")
