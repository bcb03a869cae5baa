"""The configured secrets, in every spelling in which they travel: found in any text, and replaced.

A secret is looked for as it is, escaped as in JSON and in HTML, percent-encoded, in hex, and in base64 wherever it may begin in
what was encoded (so `Basic` credentials hold it too). The spellings are worked out once for a set of secrets. Most of them are
one long run of base64's letters: those are looked for only in a text that has so long a run. A text without any costs next to
nothing.
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


def _table(signs: str) -> bytes:
    return bytes(
        97 if chr(code).isascii() and (chr(code).isalnum() or chr(code) in signs) else 32 for code in range(256)
    )


_IN_TOKEN, _IN_RUN = _table("-_.+/=~"), _table("+/=_-")


def letters(text: str) -> bytes:
    """A byte for each of the text's: `a` for what may stand in a token, else a blank. In it runs are found quickly."""
    return text.encode("utf-8", "replace").translate(_IN_TOKEN)


@dataclass(frozen=True, slots=True)
class Net:
    """A set of secrets. `values` are looked for in any text, an `escaped` spelling where its sign is, `runs` (by length, the
    shortest first: spellings that are one run of base64's letters) where there is a run of that length; `all` is the longest first.
    `percent` are regular expressions: each character as it is or percent-encoded.
    """

    values: tuple[str, ...]
    escaped: tuple[tuple[str, str], ...]
    runs: tuple[tuple[bytes, tuple[str, ...]], ...]
    all: tuple[str, ...]
    percent: tuple[str, ...]

    def holds(self, text: str) -> bool:
        """Is one of them in the text, in any spelling?"""
        return self._plainly(text) or ("%" in text and any(map(self._plainly, _unquoted(text))))

    def hide(self, text: str, shape: bytes | None = None) -> str:
        """The text without them. `shape`: the text's `letters`, where somebody has them."""
        if self._plainly(text, shape):
            text = self._replaced(text)
        if "%" in text and any(map(self._plainly, _unquoted(text))):
            for pattern in self.percent:
                text = re.sub(pattern, MASK, text)
            for plain in _unquoted(text):  # one in two layers of encoding: those of the rest of the text go with it
                text = self._replaced(plain) if self._plainly(plain) else text
        return text

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
        tuple(_percent(each) for each in sorted(kept, key=len, reverse=True)),
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


def _percent(secret: str) -> str:
    pieces = []
    for char in secret:
        encoded = "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        pieces.append(f"(?:{re.escape(char)}|(?i:{encoded}){'|[+]' if char == ' ' else ''})")
    return "".join(pieces)


def _unquoted(text: str) -> tuple[str, ...]:
    """The text without its percent signs; also with blanks for plus signs, where it has such."""
    return (unquote(text), unquote_plus(text)) if "+" in text else (unquote(text),)
