"""Precision and recall of each verdict over all samples; a missing or extra sample counts against both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.health.case import Case, cases

VERDICTS = ("match", "gap", "unstated", "narrated", "propagated", "ignored")
NONE = "-"


@dataclass
class Score:
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    exact: int = 0
    runs: int = 0
    misses: list[str] = field(default_factory=list)

    def precision(self, verdict: str) -> float:
        return self._share(verdict, sum(count for (_, got), count in self.pairs.items() if got == verdict))

    def recall(self, verdict: str) -> float:
        return self._share(verdict, sum(count for (expected, _), count in self.pairs.items() if expected == verdict))

    def _share(self, verdict: str, of: int) -> float:
        return self.pairs[verdict, verdict] / of if of else 1.0


def score(paths: Iterable[Path]) -> Score:
    total = Score()
    for path in paths:
        for case in cases(path):
            for sample, expected, got in verdicts(case):
                total.pairs[expected, got] += 1
                if expected != got:
                    total.misses.append(f"{case.id}: {sample}: expected {expected}, got {got} ({case.why})")
            total.runs += 1
            total.exact += case.minimum[0] == case.minimum[1]
            if case.minimum[0] != case.minimum[1]:
                total.misses.append(
                    f"{case.id}: step_bloat: expected {case.minimum[0]}, got {case.minimum[1]} ({case.why})"
                )
    return total


def verdicts(case: Case) -> Iterator[tuple[str, str, str]]:
    """(sample, expected verdict, verdict got), NONE where one is missing."""
    for sample in case.expected | case.got:
        expected, got = case.expected.get(sample, []), case.got.get(sample, [])
        for index in range(max(len(expected), len(got))):
            yield sample, (expected[index : index + 1] or [NONE])[0], (got[index : index + 1] or [NONE])[0]


def table(total: Score) -> str:
    columns = (*VERDICTS, NONE)
    lines = ["expected \\ got".ljust(14) + "".join(name.rjust(12) for name in columns)]
    lines += [name.ljust(14) + "".join(str(total.pairs[name, got]).rjust(12) for got in columns) for name in columns]
    lines += [
        f"{verdict} precision {total.precision(verdict):.3f} recall {total.recall(verdict):.3f}" for verdict in VERDICTS
    ]
    return "\n".join([*total.misses, *lines, f"minimum exact {total.exact}/{total.runs}"])
