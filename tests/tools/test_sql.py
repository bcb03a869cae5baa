"""SQL reads one database and can do nothing else, whatever is written."""

import sqlite3
from pathlib import Path

import pytest

from tests.tools.call import call, refused
from tools import sql


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "shop #1?.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, price REAL, photo BLOB);"
            "CREATE VIEW dear AS SELECT * FROM orders WHERE price > 250;"
        )
        connection.executemany(
            "INSERT INTO orders VALUES (?, ?, ?, ?)", [(n, f"item {n}", n * 1.5, b"xx") for n in range(1, 201)]
        )
    connection.close()
    monkeypatch.setenv("ORCHESTRATOR_SQL_DATABASE", str(path))
    monkeypatch.chdir(tmp_path)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


async def test_a_select_gives_columns_and_rows() -> None:
    found = await call(sql.sql_query, sql="SELECT count(*) AS n, max(price) FROM orders WHERE item LIKE 'item 1%'")
    assert found == {"columns": ["n", "max(price)"], "rows": [[111, 298.5]]}
    assert (await call(sql.sql_query, sql="SELECT id FROM dear ORDER BY id LIMIT 1"))["rows"] == [[167]]


async def test_the_schema_shows_tables_and_views() -> None:
    assert list((await call(sql.sql_schema))["tables"]) == ["dear", "orders"]


async def test_rows_are_capped_with_a_note() -> None:
    found = await call(sql.sql_query, sql="SELECT id FROM orders")
    assert len(found["rows"]) == sql.MOST_ROWS
    assert "first 100 rows" in found["note"]


async def test_cells_are_what_json_can_hold() -> None:
    found = await call(
        sql.sql_query, sql="SELECT photo, replace(printf('%900d', 1), ' ', 'x'), 9e999, NULL FROM orders LIMIT 1"
    )
    blob, text, infinite, nothing = found["rows"][0]
    assert (blob, infinite, nothing) == ("<2 bytes>", "inf", None)
    assert text.endswith("(400 more characters)")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM orders",
        "INSERT INTO orders VALUES (999, 'x', 1, NULL)",
        "UPDATE orders SET price = 0",
        "DROP TABLE orders",
        "CREATE TABLE t (a)",
        "CREATE TEMP TABLE t AS SELECT 1",
        "ATTACH DATABASE 'x.db' AS x",
        "PRAGMA writable_schema = 1",
        "PRAGMA table_info(orders)",
        "VACUUM INTO 'x.db'",
        "SELECT load_extension('x')",
        "SELECT readfile('/etc/passwd')",
        "SELECT randomblob(900000)",
        "BEGIN",
        "WITH x AS (SELECT 1) DELETE FROM orders",
        "EXPLAIN DELETE FROM orders",
        "SELECT * FROM pragma_database_list",
    ],
)
async def test_everything_but_a_plain_select_is_refused(statement: str, database: Path) -> None:
    before = contents(database.parent)
    assert (await refused(sql.sql_query, sql=statement)).code in ("FORBIDDEN", "INVALID_SQL")
    assert contents(database.parent) == before


@pytest.mark.parametrize(
    "statement", ["SELEC 1", "SELECT 1; SELECT 2", "SELECT nothing FROM orders", "", "\x00", "SELECT '\ud800'"]
)
async def test_what_is_no_sql_is_an_error_or_empty(statement: str) -> None:
    if statement == "":
        assert await call(sql.sql_query, sql=statement) == {"columns": [], "rows": []}
    else:
        assert (await refused(sql.sql_query, sql=statement)).code == "INVALID_SQL"


async def test_an_endless_query_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "SECONDS", 0.05)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n"
    assert (await refused(sql.sql_query, sql=endless)).code == "TIMEOUT"


async def test_a_giant_value_is_refused() -> None:
    statement = "SELECT replace(printf('%900000d', 1), ' ', 'xxx')"
    assert (await refused(sql.sql_query, sql=statement)).code == "TOO_LARGE"


async def test_a_missing_database_says_what_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ORCHESTRATOR_SQL_DATABASE", str(tmp_path / "none.db"))
    assert (await refused(sql.sql_query, sql="SELECT 1")).code == "UNAVAILABLE"
    assert "none.db" not in contents(tmp_path)
    monkeypatch.delenv("ORCHESTRATOR_SQL_DATABASE")
    assert "ORCHESTRATOR_SQL_DATABASE" in (await refused(sql.sql_schema)).message
