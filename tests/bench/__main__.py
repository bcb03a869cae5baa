"""python -m tests.bench [loops] [postgres] [workers]: each measurement in a process of its own, the mock in another; prints ratios of one run.

What is compared with 200 runs at once shares a process and takes turns in short rounds: a machine's slow minutes are much longer than
a round, so they are the same for both sides of each round's ratio. The order is another one in each round, for a loop leaves caches and
garbage to the one after it. The ratio that is told is the median.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from orchestrator import log, process
from tests.bench import queue
from tests.bench.database import fresh, postgres, server_cpu
from tests.bench.loops import ours, raw

PHASES = {
    "200": (200, 3, 5),
    "200x20": (200, 1, 20),
    "1000": (1000, 1, 5),
    "2000": (2000, 1, 5),
    "long": (1, 1, 200),
}
"""Runs at once, rounds of them, tool steps of a run."""

TIMES = 3
"""How often each loop is measured that has a process of its own."""
ROUNDS = 40
"""Rounds of each loop that shares a process with others, besides one to warm up."""
Loop = Callable[[int], Awaitable[str]]


@contextmanager
def mock(*, compare: bool = False) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.bench.mock", *(["--compare"] if compare else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        finally:
            server.kill()


def resident() -> int:
    """KB."""
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])


def opened(loop: str, phase: str, url: str, step: Callable[[], None], store: str) -> AbstractAsyncContextManager[Loop]:
    """One of the loops: raw, ours, ours-stream, ours-watched. `step` is called with every turn of the model."""
    model = f"k{PHASES[phase][2]}-l{0 if phase == 'long' else 50}"
    if loop == "raw":
        return raw(url, model, step)
    return ours(url, model, step, stream=loop == "ours-stream", watched=loop == "ours-watched", store=store)


async def measure(loop: str, phase: str, url: str, database: str = "") -> dict[str, float]:
    """One row: CPU µs a step (user and system, all threads), steps a second, KB a run; for "long", how a step's cost grows.

    With a `database` also what its server spent on a step.
    """
    at_once, rounds, last = PHASES[phase]
    marks: list[float] = []
    step = lambda: marks.append(time.process_time())  # noqa: E731
    with tempfile.TemporaryDirectory() as folder:
        async with opened(loop, phase, url, step, database or f"sqlite:///{folder}/bench.db") as one:
            warm = [one(10_000 + index) for index in range(2)]
            answers = list(await asyncio.gather(*warm))
            marks.clear()
            server = server_cpu(database) if database else None
            before, wall, cpu = resident(), time.perf_counter(), time.process_time()
            for turn in range(rounds):
                answers += await asyncio.gather(*(one(turn * at_once + index) for index in range(at_once)))
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            row = {} if server is None else {"server_cpu_us": 1e6 * ((server_cpu(database) or server) - server)}
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    check(answers, last)
    steps = len(marks)
    row = {name: value / steps for name, value in row.items()}
    row |= {
        "cpu_us": 1e6 * cpu / steps,
        "steps_per_s": steps / wall,
        "kb_per_run": (peak - before) / (at_once * rounds),
    }
    if phase == "long":
        tenth = steps // 10
        first, final = marks[tenth] - marks[0], marks[-1] - marks[-1 - tenth]
        row["growth"] = final / first
    return row


def check(answers: Sequence[str], last: int) -> None:
    wrong = [answer for answer in answers if f"v{last - 1}" not in str(answer)]
    assert not wrong, f"{len(wrong)} wrong answers, the first: {wrong[0]}"


async def side_by_side(phase: str, url: str, *loops: str) -> dict[str, float]:
    """CPU µs a step of each of these loops, which take turns, and their ratios to those before them: medians of the rounds."""
    at_once, _, last = PHASES[phase]
    marks: list[None] = []
    step = lambda: marks.append(None)  # noqa: E731
    spent: dict[str, list[float]] = {loop: [] for loop in loops}
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        ones = {
            loop: await stack.enter_async_context(opened(loop, phase, url, step, f"sqlite:///{folder}/{loop}.db"))
            for loop in loops
        }
        for turn in range(ROUNDS + 1):
            for loop in random.Random(turn).sample(loops, len(loops)):
                marks.clear()
                cpu = time.process_time()
                answers = await asyncio.gather(*(ones[loop](turn * at_once + index) for index in range(at_once)))
                spent[loop].append(1e6 * (time.process_time() - cpu) / len(marks))
                check(answers, last)
    rounds = {loop: each[1:] for loop, each in spent.items()}
    row = {f"{loop} us": statistics.median(each) for loop, each in rounds.items()}
    pairs = [(loop, before) for at, loop in enumerate(loops) for before in loops[:at]]
    return row | {
        f"{loop}/{before}": statistics.median(a / b for a, b in zip(rounds[loop], rounds[before], strict=True))
        for loop, before in pairs
    }


def in_its_own_process(*words: str, name: str = "") -> dict[str, float]:
    """One measurement: loop, phase, the mock's URL, the database; or starts, fill or work, a store and the mock's URL."""
    done = subprocess.run([sys.executable, "-m", "tests.bench", *words], stdout=subprocess.PIPE, text=True, check=True)
    row: dict[str, float] = json.loads(done.stdout)
    shown(name or f"{words[1]:>5} {words[0]}", row)
    return row


def shown(name: str, row: dict[str, float]) -> None:
    print(f"{name:<20}" + "".join(f"  {key} {value:,.2f}" for key, value in row.items()), flush=True)


def best(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """The best of several measurements of one thing: what else the machine does only ever makes them worse."""
    most = {"steps_per_s"}
    return {name: (max if name in most else min)(row[name] for row in rows) for name in rows[0]}


def in_turn(loops: Sequence[str], phase: str, url: str) -> dict[tuple[str, str], dict[str, float]]:
    """The loops one after the other, and that TIMES over, so that a slow minute of the machine is one for all of them."""
    rows = [{loop: in_its_own_process(loop, phase, url) for loop in loops} for _ in range(TIMES)]
    return {(loop, phase): best([row[loop] for row in rows]) for loop in loops}


def loops() -> list[str]:
    """A step on SQLite against the raw loop; with streaming, with observers, in a long run."""
    rows: dict[tuple[str, str], dict[str, float]] = {}
    with mock() as url:
        words = ("beside", "200", url, "raw", "ours", "ours-stream", "ours-watched")
        beside = in_its_own_process(*words, name="  200 side by side")
        for phase in ("200x20", "1000", "long"):
            rows |= in_turn(("raw", "ours"), phase, url)
    with mock(compare=True) as url:
        in_its_own_process("ours", "long", url)
        report = httpx.post(f"{url}/report", content=b"").json()

    def ratio(figure: str, phase: str, one: str, other: str) -> float:
        return rows[one, phase][figure] / rows[other, phase][figure]

    return [
        f"cpu_per_step_ratio_200 = {beside['ours/raw']:.2f}",
        *(f"cpu_per_step_ratio_{phase} = {ratio('cpu_us', phase, 'ours', 'raw'):.2f}" for phase in ("200x20", "1000")),
        f"cpu_per_step_ratio_200_streamed = {beside['ours-stream/raw']:.2f}",
        f"observers_cost_ratio = {beside['ours-watched/ours']:.2f}",
        f"steps_per_s_ratio_1000 = {ratio('steps_per_s', '1000', 'ours', 'raw'):.2f}",
        f"kb_per_run_1000 = {rows['ours', '1000']['kb_per_run']:.0f}",
        f"long_run_last_tenth_over_first = {rows['ours', 'long']['growth']:.2f} (raw {rows['raw', 'long']['growth']:.2f})",
        f"prompt_prefix_kept = {report['prefix']:.3f}",
    ]


def on_postgres(server: str) -> list[str]:
    """A step on PostgreSQL against the raw loop: the client's CPU; the server's stands in the rows."""
    lines = []
    with mock() as url:
        for phase in ("200", "2000"):
            raw_rows, rows = [], []
            for _ in range(TIMES):
                raw_rows.append(in_its_own_process("raw", phase, url))
                with fresh(server) as database:
                    rows.append(in_its_own_process("ours", phase, url, database, name=f"{phase:>5} ours-postgres"))
            raw_row, row = best(raw_rows), best(rows)
            lines.append(f"postgres_cpu_per_step_ratio_{phase} = {row['cpu_us'] / raw_row['cpu_us']:.2f}")
            if "server_cpu_us" in row:
                lines.append(f"postgres_server_cpu_us_per_step_{phase} = {row['server_cpu_us']:.0f}")
    return lines


def workers(server: str) -> list[str]:
    """The worker with its queue: starts a second on either store, and two processes against one."""
    lines = []
    with mock() as url, tempfile.TemporaryDirectory() as folder:
        row = in_its_own_process("starts", f"sqlite:///{folder}/bench.db", url, name="starts sqlite")
        lines.append(f"run_starts_per_s_worker_sqlite = {row['run_starts_per_s']:.0f}")
        with fresh(server) as database:
            row = in_its_own_process("starts", database, url, name="starts postgres")
        lines.append(f"run_starts_per_s_worker_postgres = {row['run_starts_per_s']:.0f}")
        rows = []
        for count in (1, 2):
            with fresh(server) as database:
                rows.append(queue.shared(database, url, count))
            shown(f"{count} worker(s)", rows[-1])
    one, two = rows
    lines.append(f"two_workers_over_one = {one['wall_s'] / two['wall_s']:.2f} (cores = {queue.cores()})")
    lines.append(f"two_workers_cpu_over_one = {two['cpu_s'] / one['cpu_s']:.2f}")
    return lines


def main(parts: Sequence[str]) -> None:
    """All parts, or those that are named: loops, postgres, workers."""
    lines: list[str] = []
    if "loops" in parts:
        lines += loops()
    if {"postgres", "workers"} & set(parts):
        with postgres() as server:
            lines += on_postgres(server) if "postgres" in parts else []
            lines += workers(server) if "workers" in parts else []
    print("\n".join([*lines, f"load_average = {os.getloadavg()[0]:.1f} (cores = {queue.cores()})"]))


MEASUREMENTS: dict[str, Callable[..., Coroutine[Any, Any, dict[str, float]]]] = {
    "beside": side_by_side,
    "starts": queue.starts,
    "work": queue.work,
    "fill": queue.fill,
}

if __name__ == "__main__":
    words = sys.argv[1:]
    if len(words) < 3:
        main(words or ("loops", "postgres", "workers"))
    elif words[0] in MEASUREMENTS:
        log.configure("json", "error", stream=sys.stderr)
        print(json.dumps(process.run(MEASUREMENTS[words[0]](*words[1:]))))
    else:
        print(json.dumps(process.run(measure(*words))))  # both loops in the process that a worker is
