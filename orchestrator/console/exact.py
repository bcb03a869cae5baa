"""What was really sent and received, on demand: the request of a step, its reply, the raw body of an Observation. Secrets are masked.

A prompt is a function of the Trace, so the request is not kept but made again, by the code that made it. What may differ from
what was sent: the settings of the model may have changed since, and which tools were withdrawn for the moment is in no Trace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson
from starlette.responses import Response

from orchestrator.api.problems import Problem
from orchestrator.api.runs import find
from orchestrator.assembly import secrets_of
from orchestrator.console.visit import Visit
from orchestrator.core.clean import mask
from orchestrator.core.decide import AskModel, decide
from orchestrator.core.events import ModelTurn, Observation, Trace
from orchestrator.core.run import Run, evolve
from orchestrator.errors import ConfigError, IllegalEvent
from orchestrator.model import Transcript
from orchestrator.providers import PROVIDERS, Request
from orchestrator.settings import Settings
from orchestrator.show import plain
from orchestrator.stores import RunRow
from orchestrator.stores.record import dump

LARGEST = 2_000_000
"""Characters or bytes of a text that are shown."""
DEEPEST = 8
"""Levels of JSON that fold; what is deeper is shown as its text."""
WIDEST = 120
"""Items of a list or object that are shown: its first two and its last ones."""
GLIMPSE = 80
"""Characters of a folded text that are shown beside its name."""
OPEN = 400
"""Characters of a text that stands beside its name; a longer one folds."""


@dataclass(frozen=True, slots=True)
class Fold:
    """A piece of JSON: its name, and either its text or what is in it. `hint` tells what is folded away."""

    name: str
    text: str = ""
    inside: tuple[Fold, ...] = ()
    hint: str = ""


async def request_page(visit: Visit) -> Response:
    """The request of a step, made again."""
    row, trace, step = await _asked(visit)
    run, turn = turn_of(trace, step)
    request = request_of(run, turn, visit.service.settings)
    text = request.body.decode("utf-8", "replace")
    return _shown(visit, row, text, kind="request", step=step, endpoint=request.path)


async def reply_page(visit: Visit) -> Response:
    """The reply of a step, as the Trace keeps it."""
    row, trace, step = await _asked(visit)
    _, turn = turn_of(trace, step)
    return _shown(visit, row, dump(turn).decode(), kind="reply", step=step, endpoint="")


async def raw_page(visit: Visit) -> Response:
    """What a tool really sent: text in a sandbox, never a page."""
    row = await find(visit.service, visit.known, visit.request.path_params["run_id"])
    digest = visit.request.path_params["digest"]
    trace = await visit.service.store.read(row.run_id)
    known = any(isinstance(entry.event, Observation) and entry.event.digest == digest for entry in trace)
    body = await visit.service.store.blob(digest) if known else None
    if body is None:
        raise Problem(404, "UNKNOWN_BODY", "no Observation of this run has that raw body, or it has been purged")
    text = mask(body[:LARGEST].decode("utf-8", "backslashreplace"), secrets_of(visit.service.settings))
    return visit.text(_cut(text, len(body)))


def turn_of(trace: Trace, step: int) -> tuple[Run, ModelTurn]:
    """The ModelTurn of this step, and the run before it. Problem 404 when there is none."""
    run = Run()
    try:
        for entry in trace:
            if isinstance(entry.event, ModelTurn) and run.seq and run.step == step:
                return run, entry.event
            run = evolve(run, entry)
    except IllegalEvent:
        pass
    raise Problem(404, "UNKNOWN_STEP", f"this run has no step {step}: go back to its trace")


def request_of(run: Run, turn: ModelTurn, settings: Settings) -> Request:
    """The request that `turn` answered, made again from the run before it. Problem 409 when that cannot be done here."""
    name = turn.model or run.start.agent.models[0]
    ask = decide(run, run.at)
    try:
        model = settings.model(name)
    except ConfigError:
        raise Problem(
            409,
            "UNKNOWN_MODEL",
            f"the model {plain(name)} is not in this server's settings, so its requests cannot be made again: add it to `models`",
        ) from None
    if not isinstance(ask, AskModel):
        raise Problem(409, "NOT_ASKED", "by today's rules no model would be asked at this place of the trace")
    return Transcript(model, PROVIDERS[model.provider]).request(run, ask)


def folded(text: str, secrets: tuple[str, ...]) -> Fold:
    """JSON text as something to unfold; text that is no JSON as itself."""
    try:
        value = orjson.loads(mask(text, secrets))
    except orjson.JSONDecodeError:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return Fold("", plain(mask(text, secrets)))
    return _fold("", value, DEEPEST, secrets)


def _fold(name: str, value: Any, depth: int, secrets: tuple[str, ...]) -> Fold:
    if isinstance(value, str):
        return Fold(name, plain(mask(value, secrets)), hint=f"{len(value):,}" if len(value) > OPEN else "")
    if not isinstance(value, dict | list) or not value:
        return Fold(name, json.dumps(value))
    pairs = list(value.items()) if isinstance(value, dict) else [(str(at), each) for at, each in enumerate(value)]
    if depth == 0:
        return Fold(name, plain(mask(_whole(value), secrets)))
    inside = tuple(_fold(plain(key), each, depth - 1, secrets) for key, each in _some(pairs))
    return Fold(name, inside=inside, hint=f"{_told(value)}{len(pairs):,}")


def _told(value: Any) -> str:
    """What a folded message is, in a few words: who speaks, and how it begins."""
    if not isinstance(value, dict):
        return ""
    names = (value.get(name) for name in ("role", "name", "type", "content", "text", "tool", "id"))
    words = (" ".join(plain(each).split())[:GLIMPSE] for each in names if isinstance(each, str) and each)
    return "".join(f"{each} · " for each in islice(words, 2))


def _some(pairs: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    if len(pairs) <= WIDEST:
        yield from pairs
        return
    yield from pairs[:2]
    yield "…", f"{len(pairs) - WIDEST:,}"
    yield from pairs[2 - WIDEST :]


def _whole(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=2)
    except RecursionError:
        return "…"


async def _asked(visit: Visit) -> tuple[RunRow, Trace, int]:
    params = visit.request.path_params
    row = await find(visit.service, visit.known, params["run_id"])
    step = params["step"]
    if not re.fullmatch(r"[1-9][0-9]{0,6}", step):
        raise Problem(404, "UNKNOWN_STEP", "a step is a number from 1")
    return row, await visit.service.store.read(row.run_id), int(step)


def _shown(visit: Visit, row: RunRow, text: str, **more: Any) -> Response:
    """As folded JSON, `?part=1` for the trace's own page; `?as=text` as it is."""
    query: Mapping[str, str] = visit.request.query_params
    secrets = secrets_of(visit.service.settings)
    if query.get("as") == "text":
        return visit.text(_cut(mask(text, secrets)[:LARGEST], len(text)))
    template = "fold.html" if query.get("part") else "exact.html"
    return visit.show(template, row=row, fold=folded(text, secrets), size=len(text.encode("utf-8", "replace")), **more)


def _cut(text: str, size: int) -> str:
    return text if size <= LARGEST else f"{text}\n… {size:,}"
