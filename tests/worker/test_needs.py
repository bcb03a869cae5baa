"""A run whose model no worker has waits for one that has it, and says so."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from orchestrator.core.events import Outcome, RunStarted
from orchestrator.core.spec import AgentSpec
from orchestrator.dispatch import Job, needs_of
from orchestrator.dispatch.lack import NOBODY, why
from orchestrator.settings import ModelSettings, Settings
from orchestrator.worker.queue import abilities, open_queue
from tests.build import final
from tests.worker.station import LONG, TOOLS, Station, clock, station, working
from tests.worker.test_commands import Cli, cli

__all__ = ["cli"]

SPECS = tuple(each.spec for each in TOOLS)


def having(*models: str) -> frozenset[str]:
    """What a worker has whose settings have these models."""
    tables = {name: ModelSettings(provider="openai", base_url="http://127.0.0.1:1/v1", model="m") for name in models}
    return abilities(Settings(models=tables), SPECS)


async def submit(place: Station, *models: str) -> None:
    first = RunStarted("Who?", AgentSpec(models=models), LONG, SPECS)
    await place.front.submit(Job("r1", needs=needs_of(first)), first, now=clock())


@pytest.mark.virtual
@pytest.mark.parametrize(
    ("named", "without", "enough"),
    [
        (("openai",), ("main",), ("main", "openai")),
        (("big", "small"), ("big",), ("big", "small")),
        (("default",), (), ("anything",)),
    ],
    ids=["renamed", "a fallback", "default is any"],
)
async def test_a_worker_without_the_model_leaves_the_run_and_one_with_it_takes_it(
    named: tuple[str, ...], without: tuple[str, ...], enough: tuple[str, ...]
) -> None:
    async with station([final()]) as place:
        await submit(place, *named)
        async with working(place, has=having(*without)) as poor:
            await asyncio.sleep(60.0)
            assert (await place.run()).turn is None
            assert (poor.figures.crashed, poor.held) == (0, {})
            async with working(place, has=having(*enough)):
                (ended,) = await place.ended("r1")
    assert ended.outcome is Outcome.ANSWERED


@pytest.mark.parametrize(
    ("lacks", "words"),
    [
        (None, NOBODY),
        ((), ""),
        (("model:openai",), "it needs the model 'openai';"),
        (
            ("agent:a@2", "mcp:near", "model:m", "tool:t@3"),
            "it needs the model 'm', version 2 of the agent 'a', the MCP server 'near', version 3 of the tool 't';",
        ),
    ],
)
def test_what_is_lacking_is_said_in_words(lacks: tuple[str, ...] | None, words: str) -> None:
    said = why(lacks)
    assert words in said
    assert bool(said) == bool(words)


def test_status_says_which_model_no_worker_has(cli: Cli) -> None:
    run_id = cli("submit", "Who?")[1].strip()
    assert json.loads(cli("status", run_id, "--json")[1])["detail"] == NOBODY

    async def look(*models: str) -> tuple[int, str]:
        """How many runs a worker with these models, and all else, gets; and what `status` says while it lives."""
        async with open_queue(Settings.load()) as (store, dispatcher):
            first = (await store.read(run_id))[0].event
            assert isinstance(first, RunStarted)
            has = having(*models) | {need for need in needs_of(first) if not need.startswith("model:")}
            taken = await dispatcher.take(1, now=time.time(), has=has, wait=0.0)
            return len(taken), (await asyncio.to_thread(cli, "status", run_id))[1]

    count, said = asyncio.run(look("main"))
    assert count == 0
    assert "state: open\n" in said
    words = "no worker takes it: it needs the model 'openai'; start a worker whose settings have that, or cancel it"
    assert f"detail: {words}\n" in said
    count, said = asyncio.run(look("main", "openai"))
    assert count == 1
    assert "detail" not in said
