"""From what is stored to what is told: rows and Runs as the API's words; replies as JSON whatever a model wrote."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson
from pydantic import BaseModel
from starlette.responses import Response

from orchestrator.api.problems import Problem
from orchestrator.api.words import RunLine, RunState, Spent, State, WaitingAction
from orchestrator.core.events import Trace
from orchestrator.core.run import Run, evolve
from orchestrator.errors import IllegalEvent
from orchestrator.stores import RunRow

JSON = "application/json"


def reply(words: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The words as JSON. What JSON has no word for (half characters, NaN) is replaced."""
    plain = words.model_dump()
    try:
        body = orjson.dumps(plain)
    except TypeError:
        body = json.dumps(_tamed(plain), allow_nan=False).encode()
    return Response(body, status, headers, JSON)


def line(row: RunRow) -> RunLine:
    """A run in the list."""
    state: State = "ended" if row.outcome else "waiting" if row.last_kind == "waiting" else "open"
    return RunLine(
        run_id=row.run_id,
        state=state,
        outcome=row.outcome,
        goal=row.goal,
        agent=row.agent,
        tenant=row.tenant,
        model=row.model,
        protocol=row.protocol,
        kind=row.kind,
        steps=row.steps,
        started_at=row.started_at,
        ended_at=row.ended_at,
        last_seq=row.last_seq,
        last_at=row.last_at,
    )


def state(row: RunRow, trace: Trace) -> RunState:
    """A run as it stands; what its row says, if its trace is damaged."""
    run = Run()
    try:
        for entry in trace:
            run = evolve(run, entry)
    except IllegalEvent as error:
        return RunState(**{**line(row).model_dump(), "state": "damaged", "detail": str(error)})
    words = line(row).model_dump() | {
        "goal": run.start.goal,
        "usage": Spent(**asdict(run.usage)),
        "labels": run.start.labels,
    }
    words["waiting"] = [
        WaitingAction(
            id=wait.id,
            tool=run.action(wait.id).tool,
            input=dict(run.action(wait.id).input),
            reason=wait.reason,
            until=wait.until,
            why=wait.why,
        )
        for wait in run.waiting.values()
    ]
    words["last_seq"], words["last_at"] = run.seq, run.at
    if run.ended is not None:
        ended = run.ended
        words |= {"answer": ended.answer, "missing": ended.missing, "code": ended.code, "detail": ended.detail}
        words |= {"state": "ended", "outcome": ended.outcome, "ended_at": run.at}
    else:
        words["state"] = "waiting" if run.waiting else "open"
    return RunState(**words)


def cursor(row: RunRow) -> str:
    """Where the next page begins, as an opaque word."""
    return base64.urlsafe_b64encode(json.dumps(row.key).encode()).decode()


def opened(text: str) -> tuple[float, str]:
    """What `cursor` wrote. Problem 422 for anything else."""
    try:
        at, run_id = json.loads(base64.b64decode(text.encode(), altchars=b"-_", validate=True))
        if not (isinstance(at, float | int) and math.isfinite(at) and isinstance(run_id, str) and run_id.isprintable()):
            raise ValueError
        return float(at), run_id
    except (ValueError, TypeError, OverflowError, RecursionError, binascii.Error):
        raise Problem(422, "BAD_CURSOR", "this cursor is none of ours: give the `next` of a page, unchanged") from None


def _tamed(value: Any) -> Any:
    """The same with half characters replaced and without NaN; depth is bounded by what could be read."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {_tamed(str(key)): _tamed(each) for key, each in value.items()}
        case Sequence():
            return [_tamed(each) for each in value]
        case _:
            return value
