"""Exit codes: the one place that says what a command's end means to a shell."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from orchestrator.core.events import Outcome
from orchestrator.errors import ConfigError, OrchestratorError


class Exit(IntEnum):
    """What the process ends with."""

    ANSWERED = 0
    FAILED = 1
    USAGE = 2
    GAVE_UP = 3
    TIMEOUT = 124
    INTERRUPTED = 130


MEANING: Mapping[Exit, str] = {
    Exit.ANSWERED: "answered, or done",
    Exit.FAILED: "failed: the model, a tool, the store, the format",
    Exit.USAGE: "usage or configuration",
    Exit.GAVE_UP: "gave up: said so, no progress, out of steps or budget",
    Exit.TIMEOUT: "the run's deadline passed",
    Exit.INTERRUPTED: "interrupted; the run can be resumed",
}

_OUTCOMES: Mapping[Outcome, Exit] = {
    Outcome.ANSWERED: Exit.ANSWERED,
    Outcome.GAVE_UP: Exit.GAVE_UP,
    Outcome.NO_PROGRESS: Exit.GAVE_UP,
    Outcome.OUT_OF_STEPS: Exit.GAVE_UP,
    Outcome.OUT_OF_BUDGET: Exit.GAVE_UP,
    Outcome.DEADLINE: Exit.TIMEOUT,
}


def of_outcome(outcome: Outcome) -> Exit:
    """The code of a run's end."""
    return _OUTCOMES.get(outcome, Exit.FAILED)


def of_error(error: OrchestratorError) -> Exit:
    """The code of an error that ended the command itself."""
    return Exit.USAGE if isinstance(error, ConfigError) else Exit.FAILED


def table() -> str:
    """The codes as they stand in `--help`, one paragraph."""
    return "Exit codes: " + "; ".join(f"{code.value} {meaning}" for code, meaning in MEANING.items()) + "."
