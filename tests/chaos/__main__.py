"""`python -m tests.chaos --store postgres --restart`: the table of one play, and exit code 1 if it is not as it must be."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.play import Plan, clean_environment, play


@contextmanager
def store(kind: str, folder: Path) -> Iterator[tuple[str, Callable[[], None] | None]]:
    """Its URL, and how to restart it."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'runs.db'}", None
        return
    from tests.postgres import OwnServer

    server = OwnServer()

    def restart() -> None:
        server.stop()
        server.start()

    try:
        yield server.url, restart
    finally:
        server.remove()


def main(arguments: list[str]) -> int:
    """0 if nothing was lost and nothing happened twice."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--store", choices=("postgres", "sqlite"), default="postgres")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long workers are killed, one every two seconds"
    )
    parser.add_argument("--frozen", type=float, default=20.0, help="how long one is stopped")
    parser.add_argument("--restart", action="store_true", help="restart PostgreSQL meanwhile")
    asked = parser.parse_args(arguments)
    clean_environment()
    with tempfile.TemporaryDirectory(prefix="chaos-") as place, store(asked.store, Path(place)) as (url, restart):
        plan = Plan(
            url,
            Path(place),
            asked.runs,
            asked.workers,
            lasting=asked.seconds,
            frozen=asked.frozen,
            restart=restart if asked.restart else None,
        )
        result = asyncio.run(play(plan))
        print(f"store                   {asked.store:>10}\nworkers                 {asked.workers:>10}")
        print(result.table())
        if not result.fine:
            print((Path(place) / "workers.log").read_text("utf-8", "replace")[-6000:], file=sys.stderr)
        print("as it must be" if result.fine else "NOT AS IT MUST BE")
    return int(not result.fine)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
