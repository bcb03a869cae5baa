"""The log: one line per event of a run, on stderr; for people on a terminal, as JSON otherwise. Knows nothing of stores or models.

An observer of the event stream, so a line is written only for what is durable. Configured secrets are masked wherever they
stand. Texts of the conversation (goals, thoughts, inputs, contents) are not logged: they are in the Trace, under the run id.

What a tool logs through structlog bears the run and step it runs for; what libraries log through `logging` goes the same way. Of what
each step says no more than BURST lines a second of one kind are written; the next line of that kind says how many were left out.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final, Literal, TextIO

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
from orchestrator.errors import OrchestratorError
from orchestrator.tool.context import context
from orchestrator.traceparent import trace_id

Format = Literal["console", "json", "auto"]
SHORTEST = 6
"""Characters of the shortest text in which a secret could stand."""
BURST: Final = 100
"""Lines a second of one kind and level; kinds are those of NOISY. All of it is in the Traces, so nothing is lost."""
NOISY: Final = frozenset({ModelTurn, ActionStarted, Observation})
"""Events that each step has."""

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_FINE = frozenset({Outcome.ANSWERED, Outcome.GAVE_UP, Outcome.CANCELLED})
_log = structlog.stdlib.get_logger("orchestrator")


class _Output:
    """The least level that is written, so that a line nobody will read is not put together; and what must not be written."""

    least = logging.NOTSET
    secrets: tuple[str, ...] = ()


_output = _Output()


class _Sampler:
    """Counts the lines of each kind in this second. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._second = 0
        self._written: dict[tuple[type, int], int] = {}
        self._left_out: dict[tuple[type, int], int] = {}

    def take(self, kind: type, level: int) -> int | None:
        """How many lines of this kind were left out before this one; None: this one is left out too."""
        key, second = (kind, level), int(self._clock())
        if second != self._second:
            self._second = second
            self._written.clear()
        written = self._written.get(key, 0)
        if written >= BURST:
            self._left_out[key] = self._left_out.get(key, 0) + 1
            return None
        self._written[key] = written + 1
        return self._left_out.pop(key, 0)


class _Foreign(logging.Handler):
    """What libraries and the standard library log: lines like ours, masked like ours."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record; a message that does not fit its arguments as it stands."""
        try:
            said = record.getMessage()
        except (TypeError, ValueError, KeyError):
            said = str(record.msg)
        raised = record.exc_info if record.exc_info and record.exc_info[0] else None
        level = logging.ERROR if record.levelno >= logging.ERROR else logging.WARNING
        _log.log(level, said, logger=record.name, **({"exc_info": raised} if raised else {}))


_sampler, _foreign = _Sampler(), _Foreign()


def configure(
    form: Format = "auto", level: str = "warning", secrets: tuple[str, ...] = (), stream: TextIO | None = None
) -> None:
    """Set up structlog for the whole process. `stream` is stderr unless given; `auto` is console on a terminal, else JSON."""
    out = stream or sys.stderr
    human = form == "console" or (form == "auto" and out.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        _on_behalf,
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
    _foreign.setLevel(max(_LEVELS[level], logging.WARNING))
    logging.getLogger().addHandler(_foreign)


def log_entry(run: Run, entry: Entry) -> None:
    """The observer: writes the line of one entry. `run` is the run as it was before it."""
    level = _level(entry.event)
    if level < _output.least:
        return
    left_out = _sampler.take(type(entry.event), level) if type(entry.event) in NOISY else 0
    if left_out is None:
        return
    word, fields = _line(run, entry)
    if left_out:
        fields["left_out"] = left_out
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


def _on_behalf(_logger: Any, _method: str, event: EventDict) -> MutableMapping[str, Any]:
    """Whose action it is that logs, where a tool does."""
    if "run" in event:
        return event
    try:
        about = context()
    except OrchestratorError:
        return event
    step = int(about.action_id.partition(".")[0] or 0) if about.action_id[:1].isdigit() else None
    mine = {"run": about.run_id, "trace": trace_id(about.run_id, about.labels or {}), "step": step}
    return {**_present({**mine, "action": about.action_id}), **event}


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
