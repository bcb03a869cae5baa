"""`python -m tests.sim`: play many worlds, or one again."""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import structlog

from tests.sim.chaos import KINDS
from tests.sim.laws import verdict
from tests.sim.mutants import MUTANTS
from tests.sim.world import Verdict

RUNS = 10


def quiet() -> None:
    """What workers log of a thousand worlds is of no use to anybody."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def main(arguments: list[str]) -> int:
    """The number of violations, at most 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this world only")
    parser.add_argument("--seeds", type=int, default=1200, help="how many worlds")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs in each world")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--mutant", choices=MUTANTS, help="with this fault of ours; the first violation ends it")
    asked = parser.parse_args(arguments)
    seeds = [asked.seed] if asked.seed is not None else range(asked.first, asked.first + asked.seeds)
    began = time.perf_counter()
    faults: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    runs = violations = worlds = 0
    virtual = 0.0
    for judged in played(seeds, asked.runs, asked.processes, asked.mutant):
        worlds, runs, virtual = worlds + 1, runs + judged.runs, virtual + judged.seconds
        faults += judged.faults
        outcomes += judged.outcomes
        violations += len(judged.violations)
        for each in judged.violations:
            print(f"VIOLATION {each}\n  again: {again(judged.seed, asked.runs, asked.mutant)}", flush=True)
        if asked.mutant and violations:
            break
    if asked.seed is not None:
        print(f"digest {judged.digest}")
    print("faults injected")
    for kind in KINDS:
        print(f"  {kind:32}{faults[kind]:>8}")
    print("outcomes " + "  ".join(f"{name} {count}" for name, count in sorted(outcomes.items())))
    print(f"virtual hours {virtual / 3600:.1f}, seconds {time.perf_counter() - began:.1f}")
    print(f"runs {runs} seeds {worlds} violations {violations}")
    return int(violations > 0)


def again(seed: int, runs: int, mutant: str | None) -> str:
    """The command that plays this world again."""
    words = ["python", "-m", "tests.sim", "--seed", str(seed), "--runs", str(runs)]
    return shlex.join(words if mutant is None else [*words, "--mutant", mutant])


def played(seeds: Sequence[int], runs: int, processes: int, mutant: str | None = None) -> Iterator[Verdict]:
    """The verdicts, in the order of the seeds."""
    play = partial(verdict, runs=runs, mutant=mutant)
    quiet()
    if processes < 2 or mutant or len(seeds) < 2:
        yield from map(play, seeds)
        return
    with ProcessPoolExecutor(processes, initializer=quiet) as pool:
        yield from pool.map(play, seeds, chunksize=8)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets are walked in the same order in every process
        command = [sys.executable, "-m", "tests.sim", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S606
    sys.exit(main(sys.argv[1:]))
