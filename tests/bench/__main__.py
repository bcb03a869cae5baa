"""python -m tests.bench: each measurement in a process of its own, the mock in another; prints ratios of one run."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from orchestrator import process
from tests.bench.loops import ours, raw

PHASES = {"200": (200, 3, 5), "1000": (1000, 1, 5), "long": (1, 1, 200)}
"""Runs at once, rounds of them, tool steps of a run."""


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


async def measure(loop: str, phase: str, url: str) -> dict[str, float]:
    """One row: CPU µs a step (user and system, all threads), steps a second, KB a run; for "long", how a step's cost grows."""
    at_once, rounds, last = PHASES[phase]
    delay = 0 if phase == "long" else 50
    marks: list[float] = []
    step = lambda: marks.append(time.process_time())  # noqa: E731
    with tempfile.TemporaryDirectory() as folder:
        opened = (
            raw(url, f"k{last}-l{delay}", step)
            if loop == "raw"
            else ours(
                url,
                f"k{last}-l{delay}",
                step,
                stream=loop == "ours-stream",
                watched=loop == "ours-watched",
                folder=Path(folder),
            )
        )
        async with opened as one:
            warm = [one(10_000 + index) for index in range(2)]
            answers = list(await asyncio.gather(*warm))
            marks.clear()
            before, wall, cpu = resident(), time.perf_counter(), time.process_time()
            for turn in range(rounds):
                answers += await asyncio.gather(*(one(turn * at_once + index) for index in range(at_once)))
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wrong = [answer for answer in answers if f"v{last - 1}" not in str(answer)]
    assert not wrong, f"{len(wrong)} wrong answers, the first: {wrong[0]}"
    steps = len(marks)
    row = {"cpu_us": 1e6 * cpu / steps, "steps_per_s": steps / wall, "kb_per_run": (peak - before) / (at_once * rounds)}
    if phase == "long":
        tenth = steps // 10
        first, final = marks[tenth] - marks[0], marks[-1] - marks[-1 - tenth]
        row["growth"] = final / first
    return row


def in_its_own_process(loop: str, phase: str, url: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", loop, phase, url], stdout=subprocess.PIPE, text=True, check=True
    )
    row: dict[str, float] = json.loads(done.stdout)
    print(f"{phase:>5} {loop:<12}" + "".join(f"  {key} {value:,.2f}" for key, value in row.items()), flush=True)
    return row


def main() -> None:
    rows: dict[tuple[str, str], dict[str, float]] = {}
    with mock() as url:
        for phase in ("200", "1000"):
            for loop in ("raw", "ours", "ours-stream", "ours-watched"):
                rows[loop, phase] = in_its_own_process(loop, phase, url)
        for loop in ("raw", "ours"):
            rows[loop, "long"] = in_its_own_process(loop, "long", url)
    with mock(compare=True) as url:
        in_its_own_process("ours", "long", url)
        report = httpx.post(f"{url}/report", content=b"").json()
    for phase in ("200", "1000"):
        print(f"cpu_per_step_ratio_{phase} = {rows['ours', phase]['cpu_us'] / rows['raw', phase]['cpu_us']:.2f}")
    print(
        f"cpu_per_step_ratio_200_streamed = {rows['ours-stream', '200']['cpu_us'] / rows['raw', '200']['cpu_us']:.2f}"
    )
    print(f"observers_cost_ratio = {rows['ours-watched', '200']['cpu_us'] / rows['ours', '200']['cpu_us']:.2f}")
    print(f"steps_per_s_ratio_1000 = {rows['ours', '1000']['steps_per_s'] / rows['raw', '1000']['steps_per_s']:.2f}")
    print(f"kb_per_run_1000 = {rows['ours', '1000']['kb_per_run']:.0f}")
    print(
        f"long_run_last_tenth_over_first = {rows['ours', 'long']['growth']:.2f} (raw {rows['raw', 'long']['growth']:.2f})"
    )
    print(f"prompt_prefix_kept = {report['prefix']:.3f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(process.run(measure(*sys.argv[1:4]))))  # both loops in the process that a worker is
    else:
        main()
