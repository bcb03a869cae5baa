"""Calls written as a Python list, `[search(query="x"), get_time()]`: Llama 4 and others. Nothing is evaluated: arguments are literals.

It counts only where the whole line is such a list and its first name is a registered tool's; in a sentence it is text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from orchestrator.core.arguments import names
from orchestrator.core.spec import ToolSpec
from orchestrator.core.text.found import Broken, Call, Found, after_blanks, malformed, truncated
from orchestrator.core.text.labels import arguments

_CALL = re.compile(r"\s*([^\W\d][\w.-]{0,99})\(")
_COMMA = re.compile(r"\s*,\s*")
_MANY = 64
_REST = re.compile(r"[^\S\n]*(?:\n|\Z|`{3}|<)")


def python_calls(text: str, at: int, tools: Sequence[ToolSpec]) -> Found | None:
    """The first call of the list that begins at `text[at] == "["`; the whole list must be readable. None: it is text."""
    if not opens_call(text, at, tools):
        return None
    first: Call | None = None
    count = 0
    at += 1
    while count < _MANY and (call := _CALL.match(text, at)):
        read = arguments(text, call.end(), names(call[1], tools)[0])
        if isinstance(read, Broken):
            return read
        written, at = read
        first = first or Call(call[1], written, at)
        count += 1
        comma = _COMMA.match(text, at)
        if not comma:
            break
        at = comma.end()
    at = after_blanks(text, at)
    if at >= len(text):
        return truncated("The list of calls", at)
    if text[at] != "]" or first is None:
        return malformed("the list of calls holds something else", at)
    return replace(first, end=at + 1, more=count > 1) if _REST.match(text, at + 1) else None


def opens_call(text: str, at: int, tools: Sequence[ToolSpec]) -> bool:
    """Does a list of Python calls of these tools begin at `text[at] == "["`?"""
    call = _CALL.match(text, at + 1)
    return call is not None and names(call[1], tools)[0] is not None
