"""The token dialects: Llama, Phi, Granite, Command, InternLM, Mistral, DeepSeek, Kimi, harmony, Qwen's own markers, DSPy fields, and markup we only refuse.

A token announces a call; what follows is read by scanning. The name is never taken from the arguments, nor inferred from them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from orchestrator.core.arguments import names, scan
from orchestrator.core.events import Anomaly
from orchestrator.core.spec import ToolSpec
from orchestrator.core.text.found import Broken, Call, Found, after_blanks, malformed, truncated, unreadable
from orchestrator.core.text.marks import Mark
from orchestrator.core.text.objects import call_at, calls_at
from orchestrator.core.text.pythonic import python_calls

_PLUGIN = re.compile(r"\s*<\|plugin\|>")
_NAME = re.compile(r"\s*([^\s{\[(<✿]{1,200})\s*")
_CALL_ID = re.compile(r"\s*\[CALL_ID\][^\s\[{]{0,80}")
_ARGS = re.compile(r"\s*\[ARGS\]")
_DEEPSEEK = re.compile(
    r"(?:<[|｜]tool[▁_]calls[▁_]begin[|｜]>)?\s*<[|｜]tool[▁_]call[▁_]begin[|｜]>\s*+([^<\n]{0,200}+)<[|｜]tool[▁_]sep[|｜]>([^\n{`]{0,200})"
)
_DEEPSEEK_WHOLE = re.compile(r"<[|｜]tool[▁_](?:sep|call[▁_]end)[|｜]>")
_KIMI = re.compile(
    r"(?:<\|tool_calls_section_begin\|>)?\s*<\|tool_call_begin\|>\s*([^<\s]{1,200})\s*<\|tool_call_argument_begin\|>"
)
_KIMI_ID = re.compile(r"(?:functions\.)?(.+?):\d{1,6}\Z")
_KIMI_FLAT = re.compile(r"functions_(.+)_\d{1,6}\Z")
_FENCE = re.compile(r"\s*`{3,}(?:json)?[^\S\n]*\n\s*", re.IGNORECASE)
_LEAK = re.compile(r"\s*json\s*\n\s*", re.IGNORECASE)
_HARMONY = re.compile(r"<\|channel\|>commentary to=([^\s<]{1,200})[^{\n]{0,80}<\|message\|>\s*", re.IGNORECASE)
_QWEN_ARGS = re.compile(r"[:：]\s*([^\s✿{]{1,200})\s*✿ARGS✿[:：]\s*")
_DSPY_ARGS = re.compile(r"\s*+([^\n\[]{1,200}+)\n\s*+\[\[ ## next_tool_args ## \]\]\s*")


def tokened(text: str, mark: Mark, tools: Sequence[ToolSpec]) -> Found | None:
    """The call that the token announces. None: it is only mentioned."""
    word = mark.word
    if word == "<|python_tag|>":
        return _json(text, mark, tools) or malformed("code is not run; write the call as JSON", len(text))
    if word == "<|python_start|>":
        return _python(text, mark, tools) or malformed("code is not run; write the call as JSON", len(text))
    if word in ("<|tool_call|>", "<|start_action|>", "<|action_start|>") and (found := _json(text, mark, tools)):
        return found
    if word == "[tool_calls]":
        return _mistral(text, mark, tools)
    if "tool▁call" in word or word == "<|tool_calls_begin|>" or _DEEPSEEK.match(text, mark.start):
        return _deepseek(text, mark)
    if "tool_call" in word and "begin" in word:
        return _kimi(text, mark, tools)
    for name, pattern in (("<|channel|>", _HARMONY), ("✿function✿", _QWEN_ARGS), ("[[ ##", _DSPY_ARGS)):
        if word.startswith(name):
            return _pattern(text, mark, pattern, tools)
    return malformed("a call in this markup cannot be read; write Thought: and Action: lines", len(text))


def _json(text: str, mark: Mark, tools: Sequence[ToolSpec]) -> Found | None:
    """One call or a list of them, as JSON right after the token: Llama 3, Phi, Granite, Command, InternLM. None: something else stands there."""
    addressed = _PLUGIN.match(text, mark.end)
    at = after_blanks(text, addressed.end() if addressed else mark.end)
    if text.startswith("{", at):
        return call_at(text, at, tools) or malformed("the JSON after the token names no tool", at)
    if text.startswith("[", at):
        return calls_at(text, at, tools) or malformed("the list after the token holds no call", at)
    return None


def _python(text: str, mark: Mark, tools: Sequence[ToolSpec]) -> Found | None:
    """Llama 4's list of calls after its token."""
    at = after_blanks(text, mark.end)
    return python_calls(text, at, tools) if text.startswith("[", at) else None


def _mistral(text: str, mark: Mark, tools: Sequence[ToolSpec]) -> Found | None:
    """`[TOOL_CALLS] [{...}]`, or `[TOOL_CALLS]name{...}` with or without its own tokens between."""
    at = after_blanks(text, mark.end)
    if at >= len(text):
        return truncated("The call after its token", at)
    if text[at] == "[":
        return calls_at(text, at, tools) or malformed("the list after the token holds no call", at)
    if text[at] == "{":
        return call_at(text, at, tools) or malformed("the JSON after the token names no tool", at)
    name = _NAME.match(text, at)
    if not name:
        return malformed("no tool is named after the token", at)
    at = name.end()
    for extra in (_CALL_ID, _ARGS):
        found = extra.match(text, at)
        at = found.end() if found else at
    return _object(text, at, name[1], ("",))


def _deepseek(text: str, mark: Mark) -> Found | None:
    """V3: `function<sep>name` and a fenced object; V3.1: `name<sep>` and a bare one."""
    head = _DEEPSEEK.match(text, mark.start)
    if not head:
        return (
            malformed("the call after its token cannot be read", len(text))
            if _DEEPSEEK_WHOLE.search(text, mark.end)
            else truncated("The call", len(text))
        )
    before, after = head[1].strip(), head[2].strip()
    at = head.end()
    if after and before not in ("function", ""):
        return malformed("the call names two things", len(text))
    leak = _LEAK.match(text, at) if after else None
    fence = _FENCE.match(text, at)
    at = fence.end() if fence else leak.end() if leak else at
    found = _object(text, at, after or before, ("\n```", "```", ""))
    if isinstance(found, Call) and leak:
        return Call(found.name, found.input, found.end, repaired=True)
    return found


def _kimi(text: str, mark: Mark, tools: Sequence[ToolSpec]) -> Found | None:
    """`functions.name:index`; the sanitised `functions_name_index` counts only if that name is registered."""
    head = _KIMI.match(text, mark.start)
    if not head:
        whole = "<|tool_call_argument_begin|>" in text[mark.end :]
        return (
            malformed("the call after its token cannot be read", len(text))
            if whole
            else truncated("The call", len(text))
        )
    name = head[1]
    indexed, flat = _KIMI_ID.match(name), _KIMI_FLAT.match(name)
    if indexed:
        name = indexed[1]
    elif flat and names(name, tools)[0] is None and any(tool.name == flat[1] for tool in tools):
        name = flat[1]
    return _object(text, head.end(), name, ("<|tool_call_end|>",))


def _pattern(text: str, mark: Mark, pattern: re.Pattern[str], tools: Sequence[ToolSpec]) -> Found | None:
    start = mark.start if pattern is _HARMONY else mark.end
    head = pattern.match(text, start)
    if not head:
        return malformed("the call after its marker cannot be read", len(text))
    name = head[1].strip()
    if pattern is _DSPY_ARGS and name.casefold() == "finish" and names(name, tools)[0] is None:
        return Broken(Anomaly.NO_ACTION, "write the answer as Action: finish[your answer].", len(text))
    return _object(text, head.end(), name, ("",))


def _object(text: str, at: int, name: str, closers: tuple[str, ...]) -> Call | Broken:
    """The object of the arguments, and the closing token after it where there is one."""
    at = after_blanks(text, at)
    if at >= len(text):
        return truncated("The call after its token", at)
    if text[at] != "{":
        return malformed("the arguments after the token are not a JSON object", len(text))
    found, end = scan(text, at)
    if found.value is None:
        return unreadable(found, len(text))
    for closer in closers:
        if text.startswith(closer, end):
            end += len(closer)
            break
    return Call(name, found, end)
