"""The real worker on a real queue: how many runs it begins in a second, and what a second worker adds."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence

import psycopg

from orchestrator.assembly import RunRequest, new_run_id, open_ports, started
from orchestrator.core.events import RunEnded
from orchestrator.dispatch import Dispatcher, Job, needs_of
from orchestrator.settings import ModelSettings, Settings
from orchestrator.toolbox import Toolbox
from orchestrator.worker import Worker
from orchestrator.worker.queue import abilities, open_queue, worker_rules
from tests.bench.loops import goal, look

STARTS, SHARED = 2000, 1000
"""Runs of one turn, for the starts; runs of four turns, for the two workers."""
TOGETHER = 100
PATIENCE = 120.0


def settings_for(store: str, url: str, model: str) -> Settings:
    return Settings(
        models={"m": ModelSettings(provider="openai", base_url=url, model=model, stream=False)}, store=store
    )


async def submitted(dispatcher: Dispatcher, settings: Settings, toolbox: Toolbox, count: int) -> None:
    """So many runs, queued."""
    for begin in range(0, count, TOGETHER):
        now = time.time()
        firsts = [started(settings, toolbox.specs, RunRequest(goal(begin + each))) for each in range(TOGETHER)]
        await asyncio.gather(
            *(dispatcher.submit(Job(new_run_id(now), needs=needs_of(first)), first, now=now) for first in firsts)
        )


async def starts(store: str, url: str) -> dict[str, float]:
    """Runs a second that one worker takes, begins and ends, when each is one model call; its own CPU a run, in µs."""
    settings, toolbox, left = settings_for(store, url, "k0-l0"), Toolbox([look]), STARTS

    def ended(_run: object, entry: object) -> None:
        nonlocal left
        if isinstance(getattr(entry, "event", None), RunEnded):
            left -= 1
            if not left:
                worker.stop()

    async with (
        open_queue(settings) as (kept, dispatcher),
        open_ports(settings, store=kept, toolbox=toolbox, observers=(ended,)) as ports,
    ):
        await submitted(dispatcher, settings, toolbox, STARTS)
        worker = Worker(dispatcher, ports, worker_rules(settings), has=abilities(settings, toolbox.specs))
        wall, cpu = time.perf_counter(), time.process_time()
        await worker.run()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"run_starts_per_s": STARTS / wall, "cpu_us_per_run": 1e6 * cpu / STARTS}


async def work(store: str, url: str) -> dict[str, float]:
    """One of several workers on a queue that is already full: says that it is up, begins at a line, drains at the next."""
    settings, toolbox = settings_for(store, url, "k3-l50"), Toolbox([look])
    async with (
        open_queue(settings) as (kept, dispatcher),
        open_ports(settings, store=kept, toolbox=toolbox) as ports,
    ):
        worker = Worker(dispatcher, ports, worker_rules(settings), has=abilities(settings, toolbox.specs))
        print(flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        cpu = time.process_time()
        running = asyncio.create_task(worker.run())
        await asyncio.to_thread(sys.stdin.readline)
        cpu = time.process_time() - cpu
        worker.stop()
        await running
        return {"cpu_s": cpu, "ended": worker.figures.ended}


async def fill(store: str, url: str) -> dict[str, float]:
    """The runs that the workers share."""
    settings, toolbox = settings_for(store, url, "k3-l50"), Toolbox([look])
    async with open_queue(settings) as (_, dispatcher):
        await submitted(dispatcher, settings, toolbox, SHARED)
    return {"queued": SHARED}


def shared(store: str, url: str, count: int) -> dict[str, float]:
    """`count` worker processes drain one queue: wall seconds, their CPU together, and how evenly they shared."""
    command = [sys.executable, "-m", "tests.bench"]
    subprocess.run([*command, "fill", store, url], stdout=subprocess.DEVNULL, check=True)
    workers = [
        subprocess.Popen([*command, "work", store, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    try:
        for each in workers:
            assert each.stdout is not None
            each.stdout.readline()
        begin = time.perf_counter()
        _line(workers)
        _all_ended(store)
        wall = time.perf_counter() - begin
        _line(workers)
        rows = [json.loads(each.communicate(timeout=60)[0].strip()) for each in workers]
    finally:
        for each in workers:
            each.kill()
    ended = sorted(row["ended"] for row in rows)
    assert sum(ended) == SHARED, rows
    return {"wall_s": wall, "cpu_s": sum(row["cpu_s"] for row in rows), "least_share": ended[0] / SHARED}


def _line(workers: Sequence[subprocess.Popen[str]]) -> None:
    for each in workers:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()


def _all_ended(store: str) -> None:
    deadline = time.monotonic() + PATIENCE
    with psycopg.connect(store, autocommit=True) as connection:
        while (found := connection.execute("SELECT count(*) FROM runs WHERE outcome IS NOT NULL").fetchone()) != (
            SHARED,
        ):
            assert time.monotonic() < deadline, f"{found} of {SHARED} ended within {PATIENCE:g} s"
            time.sleep(0.05)


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0))
