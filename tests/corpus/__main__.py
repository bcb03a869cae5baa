"""`python -m tests.corpus FILE.jsonl ...`: one scorer for all three kinds of case, told apart line by line by their fields."""

from __future__ import annotations

import json
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

CLASSES = ("safety", "robustness", "recall")


def kind(case: dict[str, Any]) -> str:
    """Which scorer a case is for."""
    if "provider" in case:
        return "wire"
    return "text" if "dialect" in case else "observation"


def score(case: dict[str, Any]) -> str | None:
    """None if the case passes, else the reason; an exception is a miss of its own."""
    try:
        reason: str | None = import_module(f"tests.corpus.{kind(case)}").score(case)
    except Exception as error:  # noqa: BLE001  (a crash is what the corpus is there to find)
        return f"raised {type(error).__name__}: {error}"
    return reason


def cases(path: Path) -> list[dict[str, Any]]:
    """The cases of one file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def main(paths: list[str]) -> int:
    """Print each miss, then the three rates; 1 if a gated class has a miss."""
    total: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for case in (case for path in paths for case in cases(Path(path))):
        reason = score(case)
        total[case["class"]] += 1
        passed[case["class"]] += reason is None
        if reason is not None:
            expected = json.dumps(case["expect"], ensure_ascii=True)
            print(f"MISS {case['id']} [{case['class']}]\n  expected {expected}\n  got      {reason!a}")
    for each in CLASSES:
        print(f"{each} {passed[each]}/{total[each]}")
    return int(any(passed[each] < total[each] for each in CLASSES[:2]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
