"""What stands in a reply without being said: comments, plans, reasoning between escaped tags, and struck-out labels.

It is passed over where the reader looks for the call; inside a call's argument it is data. A region without an end hides what
may follow, so the reader refuses it before a call and is not certain of anything after one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from orchestrator.core.text.marks import Mark, marks
from orchestrator.core.text.words import GREATER, LESS, Kind

_NAME = re.compile(rf"{LESS}\s?([^\s<>&]+)", re.IGNORECASE)

_SHUT = re.compile(rf"{LESS}/\s?([^\s<>&]{{1,40}})\s?{GREATER}", re.IGNORECASE)


def region(mark: Mark) -> bool:
    """Whether the mark is a tag that opens a region, not a struck-out label."""
    return mark.kind is Kind.UNSAID and not mark.label


def spoken(text: str, start: int = 0) -> Iterator[Mark]:
    """The marks that count. A region is one mark from its opening to behind its end; `bare`: it has no end, and hides nothing."""
    return _passing(text, start) if "<" in text or "&" in text else marks(text, start)


def _passing(text: str, start: int) -> Iterator[Mark]:
    """The marks outside of regions, and the regions, for a text that may hold some."""
    at = start
    unclosed: set[str] = set()
    for mark in marks(text, start, regions=True):
        if mark.start < at:
            continue
        if not region(mark):
            yield mark
            continue
        named = _NAME.match(mark.word)
        name = named[1] if named else ""
        end = -1 if name in unclosed else _end(text, mark, name)
        if end < 0:
            unclosed.add(name)
            yield mark
        else:
            at = end
            yield replace(mark, end=end, bare=False)


def follows(text: str, at: int) -> Mark | None:
    """The first mark that is said from `at` on, or the region that stays open before it."""
    return next((mark for mark in spoken(text, at) if mark.bare == region(mark)), None)


def before_region(text: str, at: int, stop: int) -> int:
    """Where plain text from `at` to the label at `stop` ends: before the line on which a region opens that holds that label."""
    if stop >= len(text) or not ("<" in text[at:stop] or "&" in text[at:stop]):
        return stop
    for mark in spoken(text[:stop], at):
        if region(mark) and mark.bare and text[text.rfind("\n", at, mark.start) + 1 : mark.start].strip() == "":
            return mark.start
    return stop


def without(text: str) -> str:
    """The text without its regions."""
    pieces: list[str] = []
    at = 0
    for mark in spoken(text):
        if region(mark) and not mark.bare:
            pieces.append(text[at : mark.start])
            at = mark.end
    return "".join([*pieces, text[at:]])


def inside(text: str, mark: Mark) -> str:
    """What a closed region holds, without its own tags."""
    body = text[mark.start + len(mark.word) : mark.end]
    return body.removesuffix("-->") if mark.word == "<!--" else body[: max(body.rfind("<"), body.rfind("&", 0, -4))]


def _end(text: str, mark: Mark, name: str) -> int:
    """The index behind the region's end, or -1."""
    if mark.word == "<!--":
        shut = text.find("-->", mark.start + 2)
        return shut + 3 if shut >= 0 else -1
    ends = (found.end() for found in _SHUT.finditer(text, mark.end) if found[1].casefold() == name)
    return next(ends, -1)
