"""Tools that a run should not stand waiting for: candidates for `pending`. From figures that are kept anyway."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from orchestrator.core.spec import ToolSpec

LONG: Final = 3.0
"""Seconds beyond which a call should let its run go."""
SHARE: Final = 0.95
"""Of a tool's calls, so many must be shorter."""
ENOUGH: Final = 20
"""Calls by which a tool is judged; before that, by the timeout that it declares."""
USUAL: Final = ToolSpec("", "", {}).timeout
"""Seconds that a tool has which declares nothing. Who asks for more expects to be slow."""
ADVICE: Final = "let it return pending(...), so that its run holds no place meanwhile (docs/worker.md)"

Measured: TypeAlias = Callable[[str], tuple[int, float]]
"""Of a tool by its name: how many calls were measured, and the seconds within which SHARE of them ended."""


@dataclass(frozen=True, slots=True)
class Slow:
    """A tool, and why it is a candidate."""

    tool: str
    why: str


def slow(tools: Sequence[ToolSpec], measured: Measured) -> Iterator[Slow]:
    """The slow ones. What was measured goes before what is declared; a foreign tool (an MCP server's) cannot be changed."""
    for spec in tools:
        if spec.foreign:
            continue
        calls, seconds = measured(spec.name)
        if calls >= ENOUGH:
            if seconds > LONG:
                yield Slow(spec.name, f"1 of {round(1 / (1 - SHARE))} calls takes over {seconds:.1f} s (of {calls})")
        elif spec.timeout > USUAL:
            yield Slow(spec.name, f"it declares timeout={spec.timeout:g}, and its run waits as long")


def unmeasured(_tool: str) -> tuple[int, float]:
    """Nothing is known."""
    return 0, 0.0
