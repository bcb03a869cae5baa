"""The registry of tools and the call of one: never raises but on cancellation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from orchestrator.core.clean import Rules as Cleaning
from orchestrator.core.events import Action
from orchestrator.core.spec import ToolSpec
from orchestrator.errors import CallError, ConfigError, Timeout
from orchestrator.policy import (
    ONCE,
    Ask,
    BreakerMoved,
    Call,
    Guarded,
    Incident,
    Observer,
    Phase,
    RetryRules,
    Rules,
    guard,
    timeout,
    unobserved,
)
from orchestrator.tool import Context, Threads, Tool
from orchestrator.toolbox.called import Called, Settled, called, failure
from orchestrator.toolbox.invoke import Invocation, asks, attempt
from orchestrator.toolbox.load import tools_at

_AGAIN = RetryRules(attempts=3)
_LISTED = 60
_LOST = "this action was begun and its result was lost: it may have taken effect"


def rules_for(spec: ToolSpec) -> Rules:
    """The policies of a tool that has none of its own: its timeout, a breaker, and retries only if it may run twice."""
    return Rules(timeout=spec.timeout, retry=_AGAIN if spec.repeatable else ONCE)


class Toolbox:
    """Tools by name, each under its policies. `without` makes another box that shares the policies' state; `join` adds to this one."""

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        *,
        threads: int | Threads = 32,
        rules: Callable[[ToolSpec], Rules] = rules_for,
        observe: Observer = unobserved,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`threads` is the size of the pool for synchronous tools; `rules` gives the policies of a tool (the retries of one
        that is not repeatable are taken away whatever it says); `clock` gives unix seconds. ConfigError on a name or alias
        that means two tools."""
        self._threads = threads if isinstance(threads, Threads) else Threads(threads)
        self._clock = clock
        self._shaken: set[str] = set()  # whose breaker is not closed
        told = partial(_told, self._shaken, observe)
        self._guard = partial(_guard, attempt=partial(attempt, threads=self._threads), rules=rules, observe=told)
        self._tools: dict[str, Tool] = {}
        self._guarded: Mapping[str, Guarded[Invocation, Settled]] = {}
        self.specs: tuple[ToolSpec, ...] = ()
        self.absent: dict[str, str] = {}
        """What is configured and not here now, and why, by a tool's name or by what the names of several begin with (an MCP
        server's, `mcp__NAME__`). Kept by whoever brings the tools."""
        self.join(tools)

    @classmethod
    def load(
        cls,
        paths: Sequence[str | Path],
        *,
        threads: int | Threads = 32,
        rules: Callable[[ToolSpec], Rules] = rules_for,
        observe: Observer = unobserved,
    ) -> Toolbox:
        """The tools of folders, files and dotted module names. ConfigError names the file and the line at fault."""
        return cls((tool for path in paths for tool in tools_at(path)), threads=threads, rules=rules, observe=observe)

    def get(self, name: str) -> Tool | None:
        """The tool of exactly this name."""
        return self._tools.get(name)

    @property
    def guarded(self) -> Mapping[str, Guarded[Invocation, Settled]]:
        """The policies by tool: gauges, and breakers that are open."""
        return self._guarded

    def out(self, now: float) -> tuple[tuple[str, float], ...]:
        """The tools whose breaker is open, and the seconds until each may be called again. `now` is the event loop's."""
        waits: list[tuple[str, float]] = []
        for name in self._tools if self._shaken else ():
            breaker = self._guarded[name].breaker
            if breaker is not None and not breaker.closed and (wait := breaker.back_in(now)) > 0:
                waits.append((name, wait))
        return tuple(waits)

    def join(self, tools: Iterable[Tool]) -> None:
        """More tools, such as those of a server that came later: boxes made by `without` before do not have them. ConfigError as above."""
        joined = tuple(tools)
        self._tools = _by_name((*self._tools.values(), *joined))
        self._guarded = {**self._guarded, **{tool.name: self._guard(tool) for tool in joined}}
        self.specs = tuple(tool.spec for tool in self._tools.values())

    def without(self, names: Collection[str]) -> Toolbox:
        """The box without some tools (such as those whose breaker is open). Pool, breakers and limits stay shared."""
        fewer = object.__new__(type(self))
        vars(fewer).update(vars(self))
        if names:
            tools = {name: tool for name, tool in self._tools.items() if name not in names}
            vars(fewer).update(_tools=tools, specs=tuple(tool.spec for tool in tools.values()))
        return fewer

    def asks(self, action: Action) -> bool:
        """Must a person approve this very input, by the tool's own rule? An input that does not fit the tool is not run anyway."""
        tool = self._tools.get(action.tool)
        if tool is None or tool.approval is None:
            return False
        try:
            return asks(tool, tool.arguments.read(action.input))
        except CallError:
            return False

    async def call(
        self, action: Action, *, context: Context, limit: int = 8000, secrets: tuple[str, ...] = ()
    ) -> Called:
        """Run an action: always a Called. Only CancelledError passes through.

        Codes of our own: TOOL_NOT_FOUND, INVALID_ARGUMENTS, TOOL_TIMEOUT, TOOL_EXECUTION_ERROR, POOL_FULL, CIRCUIT_OPEN.
        """
        tool = self._tools.get(action.tool)
        cleaning = Cleaning(limit, secrets=secrets)
        if tool is None:
            return called(action, failure("TOOL_NOT_FOUND", self._unknown(action.tool), None, cleaning), 0.0)
        try:
            arguments = tool.arguments.read(action.input)
        except CallError as error:
            return called(action, failure(error.code, error.message, tool.spec, cleaning), 0.0)
        invocation = Invocation(tool, arguments, context, cleaning)
        ask = Ask(invocation, context.run_id, context.tenant)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            said = await self._guarded[action.tool].call(ask)
        except CallError as error:
            said = _failed(error, invocation)
        return called(action, said, self._clock(), tuple(ask.attempts), round(loop.time() - begun, 6))

    async def reconcile(
        self, action: Action, context: Context, *, limit: int = 8000, secrets: tuple[str, ...] = ()
    ) -> Called:
        """Ask a tool what became of an action that was begun and never observed; OUTCOME_UNKNOWN if it cannot say."""
        tool = self._tools.get(action.tool)
        cleaning = Cleaning(limit, secrets=secrets)
        spec = tool.spec if tool is not None else None
        if tool is None or tool.reconcile is None:
            return called(action, failure("OUTCOME_UNKNOWN", _LOST, spec, cleaning), 0.0)
        try:
            arguments = tool.arguments.read(action.input)
            within = timeout(tool.spec.timeout, f"asking {action.tool}")
            asking = within(partial(attempt, threads=self._threads))
            said = await asking(Ask(Invocation(tool, arguments, context, cleaning, asking=True)))
        except CallError as error:
            said = failure("OUTCOME_UNKNOWN", f"{_LOST}; asking the tool about it failed: {error}", spec, cleaning)
        if said.bare and said.result.data is None:
            said = failure("OUTCOME_UNKNOWN", _LOST, spec, cleaning)
        return called(action, said, self._clock())

    def _unknown(self, name: str) -> str:
        why = next((why for begins, why in self.absent.items() if name.startswith(begins)), None)
        if why is not None:
            return f"{name[:80]!r} is not here now: {why}"
        known = list(self._tools)
        more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
        return f"there is no tool {name[:80]!r}; the tools are: {', '.join(known[:_LISTED]) or 'none'}{more}"


def _failed(error: CallError, invocation: Invocation) -> Settled:
    """What the model is told. After a timeout of a tool that may not run twice: that nobody knows what it did."""
    spec, code, message = invocation.tool.spec, error.code, error.message
    if isinstance(error, Timeout) and code != "DEADLINE":
        code = "TOOL_TIMEOUT" if code == "TIMEOUT" else code
        if not spec.repeatable:
            message += (
                ". The outcome is unknown: it may have taken effect, or still do; find out before you call it again"
            )
    return failure(code, message, spec, invocation.rules)


def _told(shaken: set[str], observe: Observer, incident: Incident) -> None:
    """Note whose breaker is not closed, and pass it on."""
    if isinstance(incident, BreakerMoved):
        (shaken.discard if incident.after == Phase.CLOSED else shaken.add)(incident.target)
    observe(incident)


def _guard(
    tool: Tool,
    *,
    attempt: Call[Ask[Invocation], Settled],
    rules: Callable[[ToolSpec], Rules],
    observe: Observer,
) -> Guarded[Invocation, Settled]:
    return guard(attempt, tool.name, _safe(tool.spec, rules(tool.spec)), observe=observe)


def _safe(spec: ToolSpec, rules: Rules) -> Rules:
    return rules if spec.repeatable or rules.retry is None else replace(rules, retry=ONCE)


def _by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    known: dict[str, Tool] = {}
    means: dict[str, str] = {}
    for tool in tools:
        if not isinstance(tool, Tool):
            raise ConfigError(f"{tool!r} is no tool; put @tool over the function")
        if tool.name in known:
            raise ConfigError(
                f"two tools are called {tool.name!r} ({known[tool.name].written} and {tool.written}); rename one: @tool(name=...)"
            )
        known[tool.name] = tool
        for word in (tool.name, *tool.spec.aliases):
            other = means.setdefault(word.casefold(), tool.name)
            if other != tool.name:
                raise ConfigError(f"{word!r} means both {other!r} and {tool.name!r}; take the alias from one of them")
    return known
