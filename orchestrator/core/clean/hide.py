"""The configured secrets, in every spelling in which they travel: found in any text, and replaced.

A secret is looked for as it is, escaped as in JSON and in HTML, percent-encoded, in hex, and in base64 wherever it may begin in
what was encoded, also across the ends of lines (so `Basic` credentials and what `base64 FILE` prints hold it too). The spellings
are worked out once for a set of secrets. Most of them are one long run of base64's letters: those are looked for only in a text
that has so long a run. A text without any costs next to nothing.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any
from urllib.parse import unquote, unquote_plus

MASK = "[REDACTED]"
SHORTEST = 4
"""Characters of the shortest secret that is looked for: a shorter one would hit words."""

_RUN = 12
_LINE = 60  # characters of the shortest line in which base64 and hex are wrapped
_WHOLE_LINE = b"a" * _LINE
_WRAPPED = _WHOLE_LINE + b" "
_WRAP = re.compile(rf"(?<=[A-Za-z0-9+/=_-]{{{_LINE}}})(?:\r?\n|\\r\\n|\\n)(?=[A-Za-z0-9+/=_-])")
_ESCAPE = re.compile(
    r"\\{1,8}(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2}))|&#[xX]0{0,5}([0-9A-Fa-f]{1,5});?|&#0{0,5}([0-9]{1,6});?"
)


def _table(signs: str) -> bytes:
    return bytes(
        97 if chr(code).isascii() and (chr(code).isalnum() or chr(code) in signs) else 32 for code in range(256)
    )


LETTERS, _IN_RUN = _table("-_.+/=~"), _table("+/=_-")
"""For each byte `a` if it may stand in a token (in base64), else a blank: what a text is translated to in order to find long runs."""


@dataclass(frozen=True, slots=True)
class Net:
    """A set of secrets. `values` are looked for in any text, an `escaped` spelling where its sign is, `runs` (by length, the
    shortest first: spellings that are one run of base64's letters) where there is a run of that length; `all` is the longest first.
    `disguised` are regular expressions: each character as it is, percent-encoded or escaped.
    """

    values: tuple[str, ...]
    escaped: tuple[tuple[str, str], ...]
    runs: tuple[tuple[bytes, tuple[str, ...]], ...]
    all: tuple[str, ...]
    disguised: tuple[str, ...]

    def holds(self, text: str) -> bool:
        """Is one of them in the text, in any spelling?"""
        return self._plainly(text) or self._disguised(text)

    def hide(self, text: str, shape: bytes | None = None) -> str:
        """The text without them. `shape`: the text's LETTERS, where somebody has them."""
        if self._plainly(text, shape):
            text, shape = self._replaced(text), None
        if self._disguised(text, shape):
            for pattern in self.disguised:
                text = re.sub(pattern, MASK, text)
            for undone in _UNDONE:  # one in two layers of encoding: those of the rest of the text go with it
                plain = undone(text)
                text = self._replaced(plain) if plain is not text and self._plainly(plain) else text
        return text

    def _disguised(self, text: str, shape: bytes | None = None) -> bool:
        for undone in _UNDONE if shape is None or _WHOLE_LINE in shape else _UNDONE_IN_A_LINE:
            plain = undone(text)
            if plain is not text and self._plainly(plain):
                return True
        return False

    def _plainly(self, text: str, shape: bytes | None = None) -> bool:
        for value in self.values:
            if value in text:
                return True
        for sign, spelling in self.escaped:
            if sign in text and spelling in text:
                return True
        if not self.runs or len(text) < len(self.runs[0][0]):
            return False
        if shape is not None and self.runs[0][0] not in shape:
            return False
        shape = text.encode("utf-8", "replace").translate(_IN_RUN)
        for run, spellings in self.runs:
            if run not in shape:
                return False
            if any(spelling in text for spelling in spellings):
                return True
        return False

    def _replaced(self, text: str) -> str:
        for spelling in self.all:
            text = text.replace(spelling, MASK)
        return text


@lru_cache(maxsize=64)
def net(secrets: tuple[str, ...]) -> Net:
    """The Net of these secrets; those shorter than SHORTEST are left out."""
    kept = [secret for secret in dict.fromkeys(secrets) if len(secret) >= SHORTEST]
    escaped = {pair for secret in kept for pair in _escaped(secret)}
    encoded = {each for secret in kept for each in (secret, *_encoded(secret))}
    runs = sorted((each for each in encoded if _is_run(each)), key=lambda each: (len(each), each))
    every = {*encoded, *(spelling for _, spelling in escaped)}
    return Net(
        tuple(each for each in sorted(encoded) if not _is_run(each)),
        tuple(sorted(escaped)),
        tuple((b"a" * length, tuple(group)) for length, group in groupby(runs, len)),
        tuple(sorted(every, key=lambda each: (-len(each), each))),
        tuple(_disguised(each) for each in sorted(kept, key=len, reverse=True)),
    )


def hide(text: str, secrets: tuple[str, ...]) -> str:
    """`text` with every configured secret in it replaced by `[REDACTED]`, however it is spelled."""
    return net(secrets).hide(text) if secrets else text


def hidden(value: Any, secrets: tuple[str, ...]) -> Any:
    """A value of any depth without the secrets: the very same one if there are none in it, else rebuilt of dicts and lists."""
    within = net(secrets)
    return _hidden(value, within) if any(within.holds(text) for text in texts(value)) else value


def _hidden(value: Any, within: Net) -> Any:
    if isinstance(value, str):
        return within.hide(value)
    if isinstance(value, Mapping):
        return {_hidden(key, within): _hidden(each, within) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_hidden(each, within) for each in value]
    return value


def texts(value: Any) -> Iterator[str]:
    """Every string in a value of any depth, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from texts(key)
            yield from texts(each)
    elif isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        for each in value:
            yield from texts(each)


def _escaped(secret: str) -> Iterator[tuple[str, str]]:
    """The secret as JSON, HTML or `repr` write it, where that is another spelling, each with a sign that it holds."""
    once = {json.dumps(secret, ensure_ascii=ascii)[1:-1] for ascii in (True, False)}
    once |= {each.replace("/", "\\/") for each in once} | {repr(secret)[1:-1]}
    twice = {json.dumps(each, ensure_ascii=ascii)[1:-1] for each in once for ascii in (True, False)}
    for sign, spellings in (("\\", once | twice), ("&", {html.escape(secret)})):
        for spelling in spellings:
            if spelling != secret and sign in spelling:
                yield sign, spelling


def _encoded(secret: str) -> Iterator[str]:
    """The secret in hex and base64. Of base64: the letters that it alone decides, where it begins 0, 1 or 2 bytes into a group."""
    raw = secret.encode("utf-8", "surrogatepass")
    yield from (raw.hex(), raw.hex().upper())
    for shift in range(3):
        first, last = (8 * shift + 5) // 6, 8 * (shift + len(raw)) // 6
        letters = base64.b64encode(bytes(shift) + raw).decode()[first:last]
        yield from (letters, letters.replace("+", "-").replace("/", "_"))


def _is_run(spelling: str) -> bool:
    """Long enough that most texts have no such run, and nothing but base64's letters (UTF-8 keeps its length then)."""
    return len(spelling) >= _RUN and spelling.encode("utf-8", "replace").translate(_IN_RUN) == b"a" * len(spelling)


def _disguised(secret: str) -> str:
    pieces = []
    for char in secret:
        code = ord(char)
        encoded = "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        escaped = rf"|\\{{1,8}}(?i:u{code:04X}|x{code:02X})|&#(?i:x0{{0,5}}{code:X}|0{{0,5}}{code});?"
        pieces.append(f"(?:{re.escape(char)}|(?i:{encoded}){escaped}{'|[+]' if char == ' ' else ''})")
    return "".join(pieces)


def _unquoted(text: str) -> str:
    return unquote(text) if "%" in text else text


def _unquoted_form(text: str) -> str:
    return unquote_plus(text) if "%" in text and "+" in text else text


def _unescaped(text: str) -> str:
    escaped = "\\" in text and ("\\u00" in text or "\\x" in text)
    return _ESCAPE.sub(_meant, text) if escaped or ("&" in text and "&#" in text) else text


def _meant(found: re.Match[str]) -> str:
    digits = found[1] or found[2] or found[3]
    char = chr(int(digits, 16) if digits else int(found[4]))
    return found[0] if "\ud800" <= char <= "\udfff" else char


def _unwrapped(text: str) -> str:
    """Lines of base64 or hex put together."""
    return _WRAP.sub("", text) if _WRAPPED in text.encode("utf-8", "replace").translate(_IN_RUN) else text


_UNDONE_IN_A_LINE = (_unquoted, _unquoted_form, _unescaped)
_UNDONE = (*_UNDONE_IN_A_LINE, _unwrapped)
"""Each takes one disguise off, and gives the very same text where it wears none."""
