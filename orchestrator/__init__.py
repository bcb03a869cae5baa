"""The asyncio production orchestrator for ReAct agents. Here are its public names; everything else may move.

A name is imported when it is first asked for: a tool, a codec or the core can be used without the price of the rest. What type
checkers see stands in `__init__.pyi`.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "agent": ("Agent", "Result"),
    "assembly": ("RunRequest", "open_ports", "submit"),
    "client": ("Client",),
    "core.events": (
        "Action",
        "Anomaly",
        "Entry",
        "Event",
        "ModelTurn",
        "Observation",
        "Outcome",
        "RunEnded",
        "Trace",
        "Usage",
    ),
    "core.run": ("Run", "replay"),
    "core.spec": ("Limits", "ToolResult", "ToolSpec"),
    "errors": ("ConfigError", "OrchestratorError"),
    "runner": ("Ports", "drive"),
    "settings": ("ModelSettings", "Settings"),
    "tool": ("Tool", "ToolError"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)  # noqa: PLE0605  computed, and equal to the stub: tests/test_public_names.py


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'orchestrator' has no public name {name!r}")
    return getattr(import_module(f"orchestrator.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
