"""The tables `[[permissions]]` and `[tool_overrides.NAME]` of the settings: the operator's rules, before the default ones, and his
word on a tool that somebody else wrote."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from orchestrator.core.permission import DEFAULT
from orchestrator.core.spec import Effect, Role, Rule, Sensitive, Source, ToolSpec


class RuleSettings(BaseModel):
    """One rule; see `core.spec.Rule` for the meanings. What asks or refuses says why, in one sentence."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")
    verdict: Literal["allow", "ask", "refuse"]
    reason: str = Field(default="", max_length=300)
    tools: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    tainted: bool | None = None
    given: bool | None = None
    origins: tuple[Source, ...] = ()
    kinds: tuple[Sensitive, ...] = ()
    tenants: tuple[str, ...] = ()
    marked: bool | None = None
    spent: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)

    @model_validator(mode="after")
    def _says_why(self) -> Self:
        if self.verdict != "allow" and not self.reason.strip():
            raise ValueError(
                f"the rule {self.name!r} would {self.verdict} without saying why: write its `reason`, one sentence for "
                "the person who decides and for the model"
            )
        if self.name in {rule.name for rule in DEFAULT}:
            raise ValueError(f"{self.name!r} is the name of a default rule: choose another")
        for word, given in (("tools", self.tools), ("tenants", self.tenants)):
            if not all(each.strip() for each in given):
                raise ValueError(f"the rule {self.name!r} has an empty glob in `{word}`: write a name, or * for all")
        return self


def _unique(rules: tuple[RuleSettings, ...]) -> tuple[RuleSettings, ...]:
    twice = [name for name, count in Counter(each.name for each in rules).items() if count > 1]
    if twice:
        raise ValueError(f"two rules are called {twice[0]!r}: Traces name a rule, so give each its own name")
    return rules


Permissions: TypeAlias = Annotated[tuple[RuleSettings, ...], AfterValidator(_unique)]
"""The operator's rules in order, each name once."""


class ToolOverride(BaseModel):
    """What the operator says of a tool, whatever its author said: what it does, whether its results are to be believed, whether a
    person must approve each call; the roles of its arguments, the names in its records (`core.spec.ToolSpec`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    effect: Effect | None = None
    trusted: bool | None = None
    requires_approval: bool | None = None
    roles: dict[str, Role] | None = None
    names: dict[str, tuple[str, str]] | None = None


def rules_of(settings: Iterable[RuleSettings]) -> tuple[Rule, ...]:
    """The operator's rules, then the default ones: what RunStarted records."""
    return (*(Rule(**each.model_dump()) for each in settings), *DEFAULT)


def idle(rules: Iterable[RuleSettings], tools: Collection[str], absent: Collection[str]) -> Iterator[tuple[str, str]]:
    """The globs that match no tool, each after its rule's name. `absent` are names that are not there now, or what names begin
    with: a glob that may mean one of those is not told."""
    for rule in rules:
        for glob in rule.tools:
            start = re.split(r"[*?\[]", glob, maxsplit=1)[0]
            away = any(name.startswith(start) or start.startswith(name) for name in absent)
            if not away and not any(fnmatchcase(name, glob) for name in tools):
                yield rule.name, glob


def overridden(spec: ToolSpec, overrides: Mapping[str, ToolOverride]) -> ToolSpec:
    """The spec with the operator's word."""
    given = overrides.get(spec.name)
    changes: dict[str, Any] = {} if given is None else given.model_dump(exclude_none=True)
    return replace(spec, **changes) if changes else spec
