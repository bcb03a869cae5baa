"""From a tool's result to what is recorded: an Observation with its raw body beside it, or a Pending."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from orchestrator.core.clean import Cleaned, Head, Rules, clean, mask
from orchestrator.core.events import Action, Attempt, Observation
from orchestrator.core.quick import quick
from orchestrator.core.spec import Json, ToolResult, ToolSpec
from orchestrator.core.summary import facts

_DAY = 86_400.0
_PLAIN = {trusted: Head(trusted=trusted) for trusted in (False, True)}


@quick
@dataclass(frozen=True, slots=True)
class Pending:
    """A long tool has the word. `until` and `poll` are unix seconds: when to give up, when to ask again (None: it will call)."""

    token: str
    until: float
    poll: float | None = None


@quick
@dataclass(frozen=True, slots=True)
class Called:
    """What came of a call: an Observation, or a Pending. `raw` is the body as it came, secrets masked, for the blob store under
    the Observation's digest; None where the Observation's content shows all of it unchanged."""

    observation: Observation | None
    raw: bytes | None = None
    pending: Pending | None = None


@quick
@dataclass(frozen=True, slots=True)
class Settled:
    """A result, cleaned, with its facts. `bare`: the tool gave a value and no ToolResult, so an error object in it is its word."""

    result: ToolResult
    cleaned: Cleaned
    facts: Mapping[str, str]
    bare: bool = False


def settle(result: ToolResult, spec: ToolSpec | None, rules: Rules, *, bare: bool = False) -> Settled:
    """Clean a result and take its facts. Foreign classes may raise here: the caller stands at the border."""
    trusted = spec.trusted if spec is not None else True
    if result.status == "error":
        head = Head("error", result.code or "TOOL_ERROR", result.message, trusted)
    else:
        head = _PLAIN[trusted] if not result.message else Head(message=result.message, trusted=trusted)
    cleaned = clean(result.data, head, rules if bare else replace(rules, believe=False))
    known: Mapping[str, str] = {}
    if spec is not None and spec.facts and cleaned.head.status == "success":
        known = {label: mask(value, rules.secrets) for label, value in facts(cleaned.data, spec.facts).items()}
    return Settled(result, cleaned, known, bare)


def failure(code: str, message: str, spec: ToolSpec | None, rules: Rules) -> Settled:
    """An error of our own, or one that a tool raised."""
    return settle(ToolResult("error", code, message=message), spec, rules)


def called(
    action: Action, settled: Settled, now: float, attempts: tuple[Attempt, ...] = (), seconds: float = 0.0
) -> Called:
    """The Called of a settled result, at `now` (unix seconds)."""
    if settled.result.status == "pending":
        return Called(None, pending=_pending(settled.result.data, now))
    cleaned = settled.cleaned
    observation = Observation(
        action.id,
        action.tool,
        cleaned.head.status,
        cleaned.text,
        cleaned.head.code,
        settled.facts,
        cleaned.size,
        cleaned.digest,
        cleaned.steps,
        attempts,
        seconds,
    )
    return Called(observation, cleaned.raw)


def _pending(data: Json, now: float) -> Pending:
    given = data if isinstance(data, Mapping) else {}
    token = given.get("token")
    wait = _seconds(given.get("deadline"))
    poll = _seconds(given.get("poll"))
    until = now + (_DAY if wait is None else wait)
    return Pending(
        str(token)[:500] if isinstance(token, str | int) else "",
        until,
        None if poll is None else min(now + poll, until),
    )


def _seconds(value: Json) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 366 * _DAY and math.isfinite(value) else None
