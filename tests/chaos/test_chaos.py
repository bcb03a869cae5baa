"""A short play with real processes; `make chaos-real` is the long one, with the issue's figures."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from psycopg.conninfo import conninfo_to_dict

from orchestrator.dispatch import DispatchRules
from orchestrator.stores.link import connect
from tests.chaos.play import Plan, play
from tests.chaos.result import SOON
from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'runs.db'}"
    parts = conninfo_to_dict(request.getfixturevalue("postgres_url"))
    return f"postgresql:///?{urlencode(parts, quote_via=quote)}"


async def test_workers_are_killed_and_frozen_and_every_run_ends_with_each_effect_once(
    store: str, tmp_path: Path
) -> None:
    plan = Plan(store, tmp_path, runs=30, workers=2, every=1.0, lasting=4.0, frozen=3.0, script="k3-l300", lease=2.0)
    result = await play(plan)
    assert result.fine, f"{result.table()}\n{(tmp_path / 'workers.log').read_text('utf-8', 'replace')[-4000:]}"
    assert result.effects > 0
    assert result.takeovers or result.unseen or result.unknown, "nobody took anything over: the play was too short"


async def test_a_machine_that_freezes_inside_a_transaction_loses_its_locks_well_before_a_takeover_is_late(
    postgres_url: str,
) -> None:
    """Seen with SIGSTOP: it held the sweepers' lock, and nobody's runs were taken over for as long."""
    connection = await connect(postgres_url)
    async with connection:
        row = await (await connection.execute("SHOW idle_in_transaction_session_timeout")).fetchone()
    assert row is not None
    assert DispatchRules().lease + float(row[0].removesuffix("s")) < SOON
