"""Reads the `.sql` file of a store: migrations and named queries, each under a line `-- [name]`. Python holds no SQL but filters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from orchestrator.core.events import Outcome
from orchestrator.errors import StoreError
from orchestrator.stores.row import Ended, RunRow, excerpt


@dataclass(frozen=True, slots=True)
class Script:
    """`migrations[n]` brings a schema from version n to n + 1, statement by statement; `queries` by name."""

    migrations: tuple[tuple[str, ...], ...]
    queries: Mapping[str, str]


def script(path: Path) -> Script:
    """Read the file once, at import."""
    parts = re.split(r"^-- \[(.+)\]\n", path.read_text("utf-8"), flags=re.MULTILINE)
    named = dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))
    migrations = [text for name, text in named.items() if name.startswith("migration ")]
    statements = [tuple(filter(None, map(str.strip, re.split(r";\n|;$", text)))) for text in migrations]
    return Script(tuple(statements), {name: text for name, text in named.items() if not name.startswith("migration ")})


def listing(  # noqa: PLR0913  the filters of Store.runs
    query: str,
    mark: str,
    *,
    since: float | None,
    until: float | None,
    outcome: Ended | None,
    agent: str | None,
    tenant: str | None,
    after: tuple[float, str] | None,
    limit: int,
) -> tuple[str, dict[str, Any]]:
    """The listing with only the filters that were asked for, so that an index can serve it. `mark` is `:{}` or `%({})s`."""
    at, run_id = after or (None, None)
    asked: dict[str, tuple[str, Any]] = {
        "since": ("started_at >= {since}", since),
        "until": ("started_at < {until}", until),
        "outcome": ("outcome IS NULL" if outcome == "open" else "outcome = {outcome}", outcome),
        "agent": ("agent = {agent}", agent and excerpt(agent)),
        "tenant": ("tenant = {tenant}", tenant if tenant is None else excerpt(tenant)),
        "after": ("(started_at, run_id) < ({after}, {after_id})", at),
    }
    values = {name: value for name, (_, value) in asked.items() if value is not None}
    marks = {name: mark.format(name) for name in (*asked, "after_id")}
    filters = "".join(f" AND {asked[name][0]}".format_map(marks) for name in values)
    return query.replace("/* filters */", filters), {**values, "after_id": run_id, "limit": max(limit, 0)}


def run_row(columns: Sequence[Any]) -> RunRow:
    """A RunRow from the columns in the order of its fields. StoreError for an outcome that this release cannot name."""
    values = list(columns)
    try:
        values[_OUTCOME] = None if values[_OUTCOME] is None else Outcome(values[_OUTCOME])
    except ValueError as error:
        raise StoreError(f"run {values[0]} ended by a newer release: {error}; upgrade the orchestrator") from error
    return RunRow(*values)


_OUTCOME = [field.name for field in fields(RunRow)].index("outcome")
