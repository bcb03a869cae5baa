"""The list of runs, with filters that the index knows and filters that only the traces know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self, cast

from orchestrator.api.state import cursor, opened
from orchestrator.console.view import anomalies_of, tools_of
from orchestrator.core.events import Anomaly, Outcome, Trace
from orchestrator.core.run import replay
from orchestrator.errors import IllegalEvent
from orchestrator.stores import Ended, RunRow, Store

PAGE = 50
SEARCHED = 500
"""Runs whose traces one request looks through."""
HOUR = 3600.0
WAITING = "waiting"
"""Open, and a person or a long tool has the word: nothing that the index knows for certain."""
CHOICES: Mapping[str, tuple[str, ...]] = {
    "outcome": ("open", WAITING, *(each.value for each in Outcome)),
    "anomaly": tuple(each.value for each in Anomaly),
}
NUMBERS: Mapping[str, int] = {"hours": 6, "since": 12, "until": 12}
"""Filters that are whole numbers, and how long those may be."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What a browser asked for; what makes no sense is left out. `hours`, `since` and `until` (unix seconds) are numbers as text."""

    outcome: str = ""
    agent: str = ""
    anomaly: str = ""
    tool: str = ""
    hours: str = ""
    since: str = ""
    until: str = ""
    cursor: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        """The filters of a query."""
        asked = {each.name: query.get(each.name, "").strip()[:600] for each in fields(cls)}
        for name, known in CHOICES.items():
            asked[name] = asked[name] if asked[name] in known else ""
        for name, longest in NUMBERS.items():
            given = asked[name]
            asked[name] = given if given.isascii() and given.isdigit() and len(given) <= longest else ""
        return cls(**asked)

    @property
    def said(self) -> Mapping[str, str]:
        """The filters that say something, for a link to the next page."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in found.items() if value and name != "cursor"}

    async def keep(self, store: Store, row: RunRow) -> bool:
        """Does its trace have what is asked for?"""
        if not (self.tool or self.anomaly or self.outcome == WAITING):
            return True
        trace = await store.read(row.run_id)
        if self.outcome == WAITING and not _waits(trace):
            return False
        return (not self.tool or self.tool in tools_of(trace)) and (
            not self.anomaly or self.anomaly in anomalies_of(trace)
        )


def _waits(trace: Trace) -> bool:
    try:
        return bool(replay(trace).waiting)
    except IllegalEvent:
        return False


@dataclass(frozen=True, slots=True)
class Listed:
    """A page. `searched`: there may be more, further back than was looked."""

    rows: tuple[RunRow, ...]
    next: str | None
    searched: bool


async def listed(store: Store, filters: Filters, tenant: str | None, now: float) -> Listed:
    """A page of the runs that pass the filters, newest first."""
    after = opened(filters.cursor) if filters.cursor else None
    since = now - int(filters.hours) * HOUR if filters.hours else float(filters.since) if filters.since else None
    until = float(filters.until) if filters.until else None
    outcome = cast("Ended | None", "open" if filters.outcome == WAITING else filters.outcome or None)
    found: list[RunRow] = []
    looked = 0
    while looked < SEARCHED:
        rows = await store.runs(
            since=since,
            until=until,
            outcome=outcome,
            agent=filters.agent or None,
            tenant=tenant,
            after=after,
            limit=PAGE,
        )
        for row in rows:
            looked += 1
            after = row.key
            if await filters.keep(store, row):
                found.append(row)
            if len(found) == PAGE:
                return Listed(tuple(found), cursor(row), searched=False)
        if len(rows) < PAGE:
            return Listed(tuple(found), None, searched=False)
    return Listed(tuple(found), cursor(row), searched=True)
