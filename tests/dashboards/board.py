"""The committed boards as tests see them, and their queries with Grafana's variables filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[2] / "dashboards"
BOARDS = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))}
VARIABLES = {"$__rate_interval": "30s", "$__range": "5m", "$agent": ".*", "$instance": ".*"}
METRIC = re.compile(r"\b(?:orchestrator|process)_[a-z_]+\b")


class Target(NamedTuple):
    """One query of one panel."""

    board: str
    panel: dict[str, Any]
    expr: str

    def __str__(self) -> str:
        return f"{self.board}: {self.panel['title']}: {self.expr}"


def panels(board: str) -> Iterator[dict[str, Any]]:
    """The panels that show something; no rows."""
    yield from (panel for panel in BOARDS[board]["panels"] if panel["type"] != "row")


def targets() -> list[Target]:
    return [
        Target(board, panel, filled(target["expr"]))
        for board in BOARDS
        for panel in panels(board)
        for target in panel["targets"]
    ]


def filled(expr: str, interval: str = VARIABLES["$__rate_interval"]) -> str:
    for name, value in {**VARIABLES, "$__rate_interval": interval}.items():
        expr = expr.replace(name, value)
    return expr
