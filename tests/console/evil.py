"""Every event with every free text poisoned: made from the fields of the dataclasses, so that a new field cannot be forgotten."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from orchestrator.core import events, spec
from orchestrator.core.events import (
    Action,
    Actions,
    ActionStarted,
    Decision,
    Event,
    Final,
    Malformed,
    ModelTurn,
    Observation,
    RunEnded,
    RunStarted,
    Waiting,
)
from orchestrator.core.spec import AgentSpec, Limits, ToolSpec

SCHEME = "javascript:window.__xss=1//{{7*7}}{% raw %}${alert(1)}"
PARTS = (
    "\"'><script>window.__xss=1;alert(1)</script><img src=x onerror=window.__xss=1>",
    "</textarea></pre></title></style></script><svg onload=window.__xss=1><iframe srcdoc='<script>parent.__xss=1</script>'>",
    "' onfocus=window.__xss=1 autofocus tabindex=0 x='\" onmouseover=window.__xss=1 y=\"",
    "<base href=//evil.example/><link rel=stylesheet href=//evil.example/a.css><meta http-equiv=refresh content=0;url=//evil.example>",
    "<form action=//evil.example><input name=form><details open ontoggle=window.__xss=1><style>*{display:none}</style>",
    "\u202e\x1b]0;x\x07\x00\ud800&lt;script&gt;<math><mi xlink:href=javascript:window.__xss=1>",
)
MARKUP = "".join(PARTS)
PAYLOADS = {"markup": MARKUP, "scheme": SCHEME}


def kinds() -> frozenset[type]:
    """Every kind of event."""
    return frozenset(get_args(Event))


def poisoned(kind: type, evil: str, **given: Any) -> Any:
    """A value of this dataclass with this text wherever a text may stand; `given` is what a history must have to be one."""
    hints = get_type_hints(kind, vars(events) | vars(spec))
    return kind(**{each.name: given.get(each.name, _value(hints[each.name], evil)) for each in fields(kind)} | given)


def _value(hint: Any, evil: str) -> Any:
    """A value of this type: texts are evil, numbers 1, a choice is its first."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is str:
        return evil
    if hint in {int, float, bool}:
        return hint(1)
    if isinstance(hint, type):
        if issubclass(hint, Enum):
            return next(iter(hint))
        if is_dataclass(hint):
            return poisoned(hint, evil)
    if origin is Literal:
        return args[0]
    if origin in {Union, types.UnionType} and type(None) in args and len(args) == 2:
        return _value(args[0], evil)
    if origin is tuple:
        return (_value(args[0], evil),)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {evil: _value(args[1], evil)}
    return {evil: [evil, {evil: evil}, 1]}  # Json, in one of its spellings


def history(evil: str, now: float) -> list[Event]:
    """A run that goes through every event but its end: three steps, of which the last waits for a person and a tool."""
    until, calls = now + 1e6, {step: _calls(step, evil) for step in (2, 3)}
    agent = poisoned(AgentSpec, evil, protocol="native", language="en")
    tool = poisoned(ToolSpec, evil, facts={evil: "/x"}, effect="write")
    return [
        poisoned(RunStarted, evil, agent=agent, limits=Limits(), tools=(tool,)),
        poisoned(ModelTurn, evil, intent=poisoned(Malformed, evil)),
        poisoned(ModelTurn, evil, intent=calls[2]),
        poisoned(ActionStarted, evil, id="2.0"),
        poisoned(Observation, evil, id="2.0", status="error"),
        poisoned(Waiting, evil, id="2.1", reason="approval", until=until),
        poisoned(Decision, evil, id="2.1", verdict="edit"),
        poisoned(Observation, evil, id="2.1"),
        poisoned(Waiting, evil, id="2.2", reason="tool", until=until),
        poisoned(Observation, evil, id="2.2", code=None),
        poisoned(ModelTurn, evil, intent=calls[3]),
        poisoned(Waiting, evil, id="3.0", reason="approval", until=until),
        poisoned(Waiting, evil, id="3.1", reason="tool", until=until),
        poisoned(ActionStarted, evil, id="3.2"),
    ]


def ending(evil: str) -> list[Event]:
    """How it goes on to its end."""
    return [
        *(poisoned(Observation, evil, id=f"3.{index}") for index in range(3)),
        poisoned(ModelTurn, evil, intent=poisoned(Final, evil)),
        poisoned(Decision, evil, id="", verdict="cancel", input=None),
        poisoned(RunEnded, evil),
    ]


def _calls(step: int, evil: str) -> Actions:
    return Actions(tuple(poisoned(Action, evil, id=f"{step}.{index}") for index in range(3)))
