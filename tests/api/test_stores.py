"""Whatever comes over the wire, each real store can take it: no answer is a server error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio

from orchestrator.stores import Store
from orchestrator.stores.postgres import PostgresStore
from orchestrator.stores.sqlite import SqliteStore
from tests.api.place import NOW, Place, place
from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

ODD = (
    "\x00",
    "a\x00b",
    "\u202e\U0001f600",
    "'; DROP TABLE runs;--",
    "%s%(x)s {0}",
    "é" * 200,
    "\ufffe\x7f",
    "x" * 5000,
)


@pytest_asyncio.fixture(params=["sqlite", "postgres"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/t.db"
        store: Store = SqliteStore(tmp_path / "t.db", look=0.02)
    else:
        url = request.getfixturevalue("postgres_url")
        store = PostgresStore(url)
    async with store, place(tmp_path, store=store, url=url) as found:
        yield found


async def test_odd_texts_are_taken_or_refused_and_come_back_as_they_were(kept: Place) -> None:
    fields = ("goal", "instructions", "key", "kind", "tenant")
    async with kept.client() as http:
        for odd in ODD:
            for field in fields:
                body: dict[str, Any] = {"goal": "x", "labels": {"a": "b"}, field: odd}
                response = await http.post("/v1/runs", json=body)
                assert response.status_code in {200, 201, 422}, (field, odd, response.text)
                if field == "goal" and response.status_code == 201:
                    assert (await http.get(response.headers["location"])).json()["goal"] == odd
            for query in ("agent", "tenant", "cursor"):
                assert (await http.get("/v1/runs", params={query: odd})).status_code in {200, 422}, (query, odd)
                assert (await http.get("/", params={query: odd})).status_code in {200, 422}, (query, odd)
            for path in ("/v1/runs/{}", "/v1/runs/{}/events", "/runs/{}", "/v1/runs/{}/raw/d"):
                assert (await http.get(path.format(quote(odd, safe="")))).status_code == 404, (path, odd)


async def test_numbers_at_the_edge_are_taken_or_refused(kept: Place) -> None:
    edges = {
        "priority": (-(10**6), 10**6, 2**40),
        "at": (0, 32_503_680_000, 1e300),
        "max_steps": (1, 10**9, 2**63),
        "max_tokens": (10**9, 2**70),
        "deadline": (1e-9, 1e9, 1e308),
        "max_cost": (0, 1e12, 1e308),
    }
    async with kept.client() as http:
        for field, values in edges.items():
            for value in values:
                response = await http.post("/v1/runs", json={"goal": "x", field: value})
                assert response.status_code in {201, 422}, (field, value, response.text)
        for query in ({"since": 32_503_680_000}, {"until": 0}, {"since": 1e300}, {"limit": 200}):
            assert (await http.get("/v1/runs", params=query)).status_code in {200, 422}
        assert (await http.get("/v1/health", params={"since": 0, "until": NOW + 10})).status_code == 200


async def test_a_key_is_good_once_and_a_page_is_followed(kept: Place) -> None:
    async with kept.client() as http:
        ids = {(await http.post("/v1/runs", json={"goal": "x", "key": "k"})).json()["run_id"] for _ in range(3)}
        assert len(ids) == 1
        for _ in range(3):
            kept.now += 1
            await http.post("/v1/runs", json={"goal": "x"})
        first = (await http.get("/v1/runs", params={"limit": 3})).json()
        rest = (await http.get("/v1/runs", params={"limit": 3, "cursor": first["next"]})).json()
    assert (len(first["runs"]), len(rest["runs"]), rest["next"]) == (3, 1, None)
