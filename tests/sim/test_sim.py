"""A slice of the simulation (`make chaos` is all of it), and the proof that it finds what it is for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.chaos import KINDS
from tests.sim.mutants import MUTANTS

ROOT = Path(__file__).parent.parent.parent


def simulated(*arguments: str) -> tuple[int, str]:
    """In a process of its own, where sets are walked in one order: its exit code and what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_whatever_fails_no_run_is_lost_and_nothing_happens_twice() -> None:
    code, said = simulated("--seeds", "60", "--first", "5001")
    assert code == 0, said
    counts = dict(re.findall(r"^  (\w+) +(\d+)$", said, re.MULTILINE))
    assert set(counts) == set(KINDS)
    never = [kind for kind, count in counts.items() if count == "0"]
    assert never == [], "these kinds of faults were never injected"
    assert int(re.findall(r"^runs (\d+) seeds 60 violations 0$", said, re.MULTILINE)[0]) >= 600


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutation_is_found_within_a_few_worlds(mutant: str) -> None:
    code, said = simulated("--seeds", "12", "--mutant", mutant)
    assert code == 1, f"12 worlds with {mutant} and nothing was noticed"
    assert f"--mutant '{mutant}'" in said


def test_one_seed_is_one_world() -> None:
    digests = {re.findall(r"^digest (\w+)$", simulated("--seed", "7")[1], re.MULTILINE)[0] for _ in range(2)}
    assert len(digests) == 1
