"""Distinctive values in a text: numbers, dates and times by what they are worth, identifiers, words, and CJK runs.

A value is a set of Keys. What a text *shows* (an Observation) and what it *asks for* (a Final, an input) meet in equal keys: a date
with a year shows itself and "that day of any year", one without a year asks for the latter. Linear in the text: one pass finds the
tokens, and each distinct one is understood once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Final, TypeAlias

from orchestrator.core.measure.clauses import CJK, nfkc
from orchestrator.core.measure.moments import MOMENT, Moment, moment
from orchestrator.core.measure.tokens import SIGN, TOKEN, Key, Token, of_moment, pieces, token
from orchestrator.core.spec import Json

_ISO_TIME: Final = re.compile(r"T(?<=[0-9]{2}-[0-9]{2}T)(?=[0-9]{2}:[0-9]{2})")
_GROUPED: Final = re.compile(r"[0-9](?<![A-Za-z0-9_.,][0-9])[0-9]{0,2}(?:,[0-9]{3})+(?![A-Za-z0-9_]|,[0-9])")
_NEGATIVE: Final = re.compile(r"-(?<![A-Za-z0-9_]-)(?=[0-9])")
_LIST: Final = re.compile(r"[0-9][.)、](?<![A-Za-z0-9_.,][0-9].)(?![0-9])(?=[ \t]*\S)")
_OPENS: Final = re.compile(r"(?:^|\n)[ \t>*#(-]*$")
_DIGIT: Final = re.compile("[0-9]")
_CJK: Final = re.compile(f"[{CJK}]+")
_BARE_NUMBER: Final = re.compile(r"-?[0-9]{1,24}(?:\.[0-9]{1,24})?")


class Wanted:
    """The values that somebody asks for, and those of them that are words."""

    __slots__ = ("keys", "words")

    def __init__(self, keys: frozenset[Key]) -> None:
        self.keys = keys
        self.words = frozenset(key[2:] for key in keys if isinstance(key, str) and key.startswith("w:"))


Asked: TypeAlias = tuple[frozenset[Key], frozenset[tuple[Decimal, ...]]]


def tokens(text: str, wanted: Wanted | None = None) -> tuple[list[Token], set[str]]:
    """The tokens of a text, each spelling once, and its distinct CJK runs. Words that are not `wanted` may be left out."""
    plain = nfkc(text).replace("\u2212", "-")
    found: list[Token] = []
    if _DIGIT.search(plain):
        moments, plain = _moments(_prepared(plain))
        found += moments
    seen = pieces(plain)
    if wanted is not None:
        is_word = (
            str.isidentifier if plain.isascii() else str.isalpha
        )  # with a unit, or as a number, it would be neither
        seen = {piece for piece in seen if not is_word(piece) or piece.casefold() in wanted.words}
    for piece in seen:
        found += token(piece)
    return found, set() if plain.isascii() else set(_CJK.findall(plain))


def _moments(plain: str) -> tuple[list[Token], str]:
    """The dates and times, and the text without them."""
    known: dict[str, Moment | None] = {}
    between: list[str] = []
    done = 0
    for match in MOMENT.finditer(plain):
        if match[0] not in known:
            known[match[0]] = moment(match)
        if known[match[0]]:
            between.append(plain[done : match.start()])
            done = match.end()
    between.append(plain[done:])
    return [of_moment(each) for each in known.values() if each], " ; ".join(between)


def _prepared(text: str) -> str:
    """Grouped digits joined, signs marked, list numbers gone."""
    text = _ISO_TIME.sub(" ", text)
    text = _LIST.sub(_unlisted, text)
    if "," in text:
        text = _GROUPED.sub(lambda match: match[0].replace(",", ""), text)
    return _NEGATIVE.sub(SIGN, text)


def _unlisted(match: re.Match[str]) -> str:
    """A digit with a point or bracket opens a line, or stands free with a bracket: it only counts what follows."""
    before = match.string[max(0, match.start() - 10) : match.start()]
    opens = _OPENS.search(before) is not None if len(before) < 10 or "\n" in before else False
    free = match[0].endswith(")") and before[-1:].isspace()
    return "  " if opens or free else match[0]


def grams(runs: set[str], size: int) -> set[Key]:
    """The CJK runs of this length, as keys."""
    return {f"c:{run[at : at + size]}" for run in runs for at in range(len(run) - size + 1)}


_L: Final = "0-9A-Za-z\u00c0-\u024f"
_COLON: Final = (
    rf"\"[^\"\n]{{1,80}}\"\s?:"
    rf"|(?:(?<=[\n|;,(\[{{/])|^)\s{{0,4}}(?:[A-Za-z_]{{1,31}}|[{CJK}]{{1,8}})\s?:(?=\s?\S)"
)
_EQUALS: Final = rf"(?<![{_L}_.-])(?:[A-Za-z_][A-Za-z0-9_.-]{{0,60}}|[{CJK}]{{1,12}})\s?=(?!=)"
_LABEL: Final = re.compile(_COLON)
_ANY_LABEL: Final = re.compile(f"{_COLON}|{_EQUALS}")
"""Only where there is an equals sign at all: looking for one behind each word takes longer than all the rest."""
_REACH: Final = 90
"""No label with a colon is longer."""
_EDGE: Final = r":=|,;/()\[\]{}<>《》【】「」"
_PAIR: Final = re.compile(f"(?:(?<=[{_EDGE}])|^) {{0,4}}([{CJK}]{{2}}) {{0,4}}(?=[{_EDGE}]|$)")
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
    """The values in what a tool returned: those of a JSON text, or the text itself."""
    if content.lstrip()[:1] in ("{", "["):
        try:
            return tuple(fields(json.loads(content, parse_int=str, parse_float=str, parse_constant=str)))
        except (ValueError, RecursionError):
            pass
    return (content,)


def _unlabelled(text: str) -> str:
    """The text without its keys. Where colons are few, labels are looked for around them only."""
    if "=" in text:
        return _ANY_LABEL.sub(lambda match: match[0][-1], text)
    if text.count(":") * 2 * _REACH > len(text):
        return _LABEL.sub(":", text)
    kept: list[str] = []
    done = 0
    colon = text.find(":")
    while colon >= 0:
        label = _LABEL.search(text, max(done, colon - _REACH), colon + _REACH)
        if label and label.start() < colon:
            kept += text[done : label.start()], ":"
            done = label.end()
        colon = text.find(":", max(done, colon + 1))
    return "".join((*kept, text[done:])) if kept else text


def shown_in(content: str, wanted: Wanted | None = None) -> tuple[list[Token], set[Key]]:
    """The distinctive values that an Observation shows: tokens, and CJK runs of three or, as a whole field, of two.

    Where the `wanted` ones are told, words and runs that are not among them may be left out.
    """
    found: list[Token] = []
    runs: set[Key] = set()
    for field in content_fields(content):
        seen, written = _remembered_field(field) if len(field) <= _FIELD else _of_field(field, wanted)
        found += [
            each
            for each in seen
            if each.shows and (wanted is None or each.numbers or not wanted.keys.isdisjoint(each.shows))
        ]
        runs |= written
    return found, runs if wanted is None else runs & wanted.keys


def _of_field(field: str, wanted: Wanted | None = None) -> tuple[list[Token], set[Key]]:
    """The tokens of one value, and its CJK runs as an Observation shows them."""
    if _BARE_NUMBER.fullmatch(field):
        return list(token(field.replace("-", SIGN))), set()
    text = _unlabelled(nfkc(field))
    seen, written = tokens(text, wanted)
    if not written:
        return seen, set()
    lines = (line for line in text.split("\n") if not _PROSE.search(line))
    return seen, grams(written, 3) | {f"c:{pair}" for line in lines for pair in _PAIR.findall(line)}


_FIELD: Final = 48
_remembered_field: Final = lru_cache(maxsize=8192)(_of_field)
"""The fields of a JSON text are short, and many stand in one row after the other."""


def shown(value: Json) -> frozenset[Key]:
    """The distinctive values of an input."""
    keys: set[Key] = set()
    for field in fields(value):
        found, runs = shown_in(field)
        keys |= runs
        keys.update(key for each in found for key in each.shows)
    return frozenset(keys)


def asked(*texts: str) -> Asked:
    """What these texts ask for: the keys of all their tokens and CJK runs, and their numbers."""
    if len(texts) == 1:
        return _remembered(texts[0]) if len(texts[0]) <= _SHORT else _asked(texts[0])
    found = tuple(map(asked, texts))
    keys = frozenset[Key]().union(*(each for each, _ in found))
    return keys, frozenset[tuple[Decimal, ...]]().union(*(each for _, each in found))


def _asked(text: str) -> Asked:
    keys: set[Key] = set()
    numbers: set[tuple[Decimal, ...]] = set()
    found, runs = tokens(text)
    if runs:
        keys |= grams(runs, 2) | grams(runs, 3)
    for each in found:
        keys.update(each.asks)
        if each.numbers:
            numbers.add(each.numbers)
    return frozenset(keys), frozenset(numbers)


_SHORT: Final = 256
_remembered: Final = lru_cache(maxsize=2048)(_asked)
"""Inputs of calls, and what short answers say, come again and again."""


def places(plain: str) -> Iterator[tuple[tuple[Key, ...], int, int]]:
    """Where a normalised text spells values: their keys, start and end."""
    known: dict[str, tuple[Key, ...]] = {}
    for match in TOKEN.finditer(plain):
        if match[0] not in known:
            known[match[0]] = tuple(key for each in token(match[0]) for key in each.asks)
        yield known[match[0]], match.start(), match.end()
    for match in _CJK.finditer(plain):
        for size in (2, 3):
            for at in range(match.start(), match.end() - size + 1):
                yield (f"c:{plain[at : at + size]}",), at, at + size
