"""python -m tests.health FILE.jsonl ...: each miss, a confusion table, precision and recall of each verdict, exact minima."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.health.score import score, table

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m tests.health FILE.jsonl ...")
    absent = [name for name in sys.argv[1:] if not Path(name).is_file()]
    if absent:
        sys.exit(f"no such file: {', '.join(absent)}")
    print(table(score(map(Path, sys.argv[1:]))))
