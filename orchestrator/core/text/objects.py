"""A call written as one JSON object: `{"name": ..., "arguments": {...}}` and its relatives; lists of them; our own constrained form.

Used bare (Llama 3), in tags (Hermes), after tokens (Mistral) and after an Action label (structured chat).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from orchestrator.core.arguments import Arguments, names, parse, scan, undecorated
from orchestrator.core.events import Anomaly
from orchestrator.core.spec import Json, JsonObject, ToolSpec
from orchestrator.core.text.found import (
    Broken,
    Call,
    Ending,
    Found,
    Plain,
    Written,
    malformed,
    properties,
    truncated,
    unreadable,
)
from orchestrator.core.text.words import ANSWER_KEYS, FINISH, NOTHING

_NAMES: Final = ("name", "tool", "tool_name", "action", "function", "function_name")
_INPUTS: Final = ("arguments", "parameters", "args", "input", "action_input", "params", "tool_input", "kwargs")
_WRAPPERS: Final = ("tool_call", "function_call", "function", "action", "call", "tool_calls")
_FINALS: Final = ("final", "final_answer")


def call_at(text: str, at: int, tools: Sequence[ToolSpec], *, announced: bool = True) -> Found | None:
    """The call in the object that begins at `text[at] == "{"`. None: a whole object that is data, not a call.

    `announced`: a label or tag says that this is a call, so that a name alone can be one of a tool without parameters.
    """
    found, end = scan(text, at)
    if found.value is None:
        return unreadable(found, len(text))
    read = _read(found.value, tools, end, repaired=found.repaired, announced=announced)
    following = _skip(text, end)
    if isinstance(read, Call) and text.startswith("{", following):
        return replace(read, more=True)
    return read


def calls_at(text: str, at: int, tools: Sequence[ToolSpec], *, announced: bool = True) -> Found | None:
    """The first call of the list of objects that begins at `text[at] == "["`; the whole list must be readable."""
    first: Found | None = None
    count = 0
    at = _skip(text, at + 1)
    while text.startswith("{", at):
        found, end = scan(text, at)
        if found.value is None:
            return unreadable(found, len(text))
        if first is None:
            first = _read(found.value, tools, end, repaired=found.repaired, announced=announced)
        count += 1
        at = _skip(text, end)
    if at >= len(text):
        return truncated("The list of calls", at)
    if text[at] != "]" or first is None:
        return malformed("the list of calls is not valid JSON", at) if count else None
    if isinstance(first, Call):
        return replace(first, end=at + 1, more=count > 1)
    return first


def ending(value: JsonObject | str | None, end: int) -> Ending | Broken:
    """The answer in the input of a finish action: a string, or an object that holds one under a usual key."""
    if isinstance(value, str):
        return Ending(value.strip(), end)
    if value is None or not value:
        return Ending("", end)
    texts = [item for key, item in value.items() if key.casefold() in ANSWER_KEYS or len(value) == 1]
    if len(texts) == 1 and isinstance(texts[0], (str, int, float)):
        return Ending(str(texts[0]).strip(), end)
    return malformed("the answer must be text; write Action: finish[your answer]", end)


def _skip(text: str, at: int) -> int:
    """The index after blanks and separators between calls."""
    while at < len(text) and text[at] in " \t\r\n,;":
        at += 1
    return at


def _read(value: JsonObject, tools: Sequence[ToolSpec], end: int, *, repaired: bool, announced: bool) -> Found | None:
    """The object as a call, an end or data."""
    own = _own_form(value, end)
    if own is not None:
        return own
    thought = value.get("thought")
    value = _unwrapped(value)
    named = [key for key in _NAMES if isinstance(value.get(key), str)]
    if not named:
        return None
    if len({str(value[key]) for key in named}) > 1 and not _is_kind(value, named):
        return malformed("the call names two different tools", end)
    name = str(value[named[0]])
    inputs = [value[key] for key in _INPUTS if key in value]
    tool, _ = names(name, tools)
    plain = undecorated(name).casefold()
    if tool is None and plain in FINISH:
        return _end(inputs, end)
    if tool is None and plain in NOTHING:
        return Broken(Anomaly.NO_ACTION, "no tool is named.", end)
    if not inputs and not announced:
        return malformed(f"the call of {tool.name} has no arguments object", end) if tool else None
    if any(other != inputs[0] for other in inputs[1:]):
        return malformed("the call holds two different argument objects", end)
    if tool and any(
        key in properties(tool) for key in value if key not in (*_NAMES, *_INPUTS, "type", "id", "thought")
    ):
        return malformed("an argument stands outside the arguments object", end)
    written = _written(inputs[0] if inputs else None)
    repaired = repaired or (isinstance(written, Arguments) and written.repaired)
    if isinstance(written, Arguments) and written.value is None:
        return unreadable(Arguments(None, problem=written.problem), end)
    return Call(name, written, end, repaired=repaired, thought=thought if isinstance(thought, str) else "")


def _is_kind(value: JsonObject, named: list[str]) -> bool:
    """`{"action": "tool_call", "name": ...}` is no conflict: the one word names the kind."""
    return len(named) == 2 and "action" in named and str(value["action"]).casefold() in (*_WRAPPERS, "use_tool")


def _end(inputs: list[Json], end: int) -> Ending | Broken:
    first = inputs[0] if len(inputs) == 1 else None
    if isinstance(first, (str, dict)):
        return ending(first, end)
    return ending(None, end) if first is None else malformed("the answer must be text", end)


def _written(value: Json) -> Written:
    """The input: an object, a string that holds one, plain text for the one parameter, or nothing."""
    if isinstance(value, dict):
        return Arguments(value)
    if value is None:
        return Plain(None)
    if isinstance(value, str):
        return parse(value) if value.lstrip().startswith("{") else Plain(value, exact=True)
    return Arguments(None, problem="the arguments must be one JSON object")


def _unwrapped(value: JsonObject) -> JsonObject:
    """The call inside a known wrapper: `{"tool_call": {...}}`, `{"type": "function", "function": {...}}`."""
    for _ in range(2):
        inner = [value[key] for key in _WRAPPERS if key in value]
        alone = len(value) - len({"type", "id", "thought"} & set(value)) == 1
        if alone and len(inner) == 1 and isinstance(inner[0], dict):
            value = inner[0]
        elif (
            alone
            and len(inner) == 1
            and isinstance(inner[0], list)
            and len(inner[0]) == 1
            and isinstance(inner[0][0], dict)
        ):
            value = inner[0][0]
    return value


def _own_form(value: JsonObject, end: int) -> Ending | None:
    """`{"thought": ..., "final": ...}`, which our JSON schema makes a constrained model write."""
    finals = [key for key in _FINALS if isinstance(value.get(key), str)]
    if len(finals) != 1 or set(value) - {"thought", finals[0]}:
        return None
    thought = value.get("thought")
    return Ending(str(value[finals[0]]).strip(), end, thought=thought if isinstance(thought, str) else "")
