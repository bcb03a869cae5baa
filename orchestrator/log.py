"""The log: one line per event of a run, on stderr; for people on a terminal, as JSON otherwise. Knows nothing of stores or models.

An observer of the event stream, so a line is written only for what is durable. Configured secrets are masked wherever they
stand. Texts of the conversation (goals, thoughts, inputs, contents) are not logged: they are in the Trace, under the run id.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Literal, TextIO

import orjson
import structlog
from structlog.typing import EventDict, Processor

from orchestrator.core.clean import hide, mask, strip
from orchestrator.core.events import (
    Actions,
    ActionStarted,
    Decision,
    Entry,
    Event,
    ModelTurn,
    Observation,
    Outcome,
    RunEnded,
    RunStarted,
    Waiting,
)
from orchestrator.core.run import Run
from orchestrator.traceparent import trace_id

Format = Literal["console", "json", "auto"]
SHORTEST = 6
"""Characters of the shortest text in which a secret could stand."""

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_FINE = frozenset({Outcome.ANSWERED, Outcome.GAVE_UP, Outcome.CANCELLED})
_log = structlog.stdlib.get_logger("orchestrator")


class _Output:
    """The least level that is written, so that a line nobody will read is not put together; and what must not be written."""

    least = logging.NOTSET
    secrets: tuple[str, ...] = ()


_output = _Output()


def configure(
    form: Format = "auto", level: str = "warning", secrets: tuple[str, ...] = (), stream: TextIO | None = None
) -> None:
    """Set up structlog for the whole process. `stream` is stderr unless given; `auto` is console on a terminal, else JSON."""
    out = stream or sys.stderr
    human = form == "console" or (form == "auto" and out.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    render: Processor = (
        structlog.dev.ConsoleRenderer(
            colors=out.isatty() and not os.environ.get("NO_COLOR"), exception_formatter=structlog.dev.plain_traceback
        )
        if human
        else structlog.processors.JSONRenderer(_json)
    )
    _output.least, _output.secrets = _LEVELS[level], secrets
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, _masking(secrets), render],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )


def log_entry(run: Run, entry: Entry) -> None:
    """The observer: writes the line of one entry. `run` is the run as it was before it."""
    level = _level(entry.event)
    if level < _output.least:
        return
    word, fields = _line(run, entry)
    _log.log(level, word, run=entry.run_id, trace=_trace(run, entry), seq=entry.seq, **fields)


def _level(event: Event) -> int:
    """The odd ones are warnings."""
    match event:
        case ModelTurn():
            odd = bool(event.anomalies or event.attempts)
        case Observation():
            odd = event.status == "error"
        case ActionStarted():
            return logging.DEBUG
        case RunEnded():
            odd = event.outcome not in _FINE
        case _:
            odd = False
    return logging.WARNING if odd else logging.INFO


def _trace(run: Run, entry: Entry) -> str:
    """The trace id that the run's spans and exemplars bear."""
    first = run.started if run.started is not None else entry.event
    return trace_id(entry.run_id, first.labels if isinstance(first, RunStarted) else {})


def _line(run: Run, entry: Entry) -> tuple[str, dict[str, Any]]:
    """Event word and fields of one entry: closed words and figures only."""
    match entry.event:
        case RunStarted(agent=agent, tools=tools):
            return "run_started", {"agent": agent.name, "protocol": agent.protocol, "tools": len(tools)}
        case ModelTurn() as turn:
            return "model_turn", _turn(run, turn)
        case ActionStarted(id=action_id):
            return "action_started", {
                "step": run.step,
                "action": action_id,
                "tool": _name(run.action(action_id).tool),
            }
        case Observation() as seen:
            fields = {
                "step": run.step,
                "action": seen.id,
                "tool": _name(seen.tool),
                "status": seen.status,
                "code": seen.code,
            }
            fields |= {
                "seconds": round(seen.seconds, 3),
                "bytes": seen.size,
                "tries": len(seen.attempts) + (seen.status == "success"),
            }
            return "observation", _present(fields)
        case Waiting() as wait:
            return "waiting", {"action": wait.id, "reason": wait.reason, "until": wait.until}
        case Decision() as decision:
            return "decision", {"action": decision.id, "by": decision.by, "verdict": decision.verdict}
        case RunEnded() as ended:
            usage = {"tokens": run.usage.tokens, "cost": run.usage.cost, "seconds": round(entry.at - run.started_at, 3)}
            fields = {"outcome": ended.outcome.value, "code": ended.code, "detail": ended.detail, "steps": _steps(run)}
            return "run_ended", _present(fields | usage)


def safe(text: str) -> str:
    """A text of ours that is about to be shown, without the secrets of this process: those that `configure` was told."""
    return hide(text, _output.secrets)


def masked(value: Any, secrets: tuple[str, ...]) -> Any:
    """The value without these secrets and without what looks like one, at any depth."""
    if isinstance(value, str):
        return value if len(value) < SHORTEST else mask(value, secrets)
    if isinstance(value, Mapping):
        return {masked(key, secrets): masked(each, secrets) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [masked(each, secrets) for each in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return masked(str(value), secrets)


def _masking(secrets: tuple[str, ...]) -> Processor:
    def without(_logger: Any, _method: str, event: EventDict) -> MutableMapping[str, Any]:
        found: dict[str, Any] = masked(event, secrets)
        return found

    return without


def _turn(run: Run, turn: ModelTurn) -> dict[str, Any]:
    usage = turn.usage
    fields: dict[str, Any] = {
        "step": run.step,
        "intent": turn.intent.kind,
        "stop": turn.stop.value,
        "model": turn.model,
    }
    if isinstance(turn.intent, Actions):
        fields["actions"] = [_name(action.tool) for action in turn.intent.actions]
    fields |= {"tokens_in": usage.input_tokens, "tokens_out": usage.output_tokens, "seconds": round(turn.seconds, 3)}
    if turn.anomalies:
        fields["anomalies"] = [anomaly.value for anomaly in turn.anomalies]
    if turn.attempts:
        fields["attempts"] = [f"{attempt.target} {attempt.code}" for attempt in turn.attempts]
    return fields


def _name(tool: str) -> str:
    """A tool's name as the model wrote it, made harmless."""
    return strip(tool)[:64]


def _steps(run: Run) -> int:
    return len(run.steps) + (run.turn is not None)


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None and value != ""}


def _json(event: EventDict, **_: Any) -> str:
    try:
        return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # lone surrogates, integers beyond 64 bits
        return json.dumps(event, default=str)
