"""python -m tests.bench.followers [FOLLOWERS]: live runs followed by many, over real sockets, without and with one that never reads.

The server, its SQLite store and what drives the runs are one process, as `orchestrator serve --worker` is; the followers are this
one. A delay is the time from an entry's `at` to its arrival at a follower.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from orchestrator import log, process
from orchestrator.api.app import create_app
from orchestrator.api.events import STALL
from orchestrator.api.server import Server, listen, url_of
from orchestrator.api.service import open_service
from orchestrator.core.events import Observation
from orchestrator.settings import Settings
from orchestrator.stores import Store
from tests.build import acts, observed, started

FOLLOWERS, RUNS = 500, 20
PACE = 1.0
"""Seconds between two steps of a run; a step is two entries."""
SECONDS, SETTLE = 15.0, 5.0
BODY = "x" * 2000
STALLED, HUGE = "stalled", 400
"""A finished part of a run of 400 entries of 100 KB: more than the sockets' buffers take."""


async def serve(folder: str) -> None:
    """The server. A line on stdin is asked for with its figures; the runs go on until stdin ends."""
    settings = Settings(store=f"sqlite:///{folder}/bench.db")
    settings = settings.model_copy(update={"api": settings.api.model_copy(update={"tokens": Path(folder) / "tokens"})})
    async with open_service(settings) as service:
        await huge(service.store)
        with listen("127.0.0.1", 0) as listener:
            server = Server(create_app(service), service.closing)
            serving = asyncio.create_task(server.run_on(listener))
            for number in range(RUNS):
                await service.store.append(f"r{number}", 0, [started()], at=time.time())
            async with asyncio.TaskGroup() as group:
                driving = [group.create_task(drive(service.store, f"r{number}", number)) for number in range(RUNS)]
                print(url_of(listener), flush=True)
                while await asyncio.to_thread(sys.stdin.readline):
                    gc.collect()
                    print(
                        json.dumps({"cpu": time.process_time(), "kb": resident(), "open": service.followers.count}),
                        flush=True,
                    )
                for each in driving:
                    each.cancel()
            server.stop()
            await serving


async def huge(store: Store) -> None:
    """The run that the stalled one asks for."""
    await store.append(STALLED, 0, [started()], at=time.time())
    for step in range(1, HUGE):
        seen = replace(observed(f"{step}.0", "x" * 100_000), digest="")
        await store.append(STALLED, 2 * step - 1, [acts(step, ("search", {"q": "x"})), seen], at=time.time())


async def drive(store: Store, run_id: str, number: int) -> None:
    """Steps without end, each at its time."""
    step, due = 0, time.monotonic() + PACE * number / RUNS
    while True:
        step, due = step + 1, due + PACE
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        await store.append(run_id, 2 * step - 1, [acts(step, ("search", {"q": str(step)}))], at=time.time())
        seen: Observation = replace(observed(f"{step}.0", BODY), digest="")
        await store.append(run_id, 2 * step, [seen], at=time.time())


def resident() -> int:
    """KB."""
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])


@asynccontextmanager
async def connected(port: int, run_id: str, after: int = 1) -> AsyncIterator[asyncio.StreamReader]:
    """An open event stream."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**16)
    try:
        writer.write(f"GET /v1/runs/{run_id}/events?after={after} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        yield reader
    finally:
        writer.close()


async def follow(port: int, run_id: str, delays: list[float], ready: asyncio.Semaphore) -> None:
    """One follower, to the end of its task."""
    async with connected(port, run_id) as reader:
        ready.release()
        while line := await reader.readline():
            if line.startswith(b"data: "):
                at = float(line[: line.index(b',"event"')].rpartition(b'"at":')[2])
                delays.append(time.time() - at)


class Served:
    """The server's process, asked for its figures."""

    def __init__(self, folder: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.followers", "serve", folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline().rpartition(":")[2])

    async def figures(self) -> dict[str, float]:
        """CPU seconds, KB resident, followers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        found: dict[str, float] = json.loads(await asyncio.to_thread(self._process.stdout.readline))
        return found

    def close(self) -> None:
        """It ends with its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


async def window(served: Served, delays: list[float]) -> dict[str, float]:
    """What happens in SECONDS."""
    before = await served.figures()
    delays.clear()
    await asyncio.sleep(SECONDS)
    after, heard = await served.figures(), sorted(delays)
    row = {
        "cpu_share": (after["cpu"] - before["cpu"]) / SECONDS,
        "kb": after["kb"],
        "open": after["open"],
        "events": float(len(heard)),
    }
    if heard:
        row |= {
            "p50_ms": 1000 * statistics.median(heard),
            "p99_ms": 1000 * heard[int(0.99 * len(heard))],
            "max_ms": 1000 * heard[-1],
        }
    return row


async def main(followers: int) -> None:
    """Prints one line for each window, then the figures for one follower."""
    with tempfile.TemporaryDirectory() as folder:
        served, delays, ready = Served(folder), list[float](), asyncio.Semaphore(0)
        try:
            alone = await window(served, delays)
            shown("nobody follows", alone)
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(follow(served.port, f"r{index % RUNS}", delays, ready))
                    for index in range(followers)
                ]
                for _ in tasks:
                    await ready.acquire()
                await asyncio.sleep(SETTLE)  # what was stored before is behind them
                calm = await window(served, delays)
                shown(f"{followers} follow", calm)
                async with connected(served.port, STALLED, 0):  # whose reader nobody asks
                    await asyncio.sleep(SETTLE)
                    held = await window(served, delays)
                    shown("and one never reads", held)
                    await asyncio.sleep(STALL)
                    late = await served.figures()
                    print(f"the one that never reads was let go: {late['open'] == followers}", flush=True)
                for task in tasks:
                    task.cancel()
        finally:
            served.close()
    cpu, rate = calm["cpu_share"] - alone["cpu_share"], calm["events"] / SECONDS
    print(
        f"followers = {followers}\nevents_per_s = {rate:.0f}\n"
        f"cpu_us_per_event = {1e6 * cpu / rate:.0f}\ncpu_percent_per_follower = {100 * cpu / followers:.3f}\n"
        f"kb_per_follower = {(calm['kb'] - alone['kb']) / followers:.1f}\nkb_of_the_stalled = {held['kb'] - calm['kb']:.0f}\n"
        f"load_average = {os.getloadavg()[0]:.1f}"
    )


def shown(name: str, row: dict[str, float]) -> None:
    print(f"{name:<22}" + "".join(f"  {key} {value:,.2f}" for key, value in row.items()), flush=True)


if __name__ == "__main__":
    log.configure("json", "error", stream=sys.stderr)
    if sys.argv[1:2] == ["serve"]:
        process.run(serve(sys.argv[2]))
    else:
        asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else FOLLOWERS))
