"""May this Action be performed? The permissions are data, an ordered list of rules of which the first that fits decides.

The model proposes, the host decides. The rules stand in RunStarted, so what is decided is a function of the Trace, and a replay
decides the same. Rules that look at the run's tools, taint or budget cost a comparison; where an argument comes from is found out
only when a rule asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from orchestrator.core.clean.steps import one_line
from orchestrator.core.events import Action
from orchestrator.core.provenance import Argument, Sources
from orchestrator.core.run import Run
from orchestrator.core.spec import Rule, ToolSpec

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


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the permissions say of an Action, by which rule, and why: for people and for the model."""

    verdict: Literal["allow", "ask", "refuse"]
    rule: str
    why: str = ""


def permit(run: Run, action: Action, spec: ToolSpec) -> Ruling:
    """The ruling on a proposed Action of a tool that the run was offered. A run without rules asks for marked tools only."""
    judged: list[tuple[Argument, ...]] = []

    def arguments() -> tuple[Argument, ...]:
        if not judged:
            judged.append(Sources.of(run).arguments(action.input, spec))
        return judged[0]

    for rule in run.start.permissions or _FORMER:
        if _fits(rule, run, action, spec) and _concerns(rule, arguments):
            return Ruling(
                rule.verdict, rule.name, "" if rule.verdict == "allow" else _why(rule, judged, arguments, run)
            )
    return Ruling("ask", "", "No rule of the permissions fits this action.")


def _fits(rule: Rule, run: Run, action: Action, spec: ToolSpec) -> bool:
    """The conditions that cost nothing."""
    return (
        (rule.marked is None or rule.marked == spec.requires_approval)
        and (not rule.effects or spec.does in rule.effects)
        and (rule.tainted is None or rule.tainted == run.tainted)
        and (not rule.tools or any(fnmatchcase(action.tool, each) for each in rule.tools))
        and (not rule.tenants or any(fnmatchcase(run.start.tenant, each) for each in rule.tenants))
        and (rule.spent is None or spent(run) >= rule.spent)
    )


def _concerns(rule: Rule, arguments: Callable[[], tuple[Argument, ...]]) -> bool:
    """The conditions on where the arguments come from."""
    if rule.given is not None and rule.given != given(arguments()):
        return False
    if not rule.origins and not rule.kinds:
        return True
    return any(
        (not rule.origins or each.source in rule.origins) and (not rule.kinds or not each.kinds.isdisjoint(rule.kinds))
        for each in arguments()
    )


def given(arguments: Sequence[Argument]) -> bool:
    """Does all of this come from the user's request? Constants of the operator may stand beside it, but not alone: a call
    that says nothing of the user's was not asked for by him."""
    sources = {each.source for each in arguments}
    return "user" in sources and sources <= {"user", "operator"}


def spent(run: Run) -> float:
    """The share of its tokens or money that a run has used, whichever is more; 0.0 where neither is limited."""
    limits = run.start.limits
    tokens = run.usage.tokens / limits.max_tokens if limits.max_tokens else 0.0
    return max(tokens, (run.usage.cost or 0.0) / limits.max_cost if limits.max_cost else 0.0)


def _why(
    rule: Rule, judged: list[tuple[Argument, ...]], arguments: Callable[[], tuple[Argument, ...]], run: Run
) -> str:
    """The rule's reason, and the arguments that are not the user's, where that is what it is about."""
    named = f"{rule.name}: {rule.reason}" if rule.reason else rule.name
    foreign = [
        each for each in (arguments() if judged or run.tainted else ()) if each.source not in {"user", "operator"}
    ]
    listed = "; ".join(map(_told, foreign[:_LISTED]))
    more = f"; and {len(foreign) - _LISTED} more" if len(foreign) > _LISTED else ""
    return f"{named} {listed}{more}".rstrip()


def _told(argument: Argument) -> str:
    where = f"from {argument.tool} ({argument.source})" if argument.tool else "the model's own"
    return f"{one_line(argument.pointer[1:], _SHOWN)} = {one_line(argument.value, _SHOWN)!r}, {where}"
