"""The three health metrics: pure functions of what a stored trace holds.

The Thought-Action gap (`thought_actions`), Observation-error propagation (`error_observations`) and step bloat (`step_bloat`) work on
neutral inputs, so that labelled cases and stored Runs go through the same code; `measure` computes all samples of an entry, live or
from the store.
"""

from orchestrator.core.measure.bloat import Basis, BloatSample, step_bloat
from orchestrator.core.measure.common import is_common
from orchestrator.core.measure.errors import ErrorObservation, Notice, error_observations
from orchestrator.core.measure.gap import Said, ThoughtAction, TurnText, thought_actions
from orchestrator.core.measure.live import Before, bloat, judged, measure, rests_on, turn_text
from orchestrator.core.measure.names import ToolName
from orchestrator.core.measure.series import SERIES, Sample, Series

__all__ = [
    "SERIES",
    "Basis",
    "Before",
    "BloatSample",
    "ErrorObservation",
    "Notice",
    "Said",
    "Sample",
    "Series",
    "ThoughtAction",
    "ToolName",
    "TurnText",
    "bloat",
    "error_observations",
    "is_common",
    "judged",
    "measure",
    "rests_on",
    "step_bloat",
    "thought_actions",
    "turn_text",
]
