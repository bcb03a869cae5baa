"""What a native reply's text may be besides an answer: a call that the server failed to parse, or nothing at all."""

from __future__ import annotations

import re
from collections.abc import Sequence

from orchestrator.core.arguments import literal, names
from orchestrator.core.spec import Json, ToolSpec
from orchestrator.core.text.marks import marks
from orchestrator.core.text.pythonic import python_calls
from orchestrator.core.text.words import FINISH, Kind

_NAME = re.compile(r"[\s*_`]{0,9}([^\s\[(（【{:：*`]{1,100})")
_LEFTOVER = re.compile(r"</(?:tool_calls?|function_calls?|function|invoke|parameter|arg_value)>\s*\Z", re.IGNORECASE)
_NAME_KEYS = ("name", "tool", "tool_name", "action", "function")
_INPUT_KEYS = ("arguments", "parameters", "input", "args", "action_input", "tool_input", "params")
_INVISIBLE = re.compile(r"[\s\u00ad\u200b-\u200f\u2060\ufeff]+")


def blank(text: str) -> bool:
    """Nothing that a reader would see."""
    return not _INVISIBLE.sub("", text)


def holds_call(text: str, tools: Sequence[ToolSpec]) -> bool:
    """Is there call or result markup of a text dialect, or a call of one of these tools as JSON or as an `Action:` line?

    In code spans and fences it is text, for an answer may explain a tag; unless the fence is all there is.
    """
    body = _unfenced(text.strip())
    for mark in marks(body):
        if mark.kind in (Kind.CALL, Kind.OBSERVATION) and not mark.label:
            return True
        if mark.kind is Kind.UNSAID and mark.label and not mark.word[0].isalpha():
            return True
        if mark.kind in (Kind.ACTION, Kind.UNSAID) and mark.label:
            named = _NAME.match(body, mark.end)
            if named and (named[1].casefold() in FINISH or names(named[1], tools)[0] is not None):
                return True
    if _LEFTOVER.search(body) or (body[:1] == "[" and python_calls(body, 0, tools) is not None):
        return True
    body = body.removeprefix("functools")
    return body[:1] in ("{", "[") and _is_call(literal(body)[1], tools)


def _unfenced(body: str) -> str:
    mark = body[:3]
    whole = mark in ("```", "~~~") and body.endswith(mark) and body.count(mark) == 2
    return body.partition("\n")[2][:-3].strip() if whole else body


def _is_call(value: Json, tools: Sequence[ToolSpec]) -> bool:
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, dict):
        return False
    if isinstance(inner := value.get("function"), dict):
        value = inner
    named = any(isinstance(name := value.get(key), str) and names(name, tools)[0] is not None for key in _NAME_KEYS)
    return named and any(key in value for key in _INPUT_KEYS)
