"""Starts everything, does the damage, waits for the end."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.assembly import RunRequest, new_run_id, started
from orchestrator.dispatch import Job, needs_of
from orchestrator.errors import StoreError
from orchestrator.worker.queue import open_queue
from tests.chaos.notes import Notes
from tests.chaos.result import Damage, Result, judged
from tests.chaos.worker import TOOLBOX, settings_for

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 240.0
"""Seconds after the damage within which everything must have ended."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done, in seconds: a SIGKILL every `every` for `lasting`, one freeze of `frozen`; `restart` restarts the database."""

    store: str
    folder: Path
    runs: int = 500
    workers: int = 3
    every: float = 2.0
    lasting: float = 60.0
    frozen: float = 20.0
    restart: Callable[[], None] | None = None
    script: str = "k6-l2000"
    lease: float = 10.0


@dataclass(slots=True)
class Crew:
    """The workers, by process id: there are always as many, whoever is killed. `codes` are the exit codes of those that ended."""

    nursery: Process
    frozen: int | None = None
    members: list[int] = field(default_factory=list)
    codes: dict[int, int] = field(default_factory=dict)
    kills: list[tuple[int, float]] = field(default_factory=list)

    async def hear(self) -> None:
        """What the nursery says."""
        assert self.nursery.stdout is not None
        async for line in self.nursery.stdout:
            said, pid, *code = line.split()
            if said == b"born":
                self.members.append(int(pid))
            else:
                self.codes[int(pid)] = int(code[0])

    async def hire(self) -> None:
        """One more."""
        assert self.nursery.stdin is not None
        known = len(self.members)
        self.nursery.stdin.write(b"\n")
        while len(self.members) == known:  # noqa: ASYNC110  other processes have no events
            await asyncio.sleep(0.01)

    async def kill_one(self) -> None:
        """SIGKILL to one of those that are not frozen, and another in its place."""
        victim = random.choice([each for each in self.members if each != self.frozen])
        self.members.remove(victim)
        os.kill(victim, signal.SIGKILL)
        self.kills.append((victim, time.time()))
        await self.hire()

    async def freeze_one(self, seconds: float) -> None:
        """SIGSTOP, a long while, SIGCONT."""
        self.frozen = self.members[0]
        os.kill(self.frozen, signal.SIGSTOP)
        await asyncio.sleep(seconds)
        os.kill(self.frozen, signal.SIGCONT)
        self.frozen = None

    async def dismiss(self) -> list[int]:
        """SIGTERM to all; their exit codes."""
        for each in self.members:
            os.kill(each, signal.SIGTERM)
        async with asyncio.timeout(60):
            while not self.codes.keys() >= set(self.members):  # noqa: ASYNC110  other processes have no events
                await asyncio.sleep(0.05)
        return [self.codes[each] for each in self.members]

    def abandon(self) -> None:
        """Whoever is still there is killed."""
        for each in self.members:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        self.nursery.kill()


async def play(plan: Plan, say: Callable[[str], None] = print) -> Result:
    """All of it."""
    mock = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.mock", cwd=ROOT, stdout=PIPE, stderr=DEVNULL
    )
    assert mock.stdout is not None
    model = f"http://127.0.0.1:{int(await mock.stdout.readline())}/v1"
    crew = Crew(await _nursery(plan, model))
    hearing = asyncio.create_task(crew.hear())
    try:
        run_ids = await _submitted(plan, model)
        begun = time.monotonic()
        for _ in range(plan.workers):
            await crew.hire()
        await asyncio.sleep(min(3.0, plan.lasting / 4))
        await _damaged(plan, crew, say)
        damage = Damage(tuple(crew.kills), freezes=int(plan.frozen > 0), restarts=int(plan.restart is not None))
        return await _ended(plan, crew, model, run_ids, damage, begun)
    finally:
        crew.abandon()
        mock.kill()
        await asyncio.gather(mock.wait(), crew.nursery.wait(), hearing)


async def _nursery(plan: Plan, model: str) -> Process:
    words = ("-m", "tests.chaos.worker", plan.store, str(plan.folder / "notes.db"), model, plan.script, str(plan.lease))
    with (plan.folder / "workers.log").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            sys.executable, *words, cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=log
        )


async def _submitted(plan: Plan, model: str) -> list[str]:
    settings = settings_for(plan.store, model, plan.script, plan.lease)
    run_ids = [new_run_id(time.time()) for _ in range(plan.runs)]
    async with open_queue(settings) as (_, dispatcher):
        for number, run_id in enumerate(run_ids):
            first = started(settings, TOOLBOX.specs, RunRequest(f"run {number}: what is the value of the last entry?"))
            await dispatcher.submit(Job(run_id, needs=needs_of(first)), first, now=time.time())
    return run_ids


async def _damaged(plan: Plan, crew: Crew, say: Callable[[str], None]) -> None:
    begun = time.monotonic()
    freezing = (
        asyncio.create_task(_after(plan.lasting / 4, lambda: crew.freeze_one(plan.frozen))) if plan.frozen else None
    )
    restarting = asyncio.create_task(_after(plan.lasting * 0.6, lambda: _restarted(plan))) if plan.restart else None
    while time.monotonic() - begun < plan.lasting:
        await asyncio.sleep(plan.every)
        await crew.kill_one()
    for each in (freezing, restarting):
        if each is not None:
            await each
    say(
        f"{len(crew.kills)} workers killed in {time.monotonic() - begun:.0f} s; from here on nothing more is done to them"
    )


async def _after(seconds: float, act: Callable[[], object]) -> None:
    await asyncio.sleep(seconds)
    done = act()
    if asyncio.iscoroutine(done):
        await done


async def _restarted(plan: Plan) -> None:
    if plan.restart is not None:
        await asyncio.to_thread(plan.restart)


async def _ended(plan: Plan, crew: Crew, model: str, run_ids: list[str], damage: Damage, begun: float) -> Result:
    settings = settings_for(plan.store, model, plan.script, plan.lease)
    limit = time.monotonic() + PATIENCE
    async with open_queue(settings) as (store, _):
        while time.monotonic() < limit:
            with suppress(StoreError):
                if not await store.runs(outcome="open", limit=1):
                    break
            await asyncio.sleep(1.0)
        seconds = time.monotonic() - begun
        codes = await crew.dismiss()
        if any(codes):
            raise RuntimeError(f"workers that were told to drain ended with {codes}: see {plan.folder / 'workers.log'}")
        return await judged(store, Notes(plan.folder / "notes.db"), run_ids, damage, seconds)


def clean_environment() -> None:
    """Nothing of the person's own settings plays a part."""
    for name in [each for each in os.environ if each.startswith(("ORCHESTRATOR_", "OPENAI_", "ANTHROPIC_"))]:
        del os.environ[name]
