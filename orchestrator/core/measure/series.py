"""The series that are computed from entries of a trace: names, labels, buckets. One table for live metrics and recomputation.

Labels have closed sets of values: a registered tool, a configured agent or model, a code of the list below, a word of an enum. What
a model, a user or a tool can write freely never becomes one: it counts as UNKNOWN or OTHER.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

UNKNOWN: Final = "__unknown__"
"""A tool that is not registered."""
OTHER: Final = "other"
"""A model that is not configured, a code that is not of the list, a cleaning step that is not ours."""

CODES: Final = frozenset(
    """
API_TIMEOUT APPROVAL_EXPIRED AUTH_ERROR BAD_RESPONSE BAD_RESULT BINARY_CONTENT BUSY CANCELLED CIRCUIT_OPEN CONFLICT CONNECTION_FAILED
CONTENT_FILTERED CONTEXT_LENGTH_EXCEEDED DEADLINE DIVISION_BY_ZERO DOMAIN_ERROR EMPTY_RESPONSE EXPIRED FORBIDDEN FORBIDDEN_ADDRESS
FORMAT HISTORY_INVALID INVALID_ARGUMENTS INVALID_EXPRESSION INVALID_PARAM INVALID_REQUEST INVALID_SQL INVALID_URL MALFORMED_RESPONSE
NOT_CONFIGURED NOT_FOUND NOT_TEXT NO_MORE_RESULTS NO_PROGRESS OUTCOME_UNKNOWN OUT_OF_BUDGET OUT_OF_STEPS OVERLOADED PERMISSION_DENIED
POOL_FULL QUOTA_EXHAUSTED RATE_LIMITED REFUSED REPEATED_ACTION REQUEST_TOO_LARGE SERVER_ERROR STREAM_INTERRUPTED TIMEOUT TOOL_CHANGED TOOL_ERROR
TOOL_ERRORS TOOL_EXECUTION_ERROR TOOL_NOT_FOUND TOOL_TIMEOUT TOO_LARGE TOO_MANY_REDIRECTS TRUNCATED_OUTPUT UNAVAILABLE
UNEXPECTED_CONTENT_TYPE UNKNOWN_HOST UNKNOWN_TIMEZONE
HTTP_400 HTTP_401 HTTP_402 HTTP_403 HTTP_404 HTTP_405 HTTP_406 HTTP_408 HTTP_409 HTTP_410 HTTP_412 HTTP_413 HTTP_415 HTTP_422 HTTP_425
HTTP_429 HTTP_500 HTTP_501 HTTP_502 HTTP_503 HTTP_504 HTTP_529
""".split()  # noqa: SIM905  sixty words, not sixty lines
)
SANITISERS: Final = frozenset(
    {"masked", "decoded", "stripped", "base64", "html", "json", "defused", "cut", "described"}
)


class Sample(NamedTuple):
    """One measurement: add `value` to a counter, or observe it in a histogram, with these labels."""

    series: str
    labels: Mapping[str, str]
    value: float = 1.0


@dataclass(frozen=True, slots=True)
class Series:
    """What a series is, its labels in order, and the upper bounds of a histogram's buckets."""

    kind: Literal["counter", "histogram"]
    help: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()


_TURN: Final = ("agent", "protocol", "model")
_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_TOOL_SECONDS: Final = (0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0)
"""Fewer: there are many tools."""

SERIES: Final[dict[str, Series]] = {
    "orchestrator_thought_actions_total": Series(
        "counter", "Actions by what the turn said of them: match, gap, unstated; and calls announced but not made.", (*_TURN, "result")
    ),
    "orchestrator_error_observations_total": Series(
        "counter", "Error Observations by what the next turn made of them: propagated, ignored, unstated.", (*_TURN, "result")
    ),
    "orchestrator_corrected_total": Series(
        "counter", "Failed Actions after which the same tool was called next with another input.", _TURN
    ),
    "orchestrator_step_bloat_ratio": Series(
        "histogram", "Steps of an answered run over the fewest that could have done it.", ("agent", "basis"),
        (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0),
    ),
    "orchestrator_runs_total": Series("counter", "Runs ended, by outcome.", ("agent", "outcome")),
    "orchestrator_run_steps": Series(
        "histogram", "Steps of a run.", ("agent",), (1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 40.0)
    ),
    "orchestrator_turns_total": Series("counter", "Model turns.", _TURN),
    "orchestrator_model_seconds": Series("histogram", "Seconds of one model call, retries included.", ("agent", "model"), _SECONDS),
    "orchestrator_first_token_seconds": Series(
        "histogram", "Seconds to the first streamed content of a model call.", ("agent", "model"), _SECONDS
    ),
    "orchestrator_tool_seconds": Series("histogram", "Seconds of one tool call, retries included.", ("tool",), _TOOL_SECONDS),
    "orchestrator_tokens_total": Series("counter", "Tokens: input, output, cached, reasoning.", ("agent", "model", "type")),
    "orchestrator_cost_total": Series("counter", "Cost in the price table's currency.", ("agent", "model")),
    "orchestrator_retries_total": Series("counter", "Tries that failed before another was made, by cause.", ("kind", "target", "code")),
    "orchestrator_anomalies_total": Series("counter", "What was odd about turns and runs.", ("agent", "model", "kind")),
    "orchestrator_tool_errors_total": Series("counter", "Error Observations by tool and code.", ("tool", "code")),
    "orchestrator_sanitised_total": Series("counter", "Observations changed by a cleaning step.", ("action",)),
}  # fmt: skip
