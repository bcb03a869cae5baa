"""One author's words, and whether a value stands in them. The reading is strict: what stands here counts as asked for, so a piece of
another word, another host in the same address, or a name with something hidden in it is not it.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache

from orchestrator.core.form import fills, forms
from orchestrator.core.identifier import (
    BLANKS,
    account,
    canonical,
    host_of,
    identifiers,
    kinds_of,
    plain,
    without_accounts,
)
from orchestrator.core.named import called
from orchestrator.core.spec import Sensitive

_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.,:/=&-])[-+]?\d(?:[\d,]{0,38}\d)?(?:\.\d{1,39})?(?![A-Za-z0-9_]|[.,:/-][A-Za-z0-9_])"
)
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_WORDLIKE = re.compile(rf"[^\W{_CJK}]")
_UNSPACED = re.compile(rf"[{_CJK}]")
_JOINTS = frozenset("@/\\+%~=&#")
_SOFT = frozenset(".:-,'’?$")
_SIGILS = frozenset("#@")
_FIGURE = re.compile(r"[-+]?(?:[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]+)?")
_LONGEST_NUMBER = 40
_NAMED = re.compile(r"([^\W\d_]?[^<>@\d\r\n:/\\]{0,60})<([^<>\s]{1,320})>")
_ACCOUNT_DIGITS = 7


@lru_cache(maxsize=64)
def words(text: str) -> Words:
    """The Words of a text. Remembered: every Action of a run is held against the same request."""
    return Words(text)


class Words:
    """One author's words, and what they point at."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _loose_words(self) -> str:
        """The text without its account numbers: a group of their digits is no number of its own."""
        return without_accounts(self._text)

    @cached_property
    def _plain(self) -> str:
        return plain(self._loose_words)

    @cached_property
    def _pointed(self) -> frozenset[tuple[Sensitive, str]]:
        """What is pointed at, and the host of each URL."""
        found = set(identifiers(self._text))
        return frozenset(found | {("url", host_of(form)) for kind, form in found if kind == "url"})

    @cached_property
    def _numbers(self) -> frozenset[float | None]:
        return frozenset(map(_number, _NUMBER.findall(self._loose_words)))

    @cached_property
    def _forms(self) -> tuple[tuple[str, ...], ...]:
        return tuple(forms(self._text))

    def hold(self, value: str) -> bool:
        """Does this very value stand here, as a word or words of its own and not as a piece of another?"""
        value = value.strip(BLANKS)
        if not value:
            return False
        kinds = list(kinds_of(value))
        if kinds:
            return any((kind, canonical(kind, value)) in self._pointed for kind in kinds)
        if named := _NAMED.fullmatch(value):
            return self.hold(named[2]) and all(word in plain(named[2]) or self.hold(word) for word in _names(named[1]))
        number = _number(value)
        if number is not None and len(account(value)) < _ACCOUNT_DIGITS:
            return number in self._numbers
        return self._stands(plain(value)) or self._lists(value) or ("account", account(value)) in self._pointed

    def calls(self, number: str | float, argument: str) -> bool:
        """Is the number called by what the argument takes?"""
        return called(number, argument, self._text)

    def form(self, value: str) -> bool:
        """Does the value fill a form that stands here?"""
        return any(fills(form, value) for form in self._forms)

    def _lists(self, value: str) -> bool:
        """A list of addresses or accounts in one text, each of which stands here."""
        words = _listed(value)
        return bool(words) and all(map(self.hold, words))

    def _stands(self, needle: str) -> bool:
        at = self._plain.find(needle)
        while at >= 0:
            if _free(self._plain, at, at + len(needle)):
                return True
            at = self._plain.find(needle, at + len(needle))
        return False


@lru_cache(maxsize=1024)
def essence(value: str) -> tuple[str, ...]:
    """What a value says, however it is spelled: whatever `hold` takes for the same is one here; of a list each on its own."""
    value = value.strip(BLANKS)
    if named := _NAMED.fullmatch(value):
        value = named[2]
    number = _number(value)
    if listed := _listed(value):
        return tuple(said for word in listed for said in essence(word))
    kind = next(kinds_of(value), None)
    if kind is not None and kind != "path":
        return (canonical(kind, value),)
    if number is not None and len(account(value)) < _ACCOUNT_DIGITS:
        return (f"{number:.12g}",)
    return (account(value) or plain(value),)


def _listed(value: str) -> list[str]:
    """The words of a list of addresses or the like; none where it is no such list."""
    words = [word for word in re.split(r"[\s,;，；、]+", value) if word]
    return words if len(words) > 1 and all(any(True for _ in kinds_of(word)) for word in words) else []


def _names(text: str) -> list[str]:
    """The words of a name."""
    return re.findall(r"[^\W_]+", plain(text))


def _free(text: str, start: int, end: int) -> bool:
    """Does text[start:end] stand alone? Scripts without spaces are cut anywhere, but not to one character."""
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    if not _UNSPACED.match(text[start]) and _joined(before[::-1], _SIGILS):
        return False
    if not _UNSPACED.match(text[end - 1]) and _joined(after, frozenset()):
        return False
    return end - start > 1 or _word(text[start])


def _joined(beside: str, marks: frozenset[str]) -> bool:
    """Does what stands beside a word belong to it? `marks` do not where nothing stands before them: `#general`, `@ann`."""
    if not beside:
        return False
    first, second = beside[0], beside[1:2]
    if first in marks:
        return bool(second) and not second.isspace()
    return (
        _word(first) or first in _JOINTS or (first in _SOFT and (_word(second) or second in _JOINTS)) or beside == "::"
    )


def _word(char: str) -> bool:
    return bool(char) and _WORDLIKE.match(char) is not None


def _number(text: str) -> float | None:
    """The number that a text is, thousands separated or not."""
    return float(text.replace(",", "")) if len(text) < _LONGEST_NUMBER and _FIGURE.fullmatch(text) else None
