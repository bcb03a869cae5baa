"""Rewrites one JSON-like value as strict JSON, token by token, where every token has one reading (corpus ruling 8).

It repairs spelling, never structure: what it returns is judged by the strict reader. Linear, and it raises only `Refused`.
"""

from __future__ import annotations

import re
from typing import Final

MAX_DEPTH: Final = 64  # orjson refuses 255, PostgreSQL's jsonb some thousands; no tool's schema comes near

_BLANK = re.compile(r"[ \t\r\n\f\v\xa0\u3000\ufeff\u200b]+")
_WORD = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])", re.ASCII)
_RUN = {'"': re.compile(r'[^"\\\x00-\x1f]+'), "'": re.compile(r"[^'\"\\\x00-\x1f]+")}
_OPEN_END = re.compile(r"[-+.\w]*|/")
_HEX = re.compile(r"[0-9a-fA-F]+")
_CONSTANTS: Final = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}


class Refused(ValueError):
    """Not readable in one way only; the message is the problem, `truncated` if the text ended too early."""

    def __init__(self, problem: str, *, truncated: bool = False) -> None:
        super().__init__(problem)
        self.truncated = truncated


def strict(text: str, start: int) -> tuple[str, int]:
    """Rewrite the tokens from the opening brace to its partner as strict JSON; (that, index after it)."""
    out: list[str] = []
    closers: list[str] = []
    at = start
    while True:
        at = after_blanks(text, at)
        if at >= len(text):
            raise Refused("the JSON object of the arguments is still open at the end of the reply", truncated=True)
        piece, at = token(text, at)
        if piece in ("{", "["):
            closers.append("}" if piece == "{" else "]")
            if len(closers) > MAX_DEPTH:
                raise Refused(f"the JSON is nested deeper than {MAX_DEPTH} levels")
        elif piece in ("}", "]"):
            if closers.pop() != piece:
                raise Refused("the brackets of the JSON arguments do not match")
            if out[-1] == "," and len(out) > 1 and out[-2] not in (",", "{", "[", ":"):
                out.pop()
        out.append(piece)
        if not closers:
            return "".join(out), at


def after_blanks(text: str, at: int) -> int:
    """The index after blanks and comments."""
    while at < len(text):
        blank = _BLANK.match(text, at)
        if blank:
            at = blank.end()
        elif text.startswith("//", at):
            line = text.find("\n", at)
            at = len(text) if line < 0 else line
        elif text.startswith("/*", at):
            close = text.find("*/", at + 2)
            at = len(text) if close < 0 else close + 2
        else:
            return at
    return at


def token(text: str, at: int) -> tuple[str, int]:
    """One token as strict JSON, and the index after it."""
    char = text[at]
    if char in "{}[],:":
        return char, at + 1
    if char in "\"'":
        return _string(text, at)
    word = _WORD.match(text, at)
    if word:
        if word[0] not in _CONSTANTS:
            raise Refused(
                f"the word {word[0][:40]} stands in the JSON arguments without quotes",
                truncated=word.end() == len(text),
            )
        return _CONSTANTS[word[0]], word.end()
    number = _NUMBER.match(text, at)
    if number:
        return number[0], number.end()
    open_end = _OPEN_END.fullmatch(text, at) is not None
    raise Refused(f"the JSON arguments hold the unexpected character {char!r}", truncated=open_end)


def _string(text: str, start: int) -> tuple[str, int]:
    """A string in either quote as a strict JSON string."""
    quote = text[start]
    out = ['"']
    at = start + 1
    while at < len(text):
        run = _RUN[quote].match(text, at)
        if run:
            out.append(run[0])
            at = run.end()
            continue
        char = text[at]
        if char == quote:
            return "".join([*out, '"']), at + 1
        if char == "\\":
            escape, at = _escape(text, at, quote)
            out.append(escape)
        else:
            out.append('\\"' if char == '"' else f"\\u{ord(char):04x}")
            at += 1
    raise Refused("a string in the JSON arguments is still open at the end of the reply", truncated=True)


def _escape(text: str, at: int, quote: str) -> tuple[str, int]:
    """A backslash sequence that means the same in JSON and in Python, or one that only Python has."""
    code = text[at + 1 : at + 2]
    if (code and code in '"\\bfnrt') or (code == "/" and quote == '"'):
        return text[at : at + 2], at + 2
    if code == "'":
        return "'", at + 2
    digits = {"u": 4, "x": 2}.get(code, 0)
    hexes = _HEX.fullmatch(text, at + 2, at + 2 + digits) if digits else None
    if hexes and len(hexes[0]) == digits:
        return f"\\u{hexes[0]:0>4}", at + 2 + digits
    raise Refused(
        f"the escape \\{code} in a string of the JSON arguments is not valid JSON",
        truncated=at + 2 + digits > len(text),
    )
