"""Why a queued run is not taken, in words."""

from __future__ import annotations

from collections.abc import Iterable

NOBODY = "no worker takes runs from this store: start one with: orchestrator worker"


def why(lacks: Iterable[str] | None) -> str:
    """What keeps a run from being taken, of what `Dispatcher.lacks` says; "" when nothing does."""
    if lacks is None:
        return NOBODY
    needs = sorted(lacks, key=lambda need: (not need.startswith("model:"), need))
    if not needs:
        return ""
    return f"no worker takes it: it needs {', '.join(map(_named, needs))}; start a worker whose settings have that, or cancel it"


def _named(need: str) -> str:
    kind, _, name = need.partition(":")
    if kind == "model":
        return f"the model {name!r}"
    if kind == "mcp":
        return f"the MCP server {name!r}"
    name, _, version = name.rpartition("@")
    return f"version {version} of the {kind} {name!r}"
