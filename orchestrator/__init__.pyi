from orchestrator.agent import Agent, Result
from orchestrator.assembly import RunRequest, open_ports, submit
from orchestrator.client import Client
from orchestrator.core.events import (
    Action,
    Anomaly,
    Entry,
    Event,
    ModelTurn,
    Observation,
    Outcome,
    RunEnded,
    Trace,
    Usage,
)
from orchestrator.core.run import Run, replay
from orchestrator.core.spec import Limits, ToolResult, ToolSpec
from orchestrator.errors import ConfigError, OrchestratorError
from orchestrator.runner import Ports, drive
from orchestrator.settings import ModelSettings, Settings
from orchestrator.tool import Tool, ToolError

__all__ = [
    "Action",
    "Agent",
    "Anomaly",
    "Client",
    "ConfigError",
    "Entry",
    "Event",
    "Limits",
    "ModelSettings",
    "ModelTurn",
    "Observation",
    "OrchestratorError",
    "Outcome",
    "Ports",
    "Result",
    "Run",
    "RunEnded",
    "RunRequest",
    "Settings",
    "Tool",
    "ToolError",
    "ToolResult",
    "ToolSpec",
    "Trace",
    "Usage",
    "drive",
    "open_ports",
    "replay",
    "submit",
]
