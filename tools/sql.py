"""Questions to one SQLite database, named by ORCHESTRATOR_SQL_DATABASE. Reading only, whatever the model writes.

Four fences, each enough for its own kind of harm: the file is opened read-only; an authorizer allows SELECT, column reads
and a closed list of functions; a progress handler ends a statement after its time; rows, cells and values have bounds.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from math import isfinite
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import quote

from orchestrator.tool import ToolError, tool

SECONDS = 3.0
MOST_ROWS = 100
MOST_CHARS = 500
MOST_VALUE_BYTES = 1_000_000
CHECK_EVERY = 10_000  # virtual machine steps between two looks at the clock, about a millisecond
FUNCTIONS = frozenset({
    "abs", "avg", "ceil", "ceiling", "coalesce", "count", "cume_dist", "date", "datetime", "dense_rank",
    "first_value", "floor", "format", "glob", "group_concat", "hex", "ifnull", "iif", "instr", "julianday", "lag",
    "last_value", "lead", "length", "like", "lower", "ltrim", "max", "min", "mod", "nth_value", "ntile", "nullif",
    "percent_rank", "pow", "power", "printf", "quote", "rank", "replace", "round", "row_number", "rtrim", "sign",
    "sqrt", "strftime", "substr", "substring", "sum", "time", "total", "trim", "typeof", "unicode", "unixepoch",
    "upper", "json_extract", "json_array_length", "json_type", "json_valid", "->", "->>",
})  # fmt: skip


@tool(repeatable=True, timeout=10.0, trusted=False, aliases=("数据库查询",))
def sql_query(sql: str) -> dict[str, Any]:
    """Run one SELECT on the operator's SQLite database; at most 100 rows come back. See sql_schema for the tables."""
    with database() as connection:
        connection.set_authorizer(authorize)
        deadline = monotonic() + SECONDS
        connection.set_progress_handler(lambda: monotonic() > deadline, CHECK_EVERY)
        try:
            cursor = connection.execute(sql)
            rows = cursor.fetchmany(MOST_ROWS + 1)
        except (sqlite3.Error, sqlite3.Warning, UnicodeError, ValueError) as error:
            raise refusal(error) from error
        columns = [column[0] for column in cursor.description or ()]
    found: dict[str, Any] = {"columns": columns, "rows": [[cell(value) for value in row] for row in rows[:MOST_ROWS]]}
    if len(rows) > MOST_ROWS:
        found["note"] = f"only the first {MOST_ROWS} rows are shown; narrow the query or aggregate"
    return found


@tool(repeatable=True, timeout=10.0, aliases=("数据库结构",))
def sql_schema() -> dict[str, Any]:
    """The tables and views of the operator's SQLite database, as their CREATE statements."""
    with database() as connection:
        try:
            rows = connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
            ).fetchmany(MOST_ROWS)
        except sqlite3.Error as error:
            raise refusal(error) from error
    return {"tables": {name: str(statement)[: 4 * MOST_CHARS] for name, statement in rows}}


@contextmanager
def database() -> Iterator[sqlite3.Connection]:
    """The operator's database, read-only."""
    path = os.environ.get("ORCHESTRATOR_SQL_DATABASE", "")
    if not path:
        raise ToolError("NOT_CONFIGURED", "set ORCHESTRATOR_SQL_DATABASE to the path of a SQLite file")
    uri = f"file:{quote(str(Path(path).absolute()))}?mode=ro"
    try:
        connection = sqlite3.connect(uri, uri=True, timeout=1.0, isolation_level=None)
    except sqlite3.Error as error:
        raise ToolError("UNAVAILABLE", f"the database {path} cannot be opened: {error}") from error
    with closing(connection):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        yield connection


def authorize(action: int, first: str | None, second: str | None, _schema: str | None, _trigger: str | None) -> int:
    """SQLite asks before it compiles each access; what is not listed is denied."""
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (second or first or "").casefold() in FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def refusal(error: Exception) -> ToolError:
    """The model is told what it can change."""
    text = str(error)
    if "interrupted" in text:
        return ToolError("TIMEOUT", f"the query took longer than {SECONDS:.0f} s; narrow it")
    if "not authorized" in text or "prohibited" in text:
        return ToolError("FORBIDDEN", f"only SELECT with ordinary functions is allowed: {text}")
    if "locked" in text or "busy" in text:
        return ToolError("UNAVAILABLE", f"the database is busy: {text}")
    if "too big" in text:
        return ToolError("TOO_LARGE", "a value in this query is larger than 1 MB")
    return ToolError("INVALID_SQL", text[:300])


def cell(value: object) -> Any:
    """One value as JSON: long text is cut, bytes are named by their size, numbers beyond JSON are text."""
    match value:
        case bytes():
            return f"<{len(value)} bytes>"
        case str() if len(value) > MOST_CHARS:
            return value[:MOST_CHARS] + f" ... ({len(value) - MOST_CHARS} more characters)"
        case float() if not isfinite(value):
            return str(value)
        case _:
            return value
