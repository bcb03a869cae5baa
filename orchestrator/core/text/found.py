"""What a dialect's reader hands back: a call as it was written, an end, or what is wrong. Then: fitting it to the tool's schema.

A dialect knows how calls are written; only `fit` knows which parameters a tool has. Nothing is mapped by position, and text
becomes another type only where the schema asks for that type and strict JSON reads it so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from orchestrator.core.arguments import Arguments, literal, parse
from orchestrator.core.events import Anomaly
from orchestrator.core.spec import Json, JsonObject, ToolSpec
from orchestrator.core.text.words import NOTHING

_BLANKS = re.compile(r"\s*")
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


@dataclass(frozen=True, slots=True)
class Plain:
    """Text for the one parameter. `exact`: it was a quoted literal, so it is not read again. None: nothing was written."""

    text: str | None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Fields:
    """Tagged parameters in order, as raw text; `raw` names those that the markup itself calls strings."""

    pairs: tuple[tuple[str, str], ...]
    raw: frozenset[str] = frozenset()


Written: TypeAlias = Arguments | Plain | Fields


@dataclass(frozen=True, slots=True)
class Call:
    """One call as written, up to `end`. `more`: the same markup held further calls. `repaired`: the markup had to be mended."""

    name: str
    input: Written
    end: int
    more: bool = False
    repaired: bool = False
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """The model ends the run with `answer`. `closed`: markup ends it, so that what follows is not part of it."""

    answer: str
    end: int
    closed: bool = True
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Broken:
    """A call that must not run: TRUNCATED or MALFORMED (or NO_ACTION: it says that there is none), and why, for the model."""

    problem: Anomaly
    detail: str
    end: int


Found: TypeAlias = Call | Ending | Broken


def malformed(detail: str, end: int) -> Broken:
    """Something is written in a way that has no single reading."""
    return Broken(Anomaly.MALFORMED, detail, end)


def truncated(what: str, end: int) -> Broken:
    """Something is open at the end of the reply."""
    return Broken(
        Anomaly.TRUNCATED, f"{what} was still open at the end of the reply; write the whole Action again.", end
    )


def unreadable(problem: Arguments, end: int) -> Broken:
    """Arguments that could not be read, as a broken call."""
    if problem.truncated:
        return truncated("The JSON of the arguments", end)
    return malformed(problem.problem, end)


def after_blanks(text: str, at: int) -> int:
    """The index of the next character that is no blank."""
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at


def fit(tool: ToolSpec, written: Written) -> Arguments:
    """The input object for `tool`; a problem where the schema gives no single reading."""
    if isinstance(written, Arguments):
        return written
    if isinstance(written, Fields):
        return _typed(tool, written)
    return _one(tool, written)


def required(tool: ToolSpec) -> tuple[str, ...]:
    """The names of the parameters that a call must give."""
    listed = tool.schema.get("required")
    return tuple(str(name) for name in listed) if isinstance(listed, (list, tuple)) else ()


def properties(tool: ToolSpec) -> JsonObject:
    """The declared parameters by name."""
    declared = tool.schema.get("properties")
    return declared if isinstance(declared, dict) else {}


def expected(tool: ToolSpec) -> str:
    """How an Action for this tool looks, for the sentence that the model is told."""
    fields = ", ".join(f'"{name}": ...' for name in properties(tool))
    return f"Action: {tool.name} {{{fields}}}"


def _one(tool: ToolSpec, plain: Plain) -> Arguments:
    """Text in brackets or after an input label: for the single parameter, or the single required one."""
    text = (plain.text or "").strip() if not plain.exact else plain.text or ""
    declared, needed = properties(tool), required(tool)
    if not plain.exact and text.startswith("{"):
        return _object(tool, text)
    if not declared or (not needed and plain.text is None):
        if not text or text.casefold() in NOTHING:
            return Arguments({})
        return Arguments(None, problem=f"the tool {tool.name} takes no arguments")
    if plain.text is None or (not text and not plain.exact):
        return Arguments(None, problem=f"the arguments are missing; write {expected(tool)}")
    target = needed[0] if len(needed) == 1 else next(iter(declared)) if len(declared) == 1 else None
    if target is None:
        problem = f"the tool {tool.name} has several parameters, so its arguments must be one JSON object; write {expected(tool)}"
        return Arguments(None, problem=problem)
    if not plain.exact and text.startswith((f"{target}=", f"{target} =")):
        return Arguments(None, problem=f"name and value are not JSON; write {expected(tool)}")
    return _value(target, text, _types(declared.get(target)), exact=plain.exact)


def _object(tool: ToolSpec, text: str) -> Arguments:
    """Braces announce a JSON object, whatever the parameter's type."""
    found = parse(text)
    if found.value is None:
        return found
    unknown = [key for key in found.value if key not in properties(tool)]
    if unknown and properties(tool):
        return Arguments(
            None, problem=f"the tool {tool.name} has no parameter {unknown[0][:60]!r}; write {expected(tool)}"
        )
    return found


def _types(schema: Json) -> tuple[str, ...]:
    """The JSON types that a parameter allows; empty: any."""
    if not isinstance(schema, dict):
        return ()
    declared = schema.get("type")
    if isinstance(declared, str):
        return () if declared == "any" else (declared,)
    return tuple(str(name) for name in declared) if isinstance(declared, (list, tuple)) else ()


def _value(key: str, text: str, types: tuple[str, ...], *, exact: bool) -> Arguments:
    """One piece of plain text as the value of parameter `key`."""
    if not types or "string" in types:
        if not exact and len(text) > 1 and text[0] == text[-1] == '"':
            ok, inner = literal(text)
            if ok and isinstance(inner, str):
                return Arguments({key: inner})
        return Arguments({key: text})
    ok, found = literal(text)
    if exact or not ok or not _is(found, types):
        return Arguments(None, problem=f"the parameter {key!r} must be of type {' or '.join(types)}")
    return Arguments({key: found})


def _is(found: Json, types: tuple[str, ...]) -> bool:
    if isinstance(found, bool):
        return "boolean" in types
    return any(isinstance(found, _TYPES.get(name, ())) for name in types)


def _typed(tool: ToolSpec, fields: Fields) -> Arguments:
    """Tagged parameters: strings verbatim, other types by strict JSON, no parameter twice."""
    declared = properties(tool)
    built: dict[str, Json] = {}
    for key, text in fields.pairs:
        if key in built:
            return Arguments(None, problem=f"the parameter {key[:60]!r} is given twice")
        types = _types(declared.get(key))
        built[key] = text
        if key in fields.raw or "string" in types or (not types and key not in declared):
            continue
        ok, found = literal(text.strip())
        if ok and (not types or _is(found, types)):
            built[key] = found
        elif types:
            return Arguments(None, problem=f"the parameter {key[:60]!r} must be of type {' or '.join(types)}")
    missing = [name for name in required(tool) if name not in built]
    if missing:
        return Arguments(None, problem=f"the parameter {missing[0]!r} is missing; write {expected(tool)}")
    return Arguments(built)
