"""One rule, one group, one moment: what becomes of its alert. Pure: the clock is an argument.

::

    quiet ──breach──► pending ──for──► firing ──eased──► quiet
      ▲                  │               │ ▲
      └──────────────────┘               └─┘ between resolve and threshold, or no data: stays

No data never fires and never resolves; it breaks off a pending alert, as it does in Prometheus. A firing alert whose group
gave no data for `hold` is closed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from orchestrator.alerts.notice import Notification
from orchestrator.alerts.rule import Group, Rule

Phase: TypeAlias = Literal["quiet", "pending", "firing"]


@dataclass(frozen=True, slots=True)
class Reading:
    """A group's value now. None, or fewer than the rule's minimum of `samples`, is no data. `runs` are the worst to open."""

    value: float | None = None
    samples: float = 0.0
    runs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AlertState:
    """Of one rule and group. `since`: the breach began; `seen`: there was data last (unix seconds); `value` as it was then."""

    phase: Phase = "quiet"
    since: float = 0.0
    seen: float = 0.0
    value: float = 0.0
    runs: tuple[str, ...] = ()


QUIET = AlertState()


def evaluate(
    rule: Rule, group: Group, reading: Reading, state: AlertState, now: float
) -> tuple[AlertState, Notification | None]:
    """The next state, and what there is to tell: that it began to fire, or that it is over."""
    value = reading.value
    if value is None or not math.isfinite(value) or reading.samples < rule.minimum:
        return _without_data(rule, group, state, now)
    seen = replace(state, seen=now, value=value, runs=reading.runs or state.runs)
    if state.phase == "firing":
        if not rule.eased(value):
            return seen, None
        return QUIET, _note(rule, group, seen, now, samples=reading.samples, status="resolved")
    if not rule.breached(value):
        return QUIET, None
    began = replace(seen, phase="pending", since=state.since if state.phase == "pending" else now)
    if now - began.since < rule.pending:
        return began, None
    firing = replace(began, phase="firing")
    return firing, _note(rule, group, firing, now, samples=reading.samples, status="firing")


def _without_data(rule: Rule, group: Group, state: AlertState, now: float) -> tuple[AlertState, Notification | None]:
    if state.phase != "firing":
        return QUIET, None
    if now - state.seen < rule.hold:
        return state, None
    return QUIET, _note(rule, group, state, now, samples=0.0, status="resolved", closed=True)


def _note(  # noqa: PLR0913  the one place where a Notification is made
    rule: Rule,
    group: Group,
    state: AlertState,
    now: float,
    *,
    samples: float,
    status: Literal["firing", "resolved"],
    closed: bool = False,
) -> Notification:
    return Notification(
        rule=rule.name,
        status=status,
        severity=rule.severity,
        title=rule.title,
        says=rule.says,
        labels=rule.labels(group),
        value=state.value,
        threshold=rule.threshold,
        comparison=rule.comparison,
        unit=rule.unit,
        samples=samples,
        since=state.since,
        at=now,
        runs=state.runs if status == "firing" else (),
        closed=closed,
    )
