"""May this Action be performed? The permissions are data, an ordered list of rules of which the first that fits decides.

The model proposes, the host decides. The rules stand in RunStarted, so what is decided is a function of the Trace, and a replay
decides the same. Rules that look at the run's tools, taint or budget cost a comparison; where an argument comes from is found out
only when a rule asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Literal

from orchestrator.core.clean.strip import flat
from orchestrator.core.events import Action, Actions
from orchestrator.core.provenance import Argument, Sources, performed
from orchestrator.core.quick import quick
from orchestrator.core.run import Run
from orchestrator.core.spec import JsonObject, Role, Rule, Source, ToolSpec

POLICY = "policy"
"""Who decided, where a rule refused."""

_MARKED = Rule("marked", "ask", "The operator wants a person to approve each call of this tool.", marked=True)
_READS = Rule("reads", "allow", "Reading changes nothing.", effects=("read",))
_UNTAINTED = Rule("untainted", "allow", "The run has read no text from outside.", tainted=False)
_GIVEN = Rule("given", "allow", "Every argument comes from the user's request.", given=True)
_OUTSIDE = Rule(
    "outside", "ask", "The run has read text from outside, and not every argument comes from the user's request."
)

DEFAULT: tuple[Rule, ...] = (_MARKED, _READS, _UNTAINTED, _GIVEN, _OUTSIDE)
"""Reads are allowed; so are side effects before the run has read text from outside, and after it those whose arguments come from
the user. Anything else is for a person to decide."""

_FORMER = (_MARKED, Rule("", "allow"))
_SHOWN, _LISTED = 80, 4
_ASKED: frozenset[Source] = frozenset({"user", "named"})
_OWN: frozenset[Source] = _ASKED | {"operator"}
_DETAIL = re.compile(
    r"true|false|-?\d{1,6}(?:\.\d{1,6})?|(?:\d{4}-\d{2}-\d{2}[T ]?)?(?:\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:\d{2})?)?"
)
"""A value too small to carry words or an address."""


@quick
@dataclass(frozen=True, slots=True)
class Ruling:
    """What the permissions say of an Action, by which rule, and why: for people and for the model."""

    verdict: Literal["allow", "ask", "refuse"]
    rule: str
    why: str = ""


class _Judged:
    """An Action's arguments and where they come from: found out once, when a rule first asks."""

    def __init__(self, run: Run, action: Action, spec: ToolSpec) -> None:
        self._run, self._action, self._spec = run, action, spec

    @cached_property
    def _sources(self) -> Sources:
        return Sources.of(self._run)

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """All of them."""
        return self._sources.arguments(self._action.input, self._spec)

    @cached_property
    def governing(self) -> tuple[Argument, ...]:
        """Those that must be the user's: not details, and not what is written where only he reads it."""
        roles = {f"/{name}": role for name, role in self._spec.roles.items()}
        writes = self._spec.effect_of(self._action.input) == "write"
        return tuple(each for each in self.arguments if not _excused(each, roles.get(each.pointer), writes=writes))

    @cached_property
    def done(self) -> bool:
        """Was this call made before, details aside, for all we know with success? What the user wrote once he asked for once."""
        this = self._essence(self._action.input)
        return any(
            action.tool == self._action.tool and self._essence(action.input) == this for action in self._before()
        )

    def _before(self) -> Iterator[Action]:
        """What was performed in closed steps, and what the open turn proposes earlier than this."""
        for step in self._run.steps:
            if any(seen.tool == self._action.tool for seen in step.observations):
                yield from performed(step)
        intent = self._run.turn.intent if self._run.turn is not None else None
        if isinstance(intent, Actions):
            yield from intent.actions[: int(self._action.id.partition(".")[2])]

    def _essence(self, given: JsonObject) -> frozenset[str]:
        roles = self._spec.roles
        governs = {name: value for name, value in given.items() if roles.get(name) not in {"detail", "content"}}
        return self._sources.essence(governs, self._spec)


def _excused(argument: Argument, role: Role | None, *, writes: bool) -> bool:
    return (role == "detail" and _DETAIL.fullmatch(argument.value) is not None) or (role == "content" and writes)


def permit(run: Run, action: Action, spec: ToolSpec) -> Ruling:
    """The ruling on a proposed Action of a tool that the run was offered. A run without rules asks for marked tools only."""
    judged = _Judged(run, action, spec)
    for rule in run.start.permissions or _FORMER:
        if _fits(rule, run, action, spec) and _concerns(rule, judged):
            return Ruling(rule.verdict, rule.name, "" if rule.verdict == "allow" else _why(rule, judged, run))
    return Ruling("ask", "", "No rule of the permissions fits this action.")


def _fits(rule: Rule, run: Run, action: Action, spec: ToolSpec) -> bool:
    """The conditions that cost nothing."""
    return (
        (rule.marked is None or rule.marked == spec.requires_approval)
        and (not rule.effects or spec.effect_of(action.input) in rule.effects)
        and (rule.tainted is None or rule.tainted == run.tainted)
        and (not rule.tools or any(fnmatchcase(action.tool, each) for each in rule.tools))
        and (not rule.tenants or any(fnmatchcase(run.start.tenant, each) for each in rule.tenants))
        and (rule.spent is None or spent(run) >= rule.spent)
    )


def _concerns(rule: Rule, judged: _Judged) -> bool:
    """The conditions on where the arguments come from."""
    if rule.given is not None and rule.given != (given(judged.governing) and not judged.done):
        return False
    if not rule.origins and not rule.kinds:
        return True
    return any(
        (not rule.origins or each.source in rule.origins) and (not rule.kinds or not each.kinds.isdisjoint(rule.kinds))
        for each in judged.arguments
    )


def given(arguments: Sequence[Argument]) -> bool:
    """Does all of this come from the user's request, or stand for what he named? Constants of the operator may stand beside it, but
    not alone: a call that says nothing of the user's was not asked for by him."""
    sources = {each.source for each in arguments}
    return not sources.isdisjoint(_ASKED) and sources <= _OWN


def spent(run: Run) -> float:
    """The share of its tokens or money that a run has used, whichever is more; 0.0 where neither is limited."""
    limits = run.start.limits
    tokens = run.usage.tokens / limits.max_tokens if limits.max_tokens else 0.0
    return max(tokens, (run.usage.cost or 0.0) / limits.max_cost if limits.max_cost else 0.0)


def _why(rule: Rule, judged: _Judged, run: Run) -> str:
    """The rule's reason, and the arguments that should be the user's and are not, where that is what it is about."""
    named = f"{rule.name}: {rule.reason}" if rule.reason else rule.name
    about = "arguments" in vars(judged) or run.tainted
    foreign = [each for each in (judged.governing if about else ()) if each.source not in _OWN]
    listed = "; ".join(map(_told, foreign[:_LISTED]))
    more = f"; and {len(foreign) - _LISTED} more" if len(foreign) > _LISTED else ""
    again = " This very call was made before." if about and not foreign and judged.done else ""
    return f"{named}{again} {listed}{more}".rstrip()


def _told(argument: Argument) -> str:
    where = f"from {argument.tool} ({argument.source})" if argument.tool else "the model's own"
    return f"{_short(argument.pointer[1:])} = {_short(argument.value)!r}, {where}"


def _short(text: str) -> str:
    """On one line, with nothing in it that cannot be seen."""
    line = flat(text, _SHOWN)
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
