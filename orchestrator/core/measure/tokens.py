"""One token of a text, understood: a number and what it is worth, an identifier, or a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from orchestrator.core.measure.moments import Moment
from orchestrator.core.measure.stop_words import STOP_WORDS

Key: TypeAlias = str | Decimal
"""A number is its own key; "w:" is a word or identifier, "c:" a CJK run of 2 or 3, "d:" and "t:" are dates and times."""


class Token(NamedTuple):
    """`shows` is empty when it is no distinctive value; `numbers` are what it is worth (with %, also the hundredth)."""

    shows: tuple[Key, ...]
    asks: tuple[Key, ...]
    numbers: tuple[Decimal, ...] = ()


SIGN: Final = "\ue000"
"""Stands for the minus sign of a number, so that it is told from a hyphen."""

_L: Final = f"{SIGN}0-9A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_SCALE: Final = r"(?:(?= ?[%万亿百kTtMmBbPp])(?<=[0-9]) ?(?:%|万亿|亿|百万|万|(?:k|(?i:thousand|million|billion|percent))(?![A-Za-z])))?"


def _pattern(letters: str) -> re.Pattern[str]:
    return re.compile(rf"[{letters}]++(?:(?=[._-])(?:[.-]|_++)[{letters}]++)*+{_SCALE}")


TOKEN: Final = _pattern(_L)
_ASCII: Final = _pattern("0-9A-Za-z")


def pieces(plain: str) -> set[str]:
    """The distinct matches of TOKEN in a text."""
    return set((_ASCII if plain.isascii() else TOKEN).findall(plain))


_VALUE: Final = f"{SIGN}?[0-9]{{1,24}}(?:\\.[0-9]{{1,24}})?"
_NUMBER: Final = re.compile(f"({_VALUE})(?: ?([^0-9A-Z.{SIGN}_-]+))?")
_RANGE: Final = re.compile(f"({_VALUE})-({_VALUE}(?: ?[^0-9.]+)?)")
_SCIENTIFIC: Final = re.compile(f"{_VALUE}[eE][+-]?[0-9]{{1,3}}")
_UNIT: Final = re.compile(
    f"({_VALUE})(k|K|s|h|m|g|(?i:ms|min|cm|mm|km|kg|ml|kb|mb|gb|tb|kib|mib|gib|mi|gi|kw|mw|kwh|hz|khz|mhz|ghz|px))"
)
_SCALES: Final = {
    "k": Decimal(1000), "K": Decimal(1000), "thousand": Decimal(1000), "million": Decimal(10**6), "billion": Decimal(10**9),
    "万": Decimal(10**4), "百万": Decimal(10**6), "亿": Decimal(10**8), "万亿": Decimal(10**12),
}  # fmt: skip
_PERCENT: Final = frozenset({"%", "percent"})
_HUNDREDTH: Final = Decimal("0.01")
_SUFFIX: Final = re.compile(r" ?(?:%|(?<![万亿百])[万亿百]++)$| [A-Za-z]++$")
_LEAST_LETTERS: Final = 4
_SHORT: Final = 32
_INNER: Final = re.compile(r"[0-9_.-]|(?<=.)[A-Z]")


def token(piece: str) -> tuple[Token, ...]:
    """The tokens of one match of TOKEN: two for `number-number`. Texts repeat their words, so short ones are remembered."""
    return _remembered(piece) if len(piece) <= _SHORT else tuple(_token(piece))


@lru_cache(maxsize=32_768)
def _remembered(piece: str) -> tuple[Token, ...]:
    return tuple(_token(piece))


def _token(piece: str) -> Iterator[Token]:
    number = _NUMBER.fullmatch(piece)
    if number and (number[2] is None or number[2].lower() in {*_SCALES, *_PERCENT}):
        yield _number(number[1], (number[2] or "").lower())
        return
    if pair := _RANGE.fullmatch(piece):
        yield _number(pair[1], "")
        yield from _token(pair[2])
        return
    word = _SUFFIX.sub("", piece).replace(SIGN, "")
    key = (f"w:{word.casefold()}",)
    numbers = tuple(_worth(piece))
    yield Token((*key, *numbers) if _is_distinctive(word) else (), (*key, *numbers), numbers)


def _decimal(text: str) -> Decimal:
    return Decimal(text.replace(SIGN, "-"))


def _number(digits: str, suffix: str) -> Token:
    value = _decimal(digits) * _SCALES.get(suffix, Decimal(1))
    values = (value, value * _HUNDREDTH) if suffix in _PERCENT else (value,)
    return Token(values, values, values)


def _worth(word: str) -> Iterator[Decimal]:
    """What a token with letters is worth, if it is a number with a unit (or k), or in scientific notation."""
    if unit := _UNIT.fullmatch(word):
        yield _decimal(unit[1]) * _SCALES.get(unit[2], Decimal(1))
    elif _SCIENTIFIC.fullmatch(word):
        yield _decimal(word)


def _is_distinctive(word: str) -> bool:
    if _INNER.search(word):
        return len(word) > 2 or not (word.isalpha() and word.isupper())
    return len(word) >= _LEAST_LETTERS and word.casefold() not in STOP_WORDS


@lru_cache(maxsize=4096)
def stands_out(word: str) -> bool:
    """Is this word, in small letters, a distinctive value wherever it stands? Others are only where they bear an inner capital."""
    return not word.isascii() or _is_distinctive(word)


def of_moment(found: Moment) -> Token:
    """A date or time as a token; `06-12` also counts as its two numbers."""
    numbers = tuple(map(Decimal, found.numbers))
    return Token((*found.shows, *numbers), (*found.asks, *numbers), numbers)


_PLAIN: Final = re.compile("[a-z][a-z0-9]+")
_READ_OTHERWISE: Final = re.compile(
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?"
    "|dec(?:ember)?|thousand|million|billion|percent"
)
_UNCLEAR: Final = ('"', "=", "{", "[")


@lru_cache(maxsize=4096)
def _is_plain(word: str) -> bool:
    """A distinctive word that is no part of a date or number."""
    return _PLAIN.fullmatch(word) is not None and not _READ_OTHERWISE.fullmatch(word) and stands_out(word)


def stands_plainly(word: str, text: str) -> bool:
    """Does this distinctive word certainly stand as a token of its own in this text, in small letters?

    True where it stands between blanks and no label, date or number can have it for a part. False says nothing: read closely.
    """
    if len(word) > _SHORT or not _is_plain(word) or not text.isascii():
        return False
    for mark in _UNCLEAR:
        if mark in text:
            return False
    spaced = f" {word}"
    at = text.find(spaced)
    while at >= 0:
        end = at + len(spaced)
        after = text[end : end + 2]
        if (
            after in ("", ".")
            or (after[0] in ",;?!" or (after[0] in " \n" and after[1:] != ":"))
            or after in (". ", ".\n")
        ):
            return True
        at = text.find(spaced, at + 1)
    return False
