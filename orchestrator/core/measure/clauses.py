"""A text cut into clauses and sentences, and where things stand in it. Everything here is linear in the text.

The text is normalised: NFKC, case-folded, Markdown escapes dropped. A point, comma or colon inside a number or a name is no cut; the
full-width ones always cut, so they are told apart before normalisation makes them equal.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

ECHO: Final = "\ufffc"
"""What stands for each character of an echo of the goal: no letter, no cut."""

CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"

_WIDE: Final = str.maketrans({"，": ", ", "：": ": ", "…": "\u22ef"})
_ESCAPE: Final = re.compile(r"\\([\\`*_{}\[\]#+\-.!|<>~])")
_STOPS: Final = r"[!?。\n\r\v\f\x85\u2028\u2029]|\.(?:(?<![A-Za-z0-9_].)|(?![A-Za-z0-9_]))"
_SENTENCE: Final = re.compile(_STOPS)
_CLAUSE: Final = re.compile(rf"{_STOPS}|[;()、]|,(?:(?<![0-9],)|(?![0-9]))|:(?:(?<![A-Za-z0-9_]:)|(?![A-Za-z0-9_]))")
_TOKEN: Final = re.compile(rf"[a-z0-9']+|[{CJK}]")
_INK: Final = re.compile(r"\w")
_CHUNK: Final = 128  # normalisation sorts runs of combining marks by insertion: quadratic, so only ever in small pieces
_GROWTH: Final = 4  # some characters normalise to eighteen
_WORDS: Final = 8
_CHARACTERS: Final = 12
_SEED: Final = 3


class lazy(Generic[T]):  # noqa: N801  as property is
    """`functools.cached_property` without the lock that it has in Python 3.11 and that takes longer than what is looked up here."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> T:
        value = instance.__dict__[self._name] = self._make(instance)
        return value


@dataclass(frozen=True, slots=True)
class Spans:
    """Where something stands: starts and ends, in order, not overlapping."""

    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()

    def within(self, low: int, high: int) -> bool:
        """Does one of them stand between the two?"""
        return self.first(low, high) is not None

    def first(self, low: int, high: int) -> tuple[int, int] | None:
        """The first one between the two."""
        index = bisect_left(self.starts, low)
        return (self.starts[index], self.ends[index]) if index < len(self.starts) and self.ends[index] <= high else None

    def last(self, low: int, high: int) -> tuple[int, int] | None:
        """The last one between the two."""
        index = bisect_right(self.ends, high) - 1
        return (self.starts[index], self.ends[index]) if index >= 0 and self.starts[index] >= low else None

    def covers(self, at: int) -> bool:
        """Does this position lie in one of them?"""
        index = bisect_right(self.starts, at) - 1
        return index >= 0 and at < self.ends[index]


NOWHERE: Final = Spans()


def spans(pairs: Iterable[tuple[int, int]]) -> Spans:
    """Spans of pairs that are in order."""
    pairs = tuple(pairs)
    return Spans(tuple(start for start, _ in pairs), tuple(end for _, end in pairs))


class Text:
    """A normalised text, without what it echoes of the goal. Positions are those of `plain`."""

    def __init__(self, normalised: str, goal: str = "") -> None:
        self._normalised = normalised
        self._goal = goal

    @lazy
    def plain(self) -> str:
        """The text that is read. Echoes are looked for only when somebody does."""
        return _without_echoes(self._normalised, self._goal) if self._goal else self._normalised

    @lazy
    def _clauses(self) -> list[int]:
        return [match.end() for match in _CLAUSE.finditer(self.plain)]

    @lazy
    def _sentences(self) -> list[int]:
        return [match.end() for match in _SENTENCE.finditer(self.plain)]

    def clause(self, at: int) -> tuple[int, int]:
        """Start and end of the clause that holds this position."""
        return _between(self._clauses, at, len(self.plain))

    def sentence(self, at: int) -> tuple[int, int]:
        """Start and end of the sentence that holds this position."""
        return _between(self._sentences, at, len(self.plain))

    def find(self, pattern: re.Pattern[str], hints: tuple[str, ...] = ()) -> Spans:
        """Where the pattern stands; if it has a group `skip`, what that group matches is passed over.

        `hints`: of which every match holds one. To look for those first is much cheaper.
        """
        if hints and not self.holds(hints):
            return NOWHERE
        skip = "skip" in pattern.groupindex
        return spans(match.span() for match in pattern.finditer(self.plain) if not (skip and match["skip"] is not None))

    def holds(self, hints: Iterable[str]) -> bool:
        """Does one of them stand anywhere, be it in an echo?"""
        normalised = self._normalised
        for hint in hints:  # noqa: SIM110  a generator takes twice as long, on the path of every turn
            if hint in normalised:
                return True
        return False


def _between(cuts: list[int], at: int, end: int) -> tuple[int, int]:
    index = bisect_right(cuts, at)
    return (cuts[index - 1] if index else 0, cuts[index] if index < len(cuts) else end)


def says_something(text: str | None) -> bool:
    """Text without a letter or digit is no text."""
    return text is not None and any(map(str.isalnum, text))


def nfkc(text: str) -> str:
    """NFKC in linear time for any input; a piece that would grow beyond reason stays as it is."""
    if text.isascii():
        return text
    return "".join(_nfkc(text[at : at + _CHUNK]) for at in range(0, len(text), _CHUNK))


def _nfkc(piece: str) -> str:
    folded = unicodedata.normalize("NFKC", piece)
    return folded if len(folded) <= _GROWTH * len(piece) else piece


def normalise(text: str) -> str:
    """NFKC and case-folded."""
    return text.lower() if text.isascii() else nfkc(text).casefold()


def read(text: str, goal: str = "") -> Text:
    """A text, normalised, without what it echoes of the goal (a run of 8 words, or of 12 CJK characters)."""
    if not says_something(text):
        return Text("")
    if "\\" in text:
        text = _ESCAPE.sub(r"\1", text)
    return Text(normalise(text if text.isascii() else text.translate(_WIDE)), goal)


@lru_cache(maxsize=1024)
def _vocabulary(goal: str) -> frozenset[str]:
    """The words of the goal; none when they are too few for an echo."""
    words = _TOKEN.findall(normalise(goal))
    return frozenset(words if len(words) >= _WORDS else ())


@lru_cache(maxsize=64)
def _runs(goal: str) -> dict[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The shortest runs of the goal that count as an echo, by their first words."""
    words = _TOKEN.findall(normalise(goal))
    found: dict[tuple[str, ...], tuple[tuple[str, ...], ...]] = {}
    for run in {run for at in range(len(words)) if (run := _run(words, at))}:
        found[run[:_SEED]] = (*found.get(run[:_SEED], ()), run)
    return found


def _run(words: list[str], at: int) -> tuple[str, ...]:
    """The shortest run from here that has 8 words or 12 characters; empty when what is left is too short."""
    latin = characters = 0
    for end in range(at, min(at + _WORDS + _CHARACTERS, len(words))):
        if words[end].isascii():
            latin += 1
        else:
            characters += 1
        if latin == _WORDS or characters == _CHARACTERS:
            return tuple(words[at : end + 1])
    return ()


def _without_echoes(text: str, goal: str) -> str:
    if len(text) < _CHARACTERS:
        return text
    words = _TOKEN.findall(text)
    if len(words) < _WORDS or sum(map(_vocabulary(goal).__contains__, words)) < _WORDS:
        return text
    runs = _runs(goal)
    echoes = [
        (at, at + len(run))
        for at, seed in enumerate(zip(words, words[1:], words[2:], strict=False))
        for run in runs.get(seed, ())
        if tuple(words[at : at + len(run)]) == run
    ]
    if not echoes:
        return text
    places = [match.span() for match in _TOKEN.finditer(text)]
    pieces: list[str] = []
    done = 0
    for first, last in echoes:
        start, end = max(places[first][0], done), places[last - 1][1]
        pieces += [text[done:start], _INK.sub(ECHO, text[start:end])]
        done = end
    return "".join([*pieces, text[done:]])
