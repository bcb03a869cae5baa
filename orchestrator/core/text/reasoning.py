"""Parts the reasoning that a model writes into its visible text from the turn itself (corpus ruling 6).

Reasoning is never executed and never the answer. A closing tag without an opening one makes all before it reasoning: templates
that prefill `<think>` return only the end.
"""

from __future__ import annotations

import re
from bisect import bisect
from typing import NamedTuple

from orchestrator.core.text.marks import INVISIBLE, WIDE, labelled
from orchestrator.core.text.words import ASIDE, REASONING, Kind

_TAG = re.compile(
    rf"<(?P<close>/?)\s?(?:antml:)?(?:{REASONING}|(?P<aside>{ASIDE}))(?:\s[^<>/\n]{{0,80}})?>"
    r"|(?P<bracket>\[/?THINK\])|(?P<moon>◁/?think▷)"
    r"|<\|(?P<edge>/?|start_|end_|begin_of_|end_of_)(?:think|thinking|thought|reasoning)\|>"
    r"|(?P<spoken><\|(?:START_(?:RESPONSE|TEXT)|begin_of_solution)\|>)"
    r"|<\|channel\|?>(?P<channel>analysis|final|thought|commentary)(?=[\s<])[^\S\n]*(?:<\|message\|>)?\n?|(?P<shut><\|end\|>|<channel\|>)",
    re.IGNORECASE,
)
_MAYBE = (
    "think", "thought_process", "reasoning", "thought|>", "<|channel", "<|start_", "<|begin_of_", "scratchpad", "reflection",
    "inner_", "internal_", "<思考", "/思考", "<推理", "/推理",
)  # fmt: skip
_VEILED = re.compile(r"[<＜][^<>＜＞\n]{1,60}[>＞]")
_HIDDEN = re.compile(f"[{INVISIBLE}]")
_COMMENT = re.compile(r"<!--(?:(?!<!--).)*?-->", re.DOTALL)
_START = re.compile(r"<\|start\|>assistant", re.IGNORECASE)


class Parted(NamedTuple):
    """`visible` is what counts, `reasoning` what does not; `open`: reasoning had not ended at the end of the text.

    `final`: the text came in a channel that says it is the answer. `doubtful`: what ended reasoning without a beginning may yet
    turn out to stand inside a comment.
    """

    visible: str
    reasoning: str
    open: bool = False
    final: bool = False
    doubtful: bool = False


def part(text: str) -> Parted:
    """Split the reply. A tag inside quotation marks or inline code on its line is text, and so is one in an Action's own line.

    An end without a beginning inside a comment ends nothing. An aside (`<reflection>` and the like) may stand inside reasoning, and neither ends the other.
    """
    tagged = "<" in text or "＜" in text or "◁" in text
    if not tagged and ("[" not in text or "think]" not in text.casefold()):
        return Parted(text, "")
    if tagged and not text.isascii():
        text = _VEILED.sub(_unveiled, text)
    low = text.casefold()
    for word in _MAYBE:
        if word in low:
            break
    else:
        return Parted(text, "")
    visible: list[str] = []
    reasoning: list[str] = []
    inside = aside = final = doubtful = False
    line = _Line(text)
    comments = [found.span() for found in _COMMENT.finditer(text)] if "<!--" in text else []
    at = 0
    for tag in _TAG.finditer(text):
        if _channel_call(tag) or (not inside and line.quotes(tag.start(), tag.end(), at)):
            continue
        opens = _opens(tag)
        if opens is None or (inside and aside != bool(tag["aside"])):
            continue
        piece = text[at : tag.start()]
        if inside:
            reasoning.append(piece)
        elif opens or tag["channel"] or tag["spoken"]:
            visible.append(piece)
        elif not tag["shut"] and not _commented(tag.start(), comments):
            doubtful = doubtful or any("<!--" in each for each in (*visible, piece))
            reasoning.extend([*visible, piece])
            visible.clear()
        else:
            continue
        inside, aside = opens, bool(tag["aside"])
        final = final or bool(tag["spoken"]) or (tag["channel"] or "").casefold() == "final"
        at = tag.end()
    (reasoning if inside else visible).append(text[at:])
    shown = "".join(visible)
    if "<|start|>" in shown:
        shown = _START.sub("", shown)
    return Parted(shown, "\n".join(p.strip() for p in reasoning if p.strip()), inside, final and not inside, doubtful)


def _unveiled(tag: re.Match[str]) -> str:
    """The tag in plain characters, if it is one of reasoning behind invisible or full-width ones."""
    plain = _HIDDEN.sub("", tag[0]).translate(WIDE)
    return plain if _TAG.fullmatch(plain) else tag[0]


def _commented(at: int, comments: list[tuple[int, int]]) -> bool:
    """Whether `at` lies inside one of the comments."""
    before = bisect(comments, (at,))
    return before > 0 and comments[before - 1][1] > at


def _channel_call(tag: re.Match[str]) -> bool:
    """A commentary channel that is addressed to a tool is a call, not reasoning."""
    return (tag["channel"] or "").casefold() == "commentary" and tag.string.startswith(
        " to=", tag.start("channel") + 10
    )


def _opens(tag: re.Match[str]) -> bool | None:
    """Whether reasoning begins (True) or ends (False) here; None if the tag says neither."""
    if tag["channel"]:
        return tag["channel"].casefold() != "final"
    if tag["shut"] or tag["spoken"]:
        return False
    if tag["edge"] is not None:
        return tag["edge"].casefold() in ("", "start_", "begin_of_")
    if tag["bracket"] or tag["moon"]:
        return "/" not in tag[0]
    return not tag["close"]


class _Line:
    """Where the quotes of the current line stand; each line is looked at once, however many tags it holds."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._start = self._stop = self._seen = -1
        self._odd = {'"': False, "`": False}
        self._ends: dict[str, int] = {}
        self._acts = False

    def quotes(self, start: int, end: int, since: int) -> bool:
        """Whether the tag at `start` is quoted on its line, or stands in the value of an Action, its input or a Final.

        What came before `since`, the end of the last tag that counted, does not matter.
        """
        if start >= self._stop:
            self._turn_to(start)
        if since > self._start:
            self._start = self._seen = since
            self._odd = dict.fromkeys(self._odd, False)
            self._acts = False
        for quote in self._odd:
            self._odd[quote] ^= self._text.count(quote, self._seen, start) % 2 == 1
        self._seen = start
        return self._acts or any(odd and self._ends[quote] >= end for quote, odd in self._odd.items())

    def _turn_to(self, at: int) -> None:
        text = self._text
        self._start = self._seen = text.rfind("\n", 0, at) + 1
        stop = text.find("\n", at)
        self._stop = len(text) if stop < 0 else stop
        self._odd = dict.fromkeys(self._odd, False)
        self._ends = {quote: text.rfind(quote, self._start, self._stop) for quote in self._odd}
        label = labelled(text[self._start : min(self._stop, self._start + 200)])
        acts = label is not None and label.kind in (Kind.ACTION, Kind.INPUT, Kind.FINAL)
        self._acts = acts and text[self._start + (label.end if label else 0) : at].strip() != ""
