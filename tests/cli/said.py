"""A call of the command line in this process, and what it said."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from orchestrator.cli.exits import Exit

TWO_HOPS = "《三体》的作者出生在哪个省？该省的人口是多少？"
TEXT = ("--protocol", "text", "--language", "zh")


class Said(NamedTuple):
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Said]


def ran(cli: Call, *words: str) -> str:
    """The id of a run that has answered."""
    said = cli("run", TWO_HOPS, "--json", "--quiet", *words)
    assert said.code == Exit.ANSWERED, said.err
    return str(said.json()["run_id"])
