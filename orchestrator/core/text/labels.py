"""The label dialects: `Action: search[x]`, `Action: search {"query": "x"}`, `Action: search` + `Action Input: x`, in all languages.

Given where the value of an Action label begins, reads exactly one call from it by scanning, never by a pattern over the whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from orchestrator.core.arguments import Arguments, item, literal, names, parse, scan, undecorated
from orchestrator.core.events import Anomaly
from orchestrator.core.spec import Json, ToolSpec
from orchestrator.core.text.found import (
    Broken,
    Call,
    Ending,
    Found,
    Plain,
    Written,
    expected,
    malformed,
    required,
    truncated,
    unreadable,
)
from orchestrator.core.text.marks import Mark, inline, marks
from orchestrator.core.text.objects import call_at, calls_at, ending
from orchestrator.core.text.unsaid import before_region, follows, region
from orchestrator.core.text.words import FINISH, NOTHING, Kind

_BRACKETS: Final = {"[": "]", "［": "］", "【": "】", "(": ")", "（": "）"}
_OPEN = re.compile(r"[\[［【({（｛]")
_BLANK = re.compile(r"[\s*_\u200b\ufeff]*")
_FENCE = re.compile(r"(`{3,}|~{3,})[\w+-]*[^\S\n]*\n?\s*")
_KEYWORD = re.compile(r"\s*([^\W\d]\w*)\s*=\s*")
_BREAKING: Final = frozenset({Kind.OBSERVATION, Kind.ACTION, Kind.INPUT})


def action(text: str, label: Mark, tools: Sequence[ToolSpec]) -> Found:
    """Read the value of the Action label: one call, an end, or why neither."""
    limit = _next_label(text, label.end)
    at = _past(_BLANK, text, label.end)
    fence = _FENCE.match(text, at)
    at = _past(_BLANK, text, fence.end()) if fence else at
    if at >= limit:
        return Broken(Anomaly.NO_ACTION, "the Action line names no tool.", limit)
    if text[at] == "`":
        at = _past(re.compile(r"`+\s*"), text, at)
    if text.startswith("{", at):
        return call_at(text, at, tools) or malformed(
            'the JSON after Action holds no tool; write {"tool": ..., "input": {...}}', limit
        )
    if text.startswith("[", at) and text[at + 1 : at + 40].lstrip().startswith("{"):
        return calls_at(text, at, tools) or malformed("the list after Action holds no call", limit)
    return _named(text, at, limit, tools)


def _named(text: str, at: int, limit: int, tools: Sequence[ToolSpec]) -> Found:
    """A tool's name, then its arguments in one of the forms."""
    stop = min(_line_end(text, at), limit)
    given = inline(Kind.INPUT, text, at, stop)
    fence = text.find("```", at, stop)
    stop = given[0] if given else fence if fence > at else stop
    opened = _OPEN.search(text, at, stop)
    if opened and opened.start() == at and opened[0] in "[【［":
        shut = text.find(_BRACKETS[opened[0]], at, stop)
        opened = _OPEN.search(text, shut, stop) if shut > 0 else opened
    written = text[at : opened.start() if opened else stop]
    name = undecorated(written)
    tool, _ = names(written.strip(), tools)
    if tool is None and name.casefold() in NOTHING:
        return Broken(Anomaly.NO_ACTION, "no tool is named.", stop)
    ends = tool is None and name.casefold() in FINISH
    if not ends and tool is None and (not name or any(char.isspace() for char in name)):
        return _no_name(name, stop, tools)
    if opened:
        read = _opened(text, opened.start(), tool=tool, ends=ends)
    elif ends:
        return _finish_input(text, given[1] if given else stop, limit, given=given is not None)
    else:
        read = _below(text, given, stop, tool)
    if isinstance(read, Broken):
        return read
    value, end = read
    if not ends and _again(text, end):
        return malformed("the arguments are given twice", stop)
    return _ended(value, end) if ends else Call(name, value, end)


def _again(text: str, end: int) -> bool:
    """Whether an input label follows the arguments, so that there are two."""
    label = follows(text, end)
    return label is not None and label.kind is Kind.INPUT


def _no_name(name: str, stop: int, tools: Sequence[ToolSpec]) -> Broken:
    """Words where a tool's name should stand."""
    first = names(name.split(maxsplit=1)[0], tools)[0] if name else None
    if first:
        return malformed(f"the arguments of {first.name} are not JSON; write {expected(first)}", stop)
    return malformed(f"{name[:60]!r} is not the name of a tool; write Action: tool_name {{...}}", stop)


def _opened(text: str, at: int, *, tool: ToolSpec | None, ends: bool) -> tuple[Written, int] | Broken:
    """Arguments in brackets, in parentheses or as an object, which begin at `at` on the name's line."""
    char = text[at]
    if char == "{":
        found, end = scan(text, at)
        return (found, end) if found.value is not None else unreadable(found, len(text))
    if char == "｛":
        return malformed("full-width braces are not JSON; write plain { } and quotes", _line_end(text, at))
    if char in "(（" and not ends:
        return arguments(text, at + 1, tool)
    close = _balanced(text, at)
    breaking = _BREAKING if ends else frozenset(Kind)
    label = next((m for m in marks(text, at) if m.label and not m.bare and m.kind in breaking), None)
    if close < 0 or (label and label.start < close):
        return truncated(f"The {char} after the tool's name", label.start if label else len(text))
    rest = text[close + 1 : _line_end(text, close)].lstrip()
    if rest.startswith(_BRACKETS[char]):
        return malformed(
            "the brackets of the Action do not match; write the arguments as a JSON object", _line_end(text, close)
        )
    inner = text[at + 1 : close].strip()
    if char in "(（" and inner[:1] in ('"', "'"):
        ok, value, end = item(inner, 0)
        if ok and isinstance(value, str) and end == len(inner):
            return Plain(value, exact=True), close + 1
    if char == "【" and not ends:
        return Plain(inner), close + 1
    return Plain(inner), close + 1


def _balanced(text: str, at: int) -> int:
    """The index of the bracket that closes `text[at]`, or -1."""
    pair = text[at], _BRACKETS[text[at]]
    depth = 0
    for found in re.finditer("[" + re.escape("".join(pair)) + "]", text[at:]):
        depth += 1 if found[0] == pair[0] else -1
        if depth == 0:
            return at + found.start()
    return -1


def arguments(text: str, at: int, tool: ToolSpec | None) -> tuple[Written, int] | Broken:
    """The inside of `name(...)`: one object, one quoted literal, or keyword=literal pairs; nothing is evaluated."""
    at = _past(re.compile(r"\s*"), text, at)
    if at >= len(text):
        return truncated("The ( after the tool's name", at)
    if text[at] in ")）":
        return Plain(None), at + 1
    if text[at] == "{":
        found, at = scan(text, at)
        if found.value is None:
            return unreadable(found, len(text))
        return _shut(text, at, found)
    if text[at] in "\"'":
        ok, value, at = item(text, at)
        if ok and isinstance(value, str):
            return _shut(text, at, Plain(value, exact=True))
        return (
            truncated("A string of the Action", len(text))
            if not ok and text.find("\n", at) < 0
            else malformed("a string of the Action is broken", at)
        )
    pairs: dict[str, Json] = {}
    while keyword := _KEYWORD.match(text, at):
        ok, value, end = item(text, keyword.end())
        if not ok or keyword[1] in pairs:
            return malformed(f"the argument {keyword[1][:40]} is no single literal; {_how(tool)}", _line_end(text, at))
        pairs[keyword[1]] = value
        at = _past(re.compile(r"\s*,?"), text, end)
    if not pairs:
        return malformed(f"the arguments in parentheses are not JSON; {_how(tool)}", _line_end(text, at))
    return _shut(text, at, Arguments(pairs, repaired=True))


def _shut(text: str, at: int, written: Written) -> tuple[Written, int] | Broken:
    """The closing parenthesis after the arguments."""
    at = _past(re.compile(r"\s*,?\s*"), text, at)
    if at >= len(text):
        return truncated("The ( after the tool's name", at)
    if text[at] not in ")）":
        return malformed("the arguments in parentheses are more than one JSON object", at)
    return written, at + 1


def _how(tool: ToolSpec | None) -> str:
    return f"write {expected(tool)}" if tool else "write one JSON object"


def _below(text: str, given: tuple[int, int] | None, stop: int, tool: ToolSpec | None) -> tuple[Written, int] | Broken:
    """Arguments under an input label, or as an object (perhaps fenced) on the next line; or none at all."""
    if given:
        return _input(text, given[1])
    label = follows(text, stop)
    at = _past(_BLANK, text, stop)
    fence = _FENCE.match(text, at)
    at = fence.end() if fence else at
    if text.startswith("{", at) and not (label and label.start < at):
        found, end = scan(text, at)
        return (found, end) if found.value is not None else unreadable(found, len(text))
    if label and label.kind is Kind.INPUT:
        return _input(text, label.end)
    if label and region(label):
        return truncated(f"{label.word} after the tool's name", len(text))
    if fence and not (label and label.start < at):
        return malformed(f"the arguments are not JSON; {_how(tool)}", _line_end(text, at))
    if tool and required(tool):
        return malformed(f"the arguments are missing; write {expected(tool)}", stop)
    return Plain(None), stop


def _input(text: str, at: int) -> tuple[Written, int] | Broken:
    """The value of an input label: an object, a quoted string, or plain text until the next label."""
    start = _past(_BLANK, text, at)
    fence = _FENCE.match(text, start)
    inside = fence.end() if fence else start
    if text.startswith("{", inside):
        found, end = scan(text, inside)
        return (found, end) if found.value is not None else unreadable(found, len(text))
    stop = before_region(text, at, _next_label(text, at))
    value = text[min(start, stop) : stop].strip()
    if fence:
        close = value.rfind(fence[1])
        if close < len(fence[1]):
            return truncated("The code fence of the Action Input", stop)
        return Plain(value[fence.end() - start : close].strip()), stop
    if not value.startswith('"'):
        return Plain(value.strip("`") if value.startswith("`") and value.endswith("`") else value), stop
    ok, inner = literal(value)
    if ok and isinstance(inner, str):
        return (parse(value) if inner.lstrip().startswith("{") else Plain(inner, exact=True)), stop
    if value.count('"') % 2:
        return truncated("The string of the Action Input", stop)
    if value.endswith('"'):
        return malformed("the quotes of the Action Input do not match; write one JSON object", stop)
    return Plain(value), stop


def _finish_input(text: str, at: int, limit: int, *, given: bool) -> Found:
    """`Action: Final Answer` with the answer under an input label."""
    if not given:
        label = follows(text, at)
        if not label or label.kind is not Kind.INPUT:
            return _ended(Plain(None), limit)
        at = label.end
    read = _input(text, at)
    return read if isinstance(read, Broken) else _ended(read[0], read[1], closed=isinstance(read[0], Arguments))


def _ended(value: Written, end: int, *, closed: bool = True) -> Ending | Broken:
    """The answer that a finish action carries."""
    if isinstance(value, Plain):
        text = value.text or ""
        if not value.exact and text.startswith("{") and text.endswith("}"):
            found = parse(text)
            if found.value is not None:
                return ending(found.value, end)
        return Ending(text.strip(), end, closed=closed)
    if isinstance(value, Arguments) and value.value is not None:
        return ending(value.value, end)
    return malformed("the answer must be text; write Action: finish[your answer]", end)


def _past(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _next_label(text: str, at: int) -> int:
    """Where the next mark that ends plain text stands."""
    ending_kinds = (Kind.OBSERVATION, Kind.END)
    return next((m.start for m in marks(text, at) if (m.label and not m.bare) or m.kind in ending_kinds), len(text))
