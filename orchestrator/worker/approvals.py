"""How long the oldest approval has waited: read off the traces of runs that wait, for the gauge and its alert."""

from __future__ import annotations

from orchestrator.core.run import replay
from orchestrator.errors import IllegalEvent
from orchestrator.stores import RunRow, Store

PAGE = 500
MOST = 5_000
"""Open runs that are looked through, the newest first: beyond them the gauge is a lower bound."""


class Approvals:
    """Remembers what it has read, so that a look costs what has moved since the last one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[str, tuple[int, float | None]] = {}

    async def oldest(self, now: float) -> float:
        """Seconds since the oldest waiting action asked for a person; 0 where none waits. StoreError as the store's."""
        known: dict[str, tuple[int, float | None]] = {}
        after: tuple[float, str] | None = None
        while len(known) < MOST and (page := await self._store.runs(outcome="open", after=after, limit=PAGE)):
            for row in page:
                seen = self._read.get(row.run_id)
                known[row.run_id] = seen if seen and seen[0] == row.last_seq else (row.last_seq, await self._since(row))
            if len(page) < PAGE:
                break
            after = page[-1].key
        self._read = known
        return max(0.0, now - min((since for _, since in known.values() if since is not None), default=now))

    async def _since(self, row: RunRow) -> float | None:
        """When this run began to wait for a person; None when it does not."""
        if row.last_kind not in {"waiting", "observation", "decision"}:
            return None
        trace = await self._store.read(row.run_id)
        try:
            asked = {each.id for each in replay(trace).waiting.values() if each.reason == "approval"}
        except IllegalEvent:
            return None
        return min(
            (entry.at for entry in trace if entry.event.kind == "waiting" and entry.event.id in asked), default=None
        )
