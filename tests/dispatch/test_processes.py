"""Real processes on one queue: nothing twice, nothing lost, whoever is killed."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest
import pytest_asyncio

from orchestrator.core.events import ActionStarted, RunStarted
from orchestrator.dispatch import Job
from orchestrator.errors import Conflict
from tests.dispatch.process import opened

ROOT = Path(__file__).parent.parent.parent
Start: TypeAlias = Callable[[str, int], Awaitable[Process]]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'trace.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest_asyncio.fixture
async def start(url: str) -> AsyncIterator[Start]:
    started: list[Process] = []

    async def begin(verb: str, count: int) -> Process:
        arguments = ("-m", "tests.dispatch.process", url, verb, str(count))
        started.append(
            await asyncio.create_subprocess_exec(sys.executable, *arguments, stdin=PIPE, stdout=PIPE, cwd=ROOT)
        )
        return started[-1]

    yield begin
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def said(process: Process) -> list[str]:
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode().split()


async def test_two_processes_submit_each_key_once_and_drive_each_run_once(start: Start) -> None:
    submitted = await asyncio.gather(*[said(await start("submit", 50)) for _ in range(2)])
    runs = [run_id for each in submitted for run_id in each]
    assert len(runs) == 50
    driven = await asyncio.gather(*[said(await start("drain", 50)) for _ in range(2)])
    assert sorted(driven[0] + driven[1]) == sorted(runs)


async def test_the_runs_of_a_killed_process_are_taken_over_within_its_lease(url: str, start: Start) -> None:
    async with opened(url) as (_, dispatcher):
        for n in range(5):
            await dispatcher.submit(Job(f"r{n}"), RunStarted("g"), now=time.time())
        holder = await start("hold", 4)
        assert holder.stdout
        held = (await holder.stdout.readline()).decode().split()
        assert sorted(held) == ["r0", "r1", "r2", "r3"]
        assert await dispatcher.sweep(now=time.time()) == 0
        holder.send_signal(signal.SIGKILL)
        await holder.wait()
        killed = time.monotonic()
        taken: list[str] = []
        async with asyncio.timeout(30):
            while len(taken) < 5:
                await dispatcher.sweep(now=time.time())
                taken += [each.run_id for each in await dispatcher.take(5, now=time.time(), has=frozenset(), wait=0.05)]
        assert sorted(taken) == ["r0", "r1", "r2", "r3", "r4"]
        assert time.monotonic() - killed < 15


async def test_a_frozen_process_that_thaws_is_told_that_its_lease_is_over(url: str, start: Start) -> None:
    async with opened(url) as (store, dispatcher):
        await dispatcher.submit(Job("r"), RunStarted("g"), now=time.time())
        holder = await start("keep", 1)
        assert holder.stdout
        assert (await holder.stdout.readline()).decode().split() == ["r"]
        holder.send_signal(signal.SIGSTOP)
        async with asyncio.timeout(30):
            while not (taken := await dispatcher.take(1, now=time.time(), has=frozenset(), wait=0.05)):
                await dispatcher.sweep(now=time.time())
        holder.send_signal(signal.SIGCONT)
        await store.append("r", 1, [ActionStarted("1.0")], at=time.time(), epoch=taken[0].epoch)
        with pytest.raises(Conflict):
            await store.append("r", 2, [ActionStarted("1.1")], at=time.time(), epoch=taken[0].epoch - 1)
        out, _ = await holder.communicate(b"\n")
        assert (out, holder.returncode) == (b"False\n", 0)
        assert (await dispatcher.depth(now=time.time())).running == 1
        assert not await dispatcher.take(1, now=time.time(), has=frozenset(), wait=0.0)
