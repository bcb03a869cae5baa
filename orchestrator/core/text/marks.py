"""Finds the marks in a reply, line by line: labels, tags and tokens. It knows where a mark counts, not what it means.

A label counts only at the start of a line (after blanks, Markdown marks and a number), in either case, with `:` or `：`, seen
through invisible characters. Inside a code fence, a quoted line, inline code or quotation marks a label or tag is text
(corpus ruling 1). One pass, linear; state depends on what came before only, so a longer text has the same first marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from orchestrator.core.text.words import ASIDE, GREATER, LABELS, PLAN, REASONING, TAGS, Kind

BLANKS: Final = " \t\r\n\f\v\x85\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
INVISIBLE: Final = "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufffd"

_HEAD = 160  # no label with its decoration is longer
_BREAKS = str.maketrans(dict.fromkeys("\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", "\n"))
_BREAK = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_LINE = re.compile(r"[^\n]{2,}")
_HIDDEN = re.compile(rf"\x1b\[[0-9;]*m|[{INVISIBLE}]")
WIDE: Final = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}


def _spelled(label: str) -> str:
    return "[ \t_-]?".join(re.escape(word) for word in label.split(" "))


_KIND_OF: Final = {re.sub(r"[ _-]", "", label).casefold(): kind for kind, labels in LABELS.items() for label in labels}
_WORDS = "|".join(_spelled(label) for label in sorted((x for xs in LABELS.values() for x in xs), key=len, reverse=True))
_B = r"[ \t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]"
_LABEL = re.compile(
    rf"(?P<marks>(?:{_B}|[*_#~+•·-])*+(?:[(]?\d{{1,3}}[.):、](?:{_B}|[*_])*+)?)(?P<open>[【\[]?)(?P<word>{_WORDS})"
    rf"{_B}*+(?:[#(]?\d{{1,4}}[)]?)?{_B}*+(?P<aside>[(][^()]{{1,30}}[)])?{_B}*+(?P<shut>[】\]]?)(?P<bold>[*_]*+){_B}*+(?P<colon>[:：]?)(?P<tail>[*_]*+)",
    re.IGNORECASE,
)
_TAG_KIND: Final = {tag.casefold(): kind for kind, tags in TAGS.items() for tag in tags}
_NAMESPACE: Final = "antml:"
_TAG_FIRST = re.compile(r"[<\[✿&]")
_TAG = re.compile(
    r"(?=[<\[✿&])(?:"
    + "|".join(
        f"<(?:{_NAMESPACE})?{re.escape(tag[1:])}"
        if tag[0] == "<" and tag[1].isascii() and tag[1].isalpha()
        else re.escape(tag)
        for tag in sorted(_TAG_KIND, key=len, reverse=True)
    )
    + rf"|(?P<unsaid><!--|<\s?{PLAN}(?:\s[^<>/\n]{{0,80}})?>"
    + rf"|&(?:lt|#60|#x3c);\s?(?:antml:)?(?:{REASONING}|{ASIDE}|{PLAN})(?:\s[^<>/&\n]{{0,80}})?{GREATER}))",
    re.IGNORECASE,
)
_INLINE = {
    kind: re.compile(
        rf"(?<![\w])(?:{'|'.join(_spelled(x) for x in sorted(LABELS[kind], key=len, reverse=True))}){_B}*+\d*+{_B}*+[:：]",
        re.IGNORECASE,
    )
    for kind in (Kind.OBSERVATION, Kind.INPUT)
}
_FENCE = re.compile(rf"{_B}*+(`{{3,}}+|~{{3,}}+)([^`\n]*+)\Z")


@dataclass(frozen=True, slots=True)
class Mark:
    """`text[start:end]` announces `kind`. `label`: at a line's start, else a tag or token. `bold`: the line began with `**`.

    `bare`: the label alone on its line, without a colon; only after an Action does that mean anything. `coloned`: its colon makes
    it a label, so the rest of the line cannot change that. UNSAID with `label` is a label or a call's tag that is struck out;
    without, it is a tag that opens what is not said, and is bare.
    """

    kind: Kind
    start: int
    end: int
    word: str
    label: bool = True
    bold: bool = False
    bare: bool = False
    coloned: bool = False


def marks(text: str, start: int = 0, *, regions: bool = False) -> Iterator[Mark]:
    """The marks from `start` on, in order. A line in which `start` lies inside has no label of its own.

    `regions`: the tags that open what is not said are marks too.
    """
    lines = text.translate(_BREAKS) if _BREAK.search(text) else text
    fence = ""
    struck = False
    for found in _LINE.finditer(lines, start):
        at, line = found.start(), found[0]
        opening = _FENCE.match(line) if "`" in line or "~" in line else None
        whole = at == 0 or lines[at - 1] == "\n"
        if fence:
            if opening and opening[1].startswith(fence) and not opening[2].strip():
                fence = ""
        elif opening and (whole or at == start):
            fence = opening[1]
        elif not line.lstrip().startswith((">", "＞")):
            carried = struck and not (at > 1 and lines[at - 2] == "\n")
            struck = (carried or "~" in line) and _strikes(line, carried=carried)
            label = _label(line, at) if whole else None
            if label:
                yield replace(label, kind=Kind.UNSAID) if carried else label
                opened = _FENCE.match(line, label.end - at)
                fence = opened[1] if opened else ""
            if not fence:
                for tag in _tags(line, at, label.end if label else 0, carried=carried, struck=struck):
                    if regions or tag.label or tag.kind is not Kind.UNSAID:
                        yield tag


def _strikes(line: str, *, carried: bool) -> bool:
    """Whether a strike is open at the line's end: one from an earlier line, or one that this line begins with."""
    begins = carried or line.lstrip(" \t*_-+>").startswith("~~")
    return begins and (line.count("~~") + carried) % 2 == 1


def inline(kind: Kind, text: str, start: int, stop: int) -> tuple[int, int] | None:
    """Where a label of `kind` stands in the middle of a line, for the rest of a line after a call."""
    found = _INLINE[kind].search(text, start, stop)
    return found.span() if found else None


def labelled(line: str) -> Mark | None:
    """The label that begins this one line."""
    return _label(line.translate(_BREAKS), 0)


def _label(line: str, at: int) -> Mark | None:
    """The label that begins the line, if its colon (or its being a heading) makes it one."""
    head = line[:_HEAD]
    hidden = _HIDDEN.search(head) is not None
    seen = (_HIDDEN.sub("", head) if hidden else head).translate(WIDE)
    found = _LABEL.match(seen)
    if not found:
        return None
    alone = not seen[found.end() :].strip() and len(line) <= _HEAD
    heading = "#" in found["marks"] or ("*" in found["marks"] and bool(found["bold"]))
    framed = found["open"] == "【" and found["shut"] == "】"
    if bool(found["open"]) != bool(found["shut"]) and found["open"]:
        return None
    bare = not (found["colon"] or framed or (heading and alone))
    if bare and not (alone and not found["open"]):
        return None
    end = at + (_unhidden(head, found.end()) if hidden else found.end())
    kind = _KIND_OF[re.sub(r"[ \t_-]", "", found["word"]).casefold()]
    if found["aside"] and kind is not Kind.OBSERVATION:
        return None
    bold = "**" in found["marks"] and not found["bold"] and not found["tail"]
    if "~~" in found["marks"]:
        kind = Kind.UNSAID
    return Mark(kind, at, end, found["word"], bold=bold, bare=bare, coloned=bool(found["colon"]))


def _unhidden(head: str, seen: int) -> int:
    """The index in `head` after its first `seen` visible characters."""
    at = shown = 0
    while shown < seen:
        gone = _HIDDEN.match(head, at)
        if gone:
            at = gone.end()
        else:
            at += 1
            shown += 1
    return at


def _tags(line: str, offset: int, after: int, *, carried: bool, struck: bool) -> Iterator[Mark]:
    """The tags of a line from `after` on that stand neither in inline code nor between quotation marks, and are not struck out.

    `carried`: a strike is open at the line's beginning; `struck`: at its end.
    """
    if not _TAG_FIRST.search(line):
        return
    last = {mark: line.rfind(mark) for mark in ('"', "`", "”", "~~")}
    strikes = int(carried)
    seen = ticks = quotes = curly = 0
    for tag in _TAG.finditer(line):
        at = tag.start()
        ticks += line.count("`", seen, at)
        quotes += line.count('"', seen, at)
        curly += line.count("“", seen, at) - line.count("”", seen, at)
        if last["~~"] >= 0:
            strikes += line.count("~~", seen, at)
        seen = at
        coded = ticks % 2 == 1 and last["`"] > at
        quoted = (quotes % 2 == 1 and last['"'] > at) or (curly > 0 and last["”"] > at)
        crossed = strikes % 2 == 1 and (struck or last["~~"] > at)
        if coded or quoted or offset + at < after:
            continue
        word = tag[0].casefold()
        kind = Kind.UNSAID if tag["unsaid"] else _TAG_KIND[word := word.replace(_NAMESPACE, "")]
        if not crossed:
            yield Mark(kind, offset + at, offset + tag.end(), word, label=False, bare=kind is Kind.UNSAID)
        elif kind in (Kind.CALL, Kind.OBSERVATION):
            yield Mark(Kind.UNSAID, offset + at, offset + tag.end(), word)
