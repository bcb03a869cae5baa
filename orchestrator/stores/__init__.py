"""Where Traces are kept. One narrow protocol, one conformance suite, three stores: memory, SQLite, PostgreSQL.

A store knows entries, raw bodies and an index of runs. It does not know how a run goes on, who claims it, or what time it is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeAlias

from orchestrator.core.events import Entry, Event, Trace
from orchestrator.stores.evidence import Evidence
from orchestrator.stores.row import Ended, RunRow

__all__ = ["UNFENCED", "Ended", "Evidence", "RunRow", "Statement", "Store"]

UNFENCED: Final = 2**62
"""The epoch of one who holds no claim (a callback, a person's Decision): only `seq` guards such an append."""

Statement: TypeAlias = tuple[str, Sequence[Any]]
"""SQL in the store's own dialect (`?` for SQLite, `%s` for PostgreSQL) and its parameters."""


class Store(Protocol):
    """An append-only log of Entries per run. Every method raises StoreError, saying which file or server and what to do."""

    async def open(self) -> None:
        """Connect and migrate the schema. `async with store:` opens and closes."""
        ...

    async def close(self) -> None:
        """Write what has been handed over, then let go of files and connections. Closing twice is harmless."""
        ...

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def append(  # noqa: PLR0913  one write, named arguments
        self,
        run_id: str,
        seq: int,
        events: Sequence[Event],
        *,
        at: float,
        epoch: int = 0,
        blobs: Mapping[str, bytes] = {},
        enlist: Sequence[Statement] = (),
    ) -> Trace:
        """Write `events` as entries seq+1, seq+2, ... of the run, all at unix time `at`; they are durable on return.

        `seq` is the number of entries that the caller has seen. Conflict: the run has another number by now, or its epoch
        is higher than the caller's. `blobs` (sha256 hex -> raw body) and `enlist` (for one who keeps a queue in the same
        database) are written in the same transaction, or not at all. A statement that fails fails the append; the memory
        store has no SQL and refuses them. Cancelling the caller does not undo the append: it is whole or absent.
        """
        ...

    async def read(self, run_id: str, after: int = 0) -> Trace:
        """The entries with seq > `after`, in order; empty for an unknown run."""
        ...

    def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Entry]:
        """The entries with seq > `after` as they become durable, here or in another process, up to RunEnded.

        Holds nothing while the caller is not asking: a paused reader blocks nobody.
        """
        ...

    async def blob(self, digest: str) -> bytes | None:
        """The raw body of this sha256, or None if it was never stored or has been purged."""
        ...

    async def bump(self, run_id: str) -> int:
        """A new epoch for the run, for a new holder: appends with an older one are Conflicts from now on."""
        ...

    async def row(self, run_id: str) -> RunRow | None:
        """The run's line in the index."""
        ...

    async def runs(  # noqa: PLR0913  each is one filter
        self,
        *,
        since: float | None = None,
        until: float | None = None,
        outcome: Ended | None = None,
        agent: str | None = None,
        tenant: str | None = None,
        after: tuple[float, str] | None = None,
        limit: int = 50,
    ) -> tuple[RunRow, ...]:
        """Runs, newest start first: since <= started_at < until. The next page is `after=page[-1].key`."""
        ...

    async def evidence(self, run_id: str, *, bodies: bool = False) -> Evidence:
        """All that is stored of the run, as it is stored, in one snapshot; with the raw bodies themselves if asked for."""
        ...

    async def traced(self, since: float = 0.0) -> tuple[str, ...]:
        """The ids of all runs started at `since` or later, and of every entry or body whose run the index does not know."""
        ...

    async def purge(self, older_than: float) -> int:
        """Delete the runs that ended before this unix time, with their entries and blobs; how many. Open runs stay."""
        ...
