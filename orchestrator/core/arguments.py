"""Reads the arguments of a call and finds the tool that is meant. Both protocols use it, neither is known here.

The law (corpus ruling 8): strict JSON, or a lexical repair that loses nothing and has one reading: trailing commas, comments
outside strings, Python literals, raw control characters in strings, one code fence, one layer of double encoding. Never:
closing what is open, adding commas or colons, quoting bare words, choosing between duplicate keys. Nothing here raises on any
text, and all of it takes linear time.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from orchestrator.core.quick import quick
from orchestrator.core.repair import MAX_DEPTH, Refused, after_blanks, strict, token
from orchestrator.core.spec import Json, JsonObject, ToolSpec

_NAMESPACES: Final = ("functions.", "function.", "tools.", "tool.", "default_api.", "functions/", "functions:")
_DECORATION: Final = " \t\r\n\xa0\u3000`*\"'“”‘’:：,;。.#\ufeff\u200b\u200c\u200d\u2060"
_PAIRS: Final = {"[": "]", "<": ">", "(": ")", "【": "】", "［": "］", "「": "」"}

_SURROGATE = re.compile(r"[\ud800-\udfff]")


@quick
@dataclass(frozen=True, slots=True)
class Arguments:
    """The input object, or None and the `problem` in words for the model. `truncated`: it was still open at the end."""

    value: JsonObject | None
    repaired: bool = False
    problem: str = ""
    truncated: bool = False


def parse(text: str) -> Arguments:
    """Read `text` as exactly one JSON object. Never raises; blank text is a problem, not an empty object."""
    body, fenced = _unfenced(text.strip().lstrip("\ufeff"))
    if not body:
        return Arguments(None, problem="the arguments are empty")
    if body[0] == '"':
        return _double(body)
    if body[0] != "{":
        return Arguments(None, problem="the arguments must be one JSON object that begins with { and ends with }")
    found, end = scan(body, 0)
    if found.value is not None and after_blanks(body, end) != len(body):
        return Arguments(
            None, problem="something follows the JSON object of the arguments; write one object and nothing else"
        )
    return replace(found, repaired=True) if fenced else found


def scan(text: str, start: int) -> tuple[Arguments, int]:
    """Read the one object that begins at `text[start] == "{"`; the second value is the index after it (or `start`)."""
    try:
        value, end = _DECODER.raw_decode(text, start)
        return _checked(value, text[start:end], repaired=False), end
    except Refused as error:
        return Arguments(None, problem=str(error), truncated=error.truncated), start
    except (ValueError, RecursionError):
        return _scan_repaired(text, start)


def literal(text: str) -> tuple[bool, Json]:
    """Read one strict JSON value of any type that fills `text`: (True, value), or (False, None)."""
    try:
        found = _DECODER.decode(text)
        _checked({"": found}, text, repaired=False)
    except (ValueError, RecursionError):
        return False, None
    return True, found


def item(text: str, at: int) -> tuple[bool, Json, int]:
    """Read the one JSON or Python literal that begins at `at`, with the same repairs: (True, value, index after it)."""
    try:
        if at >= len(text):
            return False, None, at
        rewritten, end = strict(text, at) if text[at] in "{[" else token(text, at)
        ok, found = literal(rewritten)
    except (ValueError, RecursionError):
        return False, None, at
    return ok, found, end


def names(name: str, tools: Sequence[ToolSpec]) -> tuple[ToolSpec | None, bool]:
    """The tool that `name` means, and whether the name had to be normalised (corpus ruling 9).

    Exact (aliases count), then without decoration, then without a known namespace, then a unique difference in case only.
    Never the nearest match.
    """
    exact = _exact(name, tools)
    if exact is not None:
        return exact, False
    plain = undecorated(name)
    for prefix in _NAMESPACES:
        candidates = (plain, plain[len(prefix) :] if plain.casefold().startswith(prefix) else "")
        for candidate in candidates:
            found = _exact(candidate, tools) if candidate else None
            if found is not None:
                return found, True
    stripped = next((plain[len(p) :] for p in _NAMESPACES if plain.casefold().startswith(p)), plain).casefold()
    same = [tool for tool in tools if stripped in {tool.name.casefold(), *(alias.casefold() for alias in tool.aliases)}]
    return (same[0], True) if len(same) == 1 and stripped else (None, False)


def undecorated(name: str) -> str:
    """Without quotes, backticks, asterisks, end punctuation, Markdown's escape of `_`, empty parentheses and one pair of brackets around it."""
    plain = name.replace("\\_", "_").strip(_DECORATION).removesuffix("()").strip(_DECORATION)
    if len(plain) > 2 and _PAIRS.get(plain[0]) == plain[-1]:
        plain = plain[1:-1].strip(_DECORATION)
    return plain


def _exact(name: str, tools: Sequence[ToolSpec]) -> ToolSpec | None:
    """A tool of that very name; else the one tool with that alias."""
    for tool in tools:
        if tool.name == name:
            return tool
    aliased = [tool for tool in tools if name in tool.aliases]
    return aliased[0] if len(aliased) == 1 else None


def _unfenced(body: str) -> tuple[str, bool]:
    """The inside of the one code fence that surrounds everything, if there is one."""
    mark = body[:3]
    if mark not in ("```", "~~~"):
        return body, False
    head, newline, rest = body.partition("\n")
    if not newline or not rest.endswith(mark) or "{" in head:
        return body, False
    return rest[:-3].rstrip("`~").strip(), True


def _double(body: str) -> Arguments:
    """One layer of double encoding: a JSON string that holds the object."""
    try:
        inner = _DECODER.decode(body)
    except (ValueError, RecursionError):
        return Arguments(
            None, problem="the arguments are a broken JSON string; write the object itself, without quotes around it"
        )
    if not isinstance(inner, str) or not inner.lstrip().startswith("{"):
        return Arguments(None, problem="the arguments are a string; write one JSON object")
    start = len(inner) - len(inner.lstrip())
    found, end = scan(inner, start)
    if found.value is not None and inner[end:].strip():
        return Arguments(None, problem="something follows the JSON object inside the string of the arguments")
    return Arguments(found.value, repaired=found.value is not None, problem=found.problem, truncated=found.truncated)


def _pairs(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """An object whose keys are all different: a checker may see the first of two, and the tool the last."""
    built: dict[str, Json] = {}
    for key, item in pairs:
        if key in built:
            raise Refused(f"the key {json.dumps(key[:60], ensure_ascii=False)} stands twice in one object")
        built[key] = item
    return built


def _constant(name: str) -> Json:
    raise Refused(f"{name} is not a JSON value")


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise Refused("a number is too large")
    return number


def _int(digits: str) -> int:
    if len(digits) > 1000:
        raise Refused("a number is too large")
    return int(digits)


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float, parse_int=_int)


def _checked(value: Json, text: str, *, repaired: bool) -> Arguments:
    """The value as arguments, unless it could not be stored: too deep, or half a character."""
    if text.count("{") + text.count("[") > MAX_DEPTH and too_deep(value):
        raise Refused(f"the JSON is nested deeper than {MAX_DEPTH} levels")
    suspect = "\\u" in text or (not text.isascii() and _SURROGATE.search(text))
    if suspect and _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise Refused("a string holds half a character (an unpaired surrogate escape)")
    if not isinstance(value, dict):
        raise Refused("the arguments must be one JSON object that begins with { and ends with }")
    return Arguments(value, repaired=repaired)


def too_deep(value: Json) -> bool:
    """Is it nested deeper than MAX_DEPTH levels? Then not every reader of a Trace could read it."""
    level: list[Json] = [value]
    for _ in range(MAX_DEPTH + 1):
        inner: list[Json] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        level = inner
        if not level:
            return False
    return True


def _scan_repaired(text: str, start: int) -> tuple[Arguments, int]:
    """The object rewritten as strict JSON token by token, then read strictly: the strict reader judges the structure."""
    try:
        rewritten, end = strict(text, start)
        return _checked(_DECODER.decode(rewritten), rewritten, repaired=True), end
    except Refused as error:
        return Arguments(None, problem=str(error), truncated=error.truncated), start
    except json.JSONDecodeError as error:
        return Arguments(None, problem=f"the arguments are not valid JSON ({error.msg})"), start
    except (ValueError, RecursionError):
        return Arguments(None, problem="the arguments are not valid JSON"), start
