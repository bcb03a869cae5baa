"""A run that reads its mail and may write: what each test of the permissions starts from."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.core.decide import decide
from orchestrator.core.events import Action, ActionStarted, Event, RunStarted, Waiting
from orchestrator.core.permission import DEFAULT, Ruling, permit
from orchestrator.core.provenance import Argument, Sources
from orchestrator.core.run import Run
from orchestrator.core.spec import AgentSpec, Effect, JsonObject, Rule, ToolSpec
from tests.build import acts, observed, run_of

TEXT: JsonObject = {"type": "string"}
GOAL = "Answer ann@home.org about the rent, and send 120 to DE89 3704 0044 0532 0130 00."
EVIL = "mallory@evil.test"


def tool(name: str, effect: Effect = "read", *, trusted: bool = True, **more: object) -> ToolSpec:
    """A tool that takes anything."""
    made = ToolSpec(name, f"{name}s", {"type": "object"}, repeatable=effect == "read", effect=effect, trusted=trusted)
    return replace(made, **more)  # type: ignore[arg-type]


READ_MAIL = tool("read_mail", trusted=False)
CONTACTS = tool("contacts", schema={"type": "object", "properties": {"q": TEXT}})
NOTE = tool("note", "write")
SEND = tool(
    "send_mail", "send", schema={"type": "object", "properties": {"to": TEXT, "body": TEXT, "cc": {"type": "array"}}}
)
TOOLS = (READ_MAIL, CONTACTS, NOTE, SEND)


def begun(goal: str = GOAL, *tools: ToolSpec, rules: tuple[Rule, ...] = DEFAULT, instructions: str = "") -> RunStarted:
    return RunStarted(goal, AgentSpec(instructions=instructions), tools=tools or TOOLS, permissions=rules)


def read(
    step: int, text: str, tool: str = "read_mail", given: JsonObject | None = None, **more: object
) -> tuple[Event, ...]:
    """A whole step in which a tool was called and said this."""
    seen = replace(observed(f"{step}.0", text, tool=tool), **more)  # type: ignore[arg-type]
    return acts(step, (tool, given or {})), ActionStarted(f"{step}.0"), seen


def after(*texts: str, goal: str = GOAL, rules: tuple[Rule, ...] = DEFAULT) -> Run:
    """A run that has read these texts from outside."""
    events = (event for step, text in enumerate(texts, 1) for event in read(step, text))
    return run_of(begun(goal, rules=rules), *events)


def ruling(run: Run, given: JsonObject, tool: ToolSpec = SEND) -> Ruling:
    return permit(run, Action(f"{run.step}.0", tool.name, given), tool)


def source(run: Run, value: object, tool: ToolSpec = SEND) -> Argument:
    """Where the value of one argument comes from."""
    (argument,) = Sources.of(run).arguments({"to": value}, tool)  # type: ignore[dict-item]
    return argument


def proposed(run_events: tuple[Event, ...], tool: str, given: JsonObject, step: int, now: float = 1010.0) -> object:
    """What decide says when this is proposed next."""
    return decide(run_of(*run_events, acts(step, (tool, given))), now)


__all__ = ["EVIL", "GOAL", "Waiting"]
