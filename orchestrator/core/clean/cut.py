"""A text that is too long keeps its head and its tail, and says how much is gone."""

from __future__ import annotations

import re
import unicodedata

MARK = re.compile(r"\[… [\d,]+ characters left out …\]")
_LEAST = 64


def cut(text: str, limit: int) -> str:
    """`text` in at most `limit` characters (64 or more), the mark included."""
    if len(text) <= limit:
        return text
    middle = len(text) * 2 // 3
    return join(text[:middle], text[middle:], limit)


def join(head: str, tail: str, limit: int, gone: int = 0) -> str:
    """The two ends of a text in at most `limit` characters; `gone` characters between them are left out already.

    The tail follows on the line of the mark, so that the cut never makes a line begin where none began.
    """
    room = max(max(limit, _LEAST) - len(_mark(len(head) + len(tail) + gone)), 0)
    first = min(len(head), room * 2 // 3)
    last = min(len(tail), room - first)
    start = _whole(head, min(len(head), room - last))
    end = len(tail) - last
    while end < len(tail) and _joins(tail[end]):
        end += 1
    return f"{head[:start]}{_mark(len(head) - start + end + gone)}{tail[end:]}"


def _mark(gone: int) -> str:
    return f"\n[… {gone:,} characters left out …] "


def _whole(text: str, at: int) -> int:
    """The last place not behind `at` that does not split a sequence of joined characters."""
    if at >= len(text):
        return len(text)
    for place in range(at, max(at - 16, 0), -1):
        if not _joins(text[place]) and text[place - 1] != "\u200d":
            return place
    return at


def _joins(char: str) -> bool:
    return char == "\u200d" or "\U0001f3fb" <= char <= "\U0001f3ff" or unicodedata.category(char) in ("Mn", "Me", "Mc")
