"""The tag dialects: Hermes and Qwen (`<tool_call>`), Qwen-Coder (`<function=`), GLM (`<arg_key>`), invoke XML, DSML, `<action>`.

Values between tags are text, verbatim but for one newline next to each tag. A closing tag counts only where structure can
follow; anything else has two readings and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from orchestrator.core.arguments import scan
from orchestrator.core.spec import ToolSpec
from orchestrator.core.text.found import Broken, Call, Fields, Found, after_blanks, malformed, truncated, unreadable
from orchestrator.core.text.marks import Mark
from orchestrator.core.text.objects import call_at, calls_at

_NS: Final = r"(?:antml:|｜DSML｜)?"
_FUNCTION = re.compile(r"<function=([^>\n]{1,200})>")
_PARAMETER = re.compile(r"<parameter=([^>\n]{1,200})>")
_INVOKE = re.compile(rf"<{_NS}invoke\s+name=[\"']([^\"'\n]{{1,200}})[\"'][^>\n]*>")
_NAMED = re.compile(rf"<{_NS}parameter\s+name=[\"']([^\"'\n]{{1,200}})[\"']([^>\n]*)>")
_INVOKE_END = re.compile(rf"</{_NS}invoke>")
_NAMED_END = re.compile(rf"</{_NS}parameter>")
_FUNCTION_END = re.compile(r"</function>")
_PARAMETER_END = re.compile(r"</parameter>")
_WRAPPER = re.compile(
    rf"\s*(?:<{_NS}(?:tool_calls?|toolcall|function_?calls?|(?:minimax|seed|longcat)[:_]tool_call)>\s*)*", re.IGNORECASE
)
_CLOSER = re.compile(
    rf"\s*</{_NS}(?:tool_calls?|function_?calls?|toolcall|action|(?:minimax|seed|longcat)[:_]tool_call)>", re.IGNORECASE
)
_GLM_NAME = re.compile(r"\s*([^\s<{\[\"'`]{1,200})\s*(?=<arg_key>|</tool_call>)")
_KEY = re.compile(r"\s*<arg_key>([^<\n]{1,200})</arg_key>\s*<arg_value>")
_VALUE_END = re.compile(r"</arg_value>")
_AFTER_VALUE = re.compile(r"\s*(?:<arg_key>|</tool_call>|\Z)")
_FENCE = re.compile(r"`{3,}\w*[^\S\n]*\n\s*")
_MANY: Final = 64


def tagged(text: str, mark: Mark, tools: Sequence[ToolSpec]) -> Found | None:
    """The call that the opening tag announces. None: the tag is only mentioned."""
    wrapped = _WRAPPER.match(text, mark.start)
    at = after_blanks(text, wrapped.end() if wrapped else mark.start)
    if at >= len(text):
        return truncated(f"The tag {mark.word}", at)
    found = _body(text, at, mark, tools)
    if not isinstance(found, Call):
        return found
    closers = _CLOSER.match(text, found.end)
    while closers:
        found = Call(found.name, found.input, closers.end(), found.more, found.repaired)
        closers = _CLOSER.match(text, found.end)
    return found


def _body(text: str, at: int, mark: Mark, tools: Sequence[ToolSpec]) -> Found | None:
    """What stands inside the tag, by its first characters."""
    fence = _FENCE.match(text, at)
    at = fence.end() if fence else at
    if text.startswith("{", at):
        return call_at(text, at, tools) or malformed("the JSON in the tag names no tool", at)
    if text.startswith("[", at):
        return calls_at(text, at, tools) or malformed("the list in the tag holds no call", at)
    function = _FUNCTION.match(text, at)
    if function and text.startswith("{", after_blanks(text, function.end())):
        return _function_object(text, function)
    if function:
        return _parameters(text, function, (_PARAMETER, _PARAMETER_END, _FUNCTION_END))
    invoke = _INVOKE.match(text, at)
    if invoke:
        return _parameters(text, invoke, (_NAMED, _NAMED_END, _INVOKE_END))
    name = _GLM_NAME.match(text, at)
    if name:
        return _pairs(text, name)
    return _mentioned(text, at, mark)


def _function_object(text: str, function: re.Match[str]) -> Call | Broken:
    """Llama's form: the arguments as one object inside the function tag."""
    found, end = scan(text, after_blanks(text, function.end()))
    if found.value is None:
        return unreadable(found, len(text))
    close = _FUNCTION_END.match(text, after_blanks(text, end))
    if not close:
        return malformed("something follows the arguments inside the function tag", end)
    return Call(function[1].strip(), found, close.end())


def _mentioned(text: str, at: int, mark: Mark) -> Found | None:
    """Neither object nor markup after the tag: broken where the tag begins a line or is closed, else prose about it."""
    line = text.rfind("\n", 0, mark.start) + 1
    closed = "</" + mark.word[1:] in text[at:]
    if closed or not text[line : mark.start].strip() or text.startswith("<", at):
        return malformed(f"the tag {mark.word} holds no call that can be read", at)
    return None


def _parameters(
    text: str, opening: re.Match[str], tags: tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]
) -> Call | Broken:
    """Parameters between tags until the call's own closing tag."""
    parameter, parameter_end, call_end = tags
    name = opening[1].strip()
    pairs: list[tuple[str, str]] = []
    raw: set[str] = set()
    at = opening.end()
    for _ in range(_MANY):
        at = after_blanks(text, at)
        end = call_end.match(text, at)
        if end:
            return Call(name, Fields(tuple(pairs), frozenset(raw)), end.end())
        begin = parameter.match(text, at)
        if not begin:
            return (
                truncated("A tag of the call", at)
                if at >= len(text)
                else malformed("something stands between the parameters", at)
            )
        close = parameter_end.search(text, begin.end())
        if not close:
            ended = call_end.search(text, begin.end())
            return (
                malformed(f"the parameter {begin[1]!r} has no closing tag", at)
                if ended
                else truncated("A parameter", len(text))
            )
        value = text[begin.end() : close.start()]
        follows = after_blanks(text, close.end())
        if parameter.search(value) or (
            follows < len(text) and not parameter.match(text, follows) and not call_end.match(text, follows)
        ):
            return malformed(f"where the parameter {begin[1]!r} ends is not clear", at)
        key = begin[1].strip()
        pairs.append((key, _inner(value)))
        if begin.re is _NAMED and 'string="true"' in begin[2]:
            raw.add(key)
        at = close.end()
    return malformed("the call has too many parameters", at)


def _inner(value: str) -> str:
    """The value without the one newline next to each tag."""
    return value.removeprefix("\n").removesuffix("\n")


def _pairs(text: str, name: re.Match[str]) -> Call | Broken:
    """GLM's key and value tags."""
    pairs: list[tuple[str, str]] = []
    at = name.end()
    for _ in range(_MANY):
        at = after_blanks(text, at)
        if text.startswith("</tool_call>", at):
            return Call(name[1], Fields(tuple(pairs)), at)
        key = _KEY.match(text, at)
        if not key:
            return (
                truncated("A tag of the call", at)
                if at >= len(text)
                else malformed("the keys and values of the call do not pair", at)
            )
        close = _VALUE_END.search(text, key.end())
        if not close:
            return truncated("A value of the call", len(text))
        value = text[key.end() : close.start()]
        if "<arg_value>" in value or "<arg_key>" in value or not _AFTER_VALUE.match(text, close.end()):
            return malformed(f"where the value of {key[1]!r} ends is not clear", at)
        pairs.append((key[1].strip(), value))
        at = close.end()
    return malformed("the call has too many parameters", at)
