"""`make agentdojo`: the default policy against AgentDojo v1.2, all user tasks and all (user task, injection) pairs.

Exits with 1 when an injection that needs a side effect succeeds although nobody approved it (or somebody approved only what the
user asked for), when fewer user tasks are done than promised, or when the harness is not honest (without a policy, every injection
must succeed somewhere, and every user task be done).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from tests.agentdojo.measure import jobs, measured
from tests.agentdojo.result import SUITES, Pair, Plain
from tests.agentdojo.table import failures, table


def main() -> int:
    """Play everything, print the table, judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.agentdojo", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--suite", action="append", choices=SUITES, help="only this suite (may be repeated)")
    parser.add_argument("--plain", action="store_true", help="only the user tasks, without attack")
    parser.add_argument("--asked", action="store_true", help="list every approval that was asked for, and why")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    todo = jobs(given.suite or SUITES, attacks=not given.plain)
    with ProcessPoolExecutor(given.processes) as pool:
        results = [each for some in pool.map(measured, *zip(*todo, strict=True)) for each in some]
    plain = [each for each in results if isinstance(each, Plain)]
    pairs = [each for each in results if isinstance(each, Pair)]
    sys.stdout.write(table(plain, pairs))
    if given.asked:
        sys.stdout.write("\n".join(_asked(plain)) + "\n")
    wrong = failures(plain, pairs)
    sys.stdout.write("".join(f"FAILED: {each}\n" for each in wrong))
    return 1 if wrong else 0


def _asked(plain: Iterable[Plain]) -> Iterable[str]:
    for each in plain:
        for tool, why in each.asked:
            yield f"{each.suite} {each.task}: {tool}: {why}"


if __name__ == "__main__":
    sys.exit(main())
