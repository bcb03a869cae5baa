from orchestrator.agent import Agent as Agent, Result as Result
from orchestrator.assembly import RunRequest as RunRequest, open_ports as open_ports, submit as submit
from orchestrator.core.events import (
    Action as Action,
    Anomaly as Anomaly,
    Entry as Entry,
    Event as Event,
    ModelTurn as ModelTurn,
    Observation as Observation,
    Outcome as Outcome,
    RunEnded as RunEnded,
    Trace as Trace,
    Usage as Usage,
)
from orchestrator.core.run import Run as Run, replay as replay
from orchestrator.core.spec import Limits as Limits, ToolResult as ToolResult, ToolSpec as ToolSpec
from orchestrator.errors import ConfigError as ConfigError, OrchestratorError as OrchestratorError
from orchestrator.runner import Ports as Ports, drive as drive
from orchestrator.settings import ModelSettings as ModelSettings, Settings as Settings
from orchestrator.tool import Tool as Tool, ToolError as ToolError
