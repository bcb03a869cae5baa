"""A page to the text a person would see. One pass of one pattern that never runs back: broken and hostile markup costs linear time and no recursion."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from http import HTTPStatus

_ATTRIBUTES = r"((?:[^<>\"']++|\"[^\"]{0,4000}+\"|'[^']{0,4000}+'|[\"'])*+)"
_TAG = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(script|style|template|svg|math|iframe|object|canvas|noframes)\b" + _ATTRIBUTES + r"(?<!/)>.*?(?:</\1\s*>|\Z)"
    r"|<(/?[a-z][a-z0-9:-]*+)" + _ATTRIBUTES + r">?"
    r"|<[!?][^>]{0,4000}>?",
    re.IGNORECASE | re.DOTALL,
)
_LINES = frozenset(
    re.findall(
        r"\w+",
        "address article aside blockquote body br dd details div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 head header"
        " hr html legend li main nav ol option p pre section select summary table tbody tfoot thead title tr ul",
    )
)
_CELLS = frozenset(("td", "th"))
_VERBATIM = frozenset(("pre", "textarea"))
_HOLDERS = _VERBATIM | {"title", "noscript"}
_ALT = re.compile(r"\balt\s*=\s*(?:\"([^\"<>]{1,200})\"|'([^'<>]{1,200})')", re.IGNORECASE)
_OPENING = re.compile(
    r"(?:<!--.{0,2000}?-->\s*|<\?xml[^>]{0,200}>\s*)?<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL
)
_FRAGMENT = re.compile(
    r"<(?:head|body|div|p|table|ul|ol|h[1-6]|center|section|article|main|header|nav|script|style|meta|title|span|form|iframe|br|b|strong)\b[^<>]{0,500}>",
    re.IGNORECASE,
)
_GAPS = re.compile(r"\n{3,}")
_BLANKS = re.compile(r"[ \t\r\n\f]+")
_STATUS = re.compile(r"\s*+(?:HTTP\s*+)?(?:Error\s*+)?(?:HTTP\s*+)?([45]\d\d)\b[\s:|–—-]*+(.{0,60})", re.IGNORECASE)
_WAITING = re.compile(
    r"loading|javascript|please wait|just a moment|one moment|redirecting|checking your browser|加载中|载入中|正在加载|请稍候|请启用|読み込み中",
    re.IGNORECASE,
)
_FED = 1_500_000


@dataclass(frozen=True, slots=True)
class Page:
    """What is to be read on a page. `scripted`: it has scripts and no text, or only words that ask to wait. `error`: the HTTP status its title admits.

    `unread` characters at the end were not looked at.
    """

    text: str
    scripted: bool = False
    error: int | None = None
    unread: int = 0


def is_html(text: str, content_type: str = "") -> bool:
    """Declared so, or begins as a page, or is a fragment from its first character to its last."""
    if "html" in content_type.lower():
        return "<" in text
    start = len(text) - len(text.lstrip()) if text[:1].isspace() else 0
    if text[start : start + 1] != "<":
        return False
    if _OPENING.match(text, start):
        return True
    closed = text[-200:].rstrip()[-1:] == ">" and ("</" in text or "/>" in text or "<br" in text)
    return closed and _FRAGMENT.match(text, start) is not None


def read_page(html: str, enough: int = 200_000) -> Page:
    """The visible text of `html`; stops when `enough` characters are collected."""
    reading = _Reading(html[:_FED], enough)
    reading.run()
    text = _tidy("".join(reading.out))
    title = _tidy(unescape(reading.title)).strip()
    status = _status(title)
    words = len(re.sub(r"\W+", "", text)) - len(re.sub(r"\W+", "", title + reading.noscript))
    shown = f"Title: {title}\n{text}" if title else text
    return Page(
        shown,
        reading.scripts > 0 and (words <= 0 or (words < 60 and _WAITING.search(text) is not None)),
        status,
        len(html) - reading.at,
    )


def _status(title: str) -> int | None:
    found = _STATUS.match(title)
    if found is None:
        return None
    try:
        phrase = HTTPStatus(int(found[1])).phrase.lower()
    except ValueError:
        return None
    said = found[2].lower().strip()
    known = not said or said.startswith(phrase) or "error" in said or "not found" in said or "unavailable" in said
    return int(found[1]) if known else None


class _Reading:
    """One pass over a page: where we are, what was said, and to whom the next words belong."""

    def __init__(self, html: str, enough: int) -> None:
        self.html, self.enough, self.at = html, enough, 0
        self.out: list[str] = []
        self.size = self.scripts = 0
        self.title = self.noscript = ""
        self.inside = ""

    def run(self) -> None:
        html = self.html
        for tag in _TAG.finditer(html):
            start = tag.start()
            if start > self.at:
                self._say(html[self.at : start])
            self.at = tag.end()
            name = tag[3]
            if name is not None:
                self._lay_out(name.lower(), tag[4])
            elif tag[1] is not None:
                self.scripts += tag[1].lower() == "script"
            if self.size > self.enough:
                return
        self._say(html[self.at :])
        self.at = len(html)

    def _say(self, text: str) -> None:
        if "&" in text:
            text = unescape(text)
        if self.inside not in _VERBATIM:
            text = _BLANKS.sub(" ", text)
        if self.inside == "title":
            self.title = (self.title + text)[:300]
            return
        if self.inside == "noscript":
            self.noscript += text
        self.out.append(text)
        self.size += len(text)

    def _lay_out(self, name: str, attributes: str) -> None:
        if name[0] == "/":
            name, closing = name[1:], True
        else:
            closing = False
        if name in _HOLDERS:
            self.inside = "" if closing else name
        elif self.inside == "title":
            self.inside = ""
        if name in _LINES:
            self.out.append("\n- " if name == "li" and not closing else "\n")
        elif name in _CELLS and not closing:
            self.out.append(" | ")
        elif name == "img" and (alt := _ALT.search(attributes)):
            self._say(f"[image: {alt[1] or alt[2]}]")


def _tidy(text: str) -> str:
    lines = [line.strip(" ").removeprefix("| ") for line in text.split("\n")]
    return _GAPS.sub("\n\n", "\n".join(lines)).strip()
