"""The three health metrics: pure functions of what a stored trace holds.

The Thought-Action gap (`thought_actions`), Observation-error propagation (`error_observations`) and step bloat (`step_bloat`) work on
neutral inputs, so that labelled cases and stored Runs go through the same code.
"""

from orchestrator.core.measure.bloat import Basis, BloatSample, step_bloat
from orchestrator.core.measure.common import is_common
from orchestrator.core.measure.errors import ErrorObservation, Notice, error_observations
from orchestrator.core.measure.gap import Said, ThoughtAction, TurnText, thought_actions
from orchestrator.core.measure.names import ToolName

__all__ = [
    "Basis",
    "BloatSample",
    "ErrorObservation",
    "Notice",
    "Said",
    "ThoughtAction",
    "ToolName",
    "TurnText",
    "error_observations",
    "is_common",
    "step_bloat",
    "thought_actions",
]
