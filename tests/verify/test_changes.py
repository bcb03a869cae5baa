"""Each of 1,000 random single changes to stored traces is found, and the message names the place: in SQLite and in PostgreSQL, with a key and without."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from orchestrator.stores import Store
from orchestrator.stores.postgres import PostgresStore
from orchestrator.stores.sqlite import SqliteStore
from tests.verify.changes import CHANGES
from tests.verify.vault import PostgresVault, SqliteVault, Vault
from tests.verify.world import KEY, RUNS, fill, judged, problems

EACH = 1000 // len(CHANGES) + 1


async def missed(store: Store, vault: Vault, key: bytes) -> list[str]:
    """What was changed and not named."""
    wrong: list[str] = []
    for change in CHANGES:
        for seed in range(EACH):
            wanted = change(vault, random.Random(f"{change.__name__} {seed}"))
            told = problems(await judged(store, key))
            if not any(re.match(wanted, each) for each in told):
                wrong.append(f"{change.__name__} {seed}: wanted {wanted!r}, told {told[:4]}")
            vault.restore()
    assert problems(await judged(store, key)) == []
    return wrong


@pytest.mark.parametrize("key", [b"", KEY], ids=["plain", "keyed"])
async def test_each_of_1000_changes_in_sqlite_is_found_and_named(tmp_path: Path, key: bytes) -> None:
    path = tmp_path / "trace.db"
    async with SqliteStore(path, key=key) as store, SqliteStore(path, key=key) as other:
        await fill(store, other)
        assert sorted(await store.traced()) == sorted(RUNS)
        assert problems(await judged(store, key)) == []
        vault = SqliteVault(path)
        wrong = await missed(store, vault, key)
        vault.close()
    assert wrong == []


async def test_each_of_1000_changes_in_postgres_is_found_and_named(postgres_url: str) -> None:
    async with PostgresStore(postgres_url, key=KEY) as store, PostgresStore(postgres_url, key=KEY) as other:
        await fill(store, other)
        assert sorted(await store.traced()) == sorted(RUNS)
        assert problems(await judged(store, KEY)) == []
        vault = PostgresVault(postgres_url)
        wrong = await missed(store, vault, KEY)
        vault.close()
    assert wrong == []
