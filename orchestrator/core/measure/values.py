"""Distinctive values in a text: numbers, dates and times by what they are worth, identifiers, words, and CJK runs.

A value is a set of Keys. What a text *shows* (an Observation) and what it *asks for* (a Final, an input) meet in equal keys: a date
with a year shows itself and "that day of any year", one without a year asks for the latter. One pass, linear in the text.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias

from orchestrator.core.measure.clauses import CJK
from orchestrator.core.measure.moments import MOMENT, moment
from orchestrator.core.measure.stop_words import STOP_WORDS
from orchestrator.core.spec import Json

Key: TypeAlias = str | Decimal
"""A number is its own key; "w:" is a word or identifier, "c:" a CJK run of 2 or 3, "d:" and "t:" are dates and times."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `shows` is empty when it is no distinctive value; `numbers` are what it is worth (with %, also the hundredth)."""

    shows: tuple[Key, ...]
    asks: tuple[Key, ...]
    start: int
    end: int
    numbers: tuple[Decimal, ...] = ()


_L: Final = "0-9A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_BASIC: Final = re.compile(
    rf"(?P<grouped>(?:(?<![{_L}_])[+-])?(?<![{_L}_.,])[0-9]{{1,3}}(?:,[0-9]{{3}})+(?:\.[0-9]+)?(?![{_L}_]|,[0-9]))"
    rf"|(?P<word>(?:(?<![{_L}_])[+-](?=[0-9]))?[{_L}]+(?:(?:[.-]|_+)[{_L}]+)*)"
    rf"|(?P<cjk>[{CJK}]+)"
)
_ANY: Final = re.compile(f"{MOMENT.pattern}|{_BASIC.pattern}")
_LIST: Final = re.compile(r"(?m)^[ \t>*#-]{0,8}\(?[0-9][.)、](?![0-9])(?=[ \t]*\S)|(?<=\s)\(?[0-9]\)(?=\s)")

_ISO_TIME: Final = re.compile(r"(?<=[0-9]{2}-[0-9]{2})T(?=[0-9]{2}:[0-9]{2})")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,24}(?:\.[0-9]{1,24})?")
_RANGE: Final = re.compile(r"([+-]?[0-9]{1,24}(?:\.[0-9]{1,24})?)-([0-9]{1,24}(?:\.[0-9]{1,24})?)")
_SCIENTIFIC: Final = re.compile(r"[+-]?[0-9]{1,24}(?:\.[0-9]{1,24})?[eE][+-]?[0-9]{1,3}")
_UNIT: Final = re.compile(
    r"([+-]?[0-9]{1,24}(?:\.[0-9]{1,24})?)"
    r"(k|K|s|h|m|g|(?i:ms|min|cm|mm|km|kg|ml|kb|mb|gb|tb|kib|mib|gib|mi|gi|kw|mw|kwh|hz|khz|mhz|ghz|px))"
)
_THOUSAND: Final = Decimal(1000)
_SCALES: Final = {
    "万": Decimal(10**4), "亿": Decimal(10**8), "万亿": Decimal(10**12), "百万": Decimal(10**6),
    "thousand": _THOUSAND, "million": Decimal(10**6), "billion": Decimal(10**9), "k": _THOUSAND,
}  # fmt: skip
_SCALE: Final = re.compile(r" ?(?:(万亿|亿|百万|万)|(k|(?i:thousand|million|billion))(?![A-Za-z]))")
_PERCENT: Final = re.compile(r" ?(?:%|(?i:percent)(?![A-Za-z]))")
_HUNDREDTH: Final = Decimal("0.01")
_LEAST_LETTERS: Final = 4
_INNER: Final = re.compile(r"[0-9_.-]|(?<=.)[A-Z]")


def written(text: str) -> str:
    """NFKC with its letters as they were, list numbers blanked: positions are kept from here on."""
    text = "".join(unicodedata.normalize("NFKC", text[at : at + 128]) for at in range(0, len(text), 128)).replace(
        "\u2212", "-"
    )
    return _LIST.sub(lambda match: " " * len(match[0]), _ISO_TIME.sub(" ", text))


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a `written` text, in order; CJK runs give one for each pair and triple of characters."""
    for match in _ANY.finditer(text):
        if match["grouped"] or match["word"] or match["cjk"]:
            yield from _basic(match, text)
        elif found := moment(match):
            numbers = tuple(Decimal(part) for part in found.numbers)
            yield Token((*found.shows, *numbers), (*found.asks, *numbers), match.start(), match.end(), numbers)
        else:
            for part in _BASIC.finditer(text, match.start(), match.end()):
                yield from _basic(part, text)


def _basic(match: re.Match[str], text: str) -> Iterator[Token]:
    start, end = match.span()
    if run := match["cjk"]:
        for size in (2, 3):
            for at in range(len(run) - size + 1):
                key = (f"c:{run[at : at + size]}",)
                yield Token(key if size == 3 else (), key, start + at, start + at + size)
    elif match["grouped"]:
        yield _number(Decimal(match["grouped"].replace(",", "")), text, start, end)
    else:
        yield from _word(match["word"], text, start, end)


def _word(word: str, text: str, start: int, end: int) -> Iterator[Token]:
    if _NUMBER.fullmatch(word):
        yield _number(Decimal(word), text, start, end)
    elif pair := _RANGE.fullmatch(word):
        yield _number(Decimal(pair[1]), "", start, end)
        yield _number(Decimal(pair[2]), text, start, end)
    else:
        key = (f"w:{word.lstrip('+-').casefold()}",)
        numbers = tuple(_worth(word))
        yield Token((*key, *numbers) if _is_distinctive(word) else (), (*key, *numbers), start, end, numbers)


def _worth(word: str) -> Iterator[Decimal]:
    """What a token with letters is worth, if it is a number with a unit (or k), or in scientific notation."""
    if unit := _UNIT.fullmatch(word):
        yield Decimal(unit[1]) * _SCALES.get(unit[2].lower(), Decimal(1))
    elif _SCIENTIFIC.fullmatch(word):
        yield Decimal(word)


def _number(value: Decimal, text: str, start: int, end: int) -> Token:
    scale = _SCALE.match(text, end)
    if scale:
        value *= _SCALES[(scale[1] or scale[2]).lower()]
    values = (value, value * _HUNDREDTH) if _PERCENT.match(text, end) else (value,)
    return Token(values, values, start, end, values)


def _is_distinctive(word: str) -> bool:
    if _INNER.search(word):
        return len(word) > 2 or not (word.isalpha() and word.isupper())
    return len(word) >= _LEAST_LETTERS and word.casefold() not in STOP_WORDS


_LABEL: Final = re.compile(
    rf"\"[^\"\n]{{1,80}}\"\s?:"
    rf"|(?<![{_L}_.-])(?:[A-Za-z_][A-Za-z0-9_.-]{{0,60}}|[{CJK}]{{1,12}})\s?=(?!=)"
    rf"|(?:(?<=[\n|;,(\[{{/])|^)\s{{0,4}}(?:[A-Za-z_][A-Za-z_-]{{0,30}}|[{CJK}]{{1,8}})\s?:(?=\s?\S)"
)
_EDGE: Final = re.compile(r"[:=|,;/()\[\]{}<>《》【】「」\n]")
_PAIR: Final = re.compile(f"[{CJK}]{{2}}")
_PROSE: Final = re.compile("[。!?]")


def fields(value: Json) -> Iterator[str]:
    """The values in a JSON value as texts: no keys, nothing for true, false and null."""
    todo: list[Json] = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping):
            todo.extend(each.values())
        elif isinstance(each, Sequence):
            todo.extend(each)
        elif each is not None and not isinstance(each, bool):
            yield str(each)


def content_fields(content: str) -> tuple[str, ...]:
    """The values in what a tool returned: JSON, or text with its `key=` and `key:` blanked."""
    if content.lstrip()[:1] in ("{", "["):
        try:
            return tuple(fields(json.loads(content, parse_int=str, parse_float=str, parse_constant=str)))
        except (ValueError, RecursionError):
            pass
    return (content,)


def shown_in(content: str) -> Iterator[Token]:
    """The distinctive values that an Observation shows."""
    for field in content_fields(content):
        text = _LABEL.sub(lambda match: " " * (len(match[0]) - 1) + match[0][-1], written(field))
        yield from (token for token in tokens(text) if token.shows)
        for line in text.split("\n"):
            if _PROSE.search(line):
                continue
            for piece in _EDGE.split(line):
                if _PAIR.fullmatch(piece.strip()):
                    key = (f"c:{piece.strip()}",)
                    yield Token(key, key, 0, 0)


def shown(value: Json) -> frozenset[Key]:
    """The distinctive values of an input."""
    return frozenset(key for field in fields(value) for token in shown_in(field) for key in token.shows)


def asked(*texts: str) -> tuple[frozenset[Key], frozenset[tuple[Decimal, ...]]]:
    """What these texts ask for: the keys of all their tokens, and their numbers."""
    found = [token for text in texts for token in tokens(written(text))]
    return frozenset(key for token in found for key in token.asks), frozenset(
        token.numbers for token in found if token.numbers
    )


def places(plain: str) -> Iterator[tuple[tuple[Key, ...], int, int]]:
    """Where a normalised text spells values: their keys, start and end."""
    for token in tokens(plain):
        yield token.asks, token.start, token.end
