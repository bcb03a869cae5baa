"""The arrays that we write ourselves are what psycopg's own lists are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.stores.arrays import Bodies, Floats, Integers, Texts
from orchestrator.stores.link import connect, conninfo

TEXTS = st.lists(st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1))
FLOATS = st.lists(st.none() | st.floats(allow_nan=False))


@pytest.fixture
async def connection(postgres_url: str) -> AsyncIterator[psycopg.AsyncConnection[tuple[Any, ...]]]:
    async with await connect(conninfo(postgres_url)) as connection:
        yield connection


@given(texts=TEXTS, integers=INTEGERS, floats=FLOATS, bodies=st.lists(st.binary()))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_the_server_reads_each_array_as_it_was_meant(
    connection: psycopg.AsyncConnection[tuple[Any, ...]],
    texts: list[str | None],
    integers: list[int],
    floats: list[float | None],
    bodies: list[bytes],
) -> None:
    ours: Sequence[object] = (Texts(texts), Integers(integers), Floats(floats), Bodies(bodies))
    plain = (texts, integers, floats, bodies)
    same = "SELECT %s = %s::text[], %s = %s::bigint[], %s = %s::float8[], %s = %b::bytea[]"
    asked = await connection.execute(same, [each for pair in zip(ours, plain, strict=True) for each in pair])
    assert await asked.fetchone() == (True, True, True, True)
    asked = await connection.execute("SELECT %s, %s, %s, %s", ours, binary=True)
    assert await asked.fetchone() == plain


async def test_a_column_that_is_too_short_is_filled_up_with_nulls(
    connection: psycopg.AsyncConnection[tuple[Any, ...]],
) -> None:
    asked = await connection.execute("SELECT * FROM unnest(%s, %s)", (Integers([1, 2]), Texts(["\u00e9"])))
    assert await asked.fetchall() == [(1, "\u00e9"), (2, None)]
