"""A text cut into clauses and sentences, and where things stand in it. Everything here is linear in the text.

The text is cut as it was written (a point, comma or colon inside a number or a name is no cut), then normalised (NFKC, case-folded,
Markdown escapes dropped) with the cuts kept as marks in it: CUT after each clause, STOP after each sentence.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

CUT: Final = "\x1f"
STOP: Final = "\x1e"
ECHO: Final = "\ufffc"
"""What stands where the goal was echoed: no letter, no cut."""

CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"

_MARKS: Final = {ord(mark): " " for mark in CUT + STOP + ECHO}
_ESCAPE: Final = re.compile(r"\\([\\`*_{}\[\]#+\-.!|<>~])")
_SENTENCE: Final = re.compile(r"[!?。！？\n\r\v\f\x85\u2028\u2029]|(?<![A-Za-z0-9_])\.|\.(?![A-Za-z0-9_])")
_CLAUSE: Final = re.compile(r"[;()；：，、（）]|(?<![0-9]),|,(?![0-9])|(?<![A-Za-z0-9_]):|:(?![A-Za-z0-9_])")
_TOKEN: Final = re.compile(rf"[a-z0-9']+|[{CJK}]")
_INK: Final = re.compile(f"[^{CUT}{STOP}]")
_CHUNK: Final = 128  # normalisation sorts runs of combining marks by insertion: quadratic, so only ever in small pieces
_GROWTH: Final = 4  # some characters normalise to eighteen
_WORDS: Final = 8
_CHARACTERS: Final = 12


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


def spans(pairs: Iterable[tuple[int, int]]) -> Spans:
    """Spans of pairs that are in order."""
    pairs = tuple(pairs)
    return Spans(tuple(start for start, _ in pairs), tuple(end for _, end in pairs))


@dataclass(frozen=True)
class Text:
    """A normalised text with its cuts. Positions are those of `plain`."""

    plain: str

    @cached_property
    def _cuts(self) -> tuple[int, ...]:
        return tuple(match.end() for match in re.finditer(f"{CUT}{STOP}?", self.plain))

    @cached_property
    def _stops(self) -> tuple[int, ...]:
        return tuple(match.end() for match in re.finditer(STOP, self.plain))

    def clause(self, at: int) -> tuple[int, int]:
        """Start and end of the clause that holds this position."""
        return _between(self._cuts, at, len(self.plain))

    def sentence(self, at: int) -> tuple[int, int]:
        """Start and end of the sentence that holds this position."""
        return _between(self._stops, at, len(self.plain))

    def find(self, pattern: re.Pattern[str]) -> Spans:
        """Where the pattern stands; if it has a group `skip`, what that group matches is passed over."""
        skip = "skip" in pattern.groupindex
        return spans(match.span() for match in pattern.finditer(self.plain) if not (skip and match["skip"] is not None))


def _between(cuts: tuple[int, ...], at: int, end: int) -> tuple[int, int]:
    index = bisect_right(cuts, at)
    return (cuts[index - 1] if index else 0, cuts[index] if index < len(cuts) else end)


def says_something(text: str | None) -> bool:
    """Text without a letter or digit is no text."""
    return text is not None and any(map(str.isalnum, text))


def normalise(text: str) -> str:
    """NFKC and case-folded, in linear time for any input."""
    if text.isascii():
        return text.lower()
    pieces = (text[at : at + _CHUNK] for at in range(0, len(text), _CHUNK))
    return "".join(map(_normalised, pieces))


def _normalised(piece: str) -> str:
    folded = unicodedata.normalize("NFKC", piece)
    return (folded if len(folded) <= _GROWTH * len(piece) + _CHUNK else piece).casefold()


def read(text: str, goal: str = "") -> Text:
    """A text, cut and normalised, without what it echoes of the goal (a run of 8 words, or of 12 CJK characters)."""
    written = _ESCAPE.sub(r"\1", text.translate(_MARKS))
    cut = _CLAUSE.sub(rf"\g<0>{CUT}", _SENTENCE.sub(rf"\g<0>{CUT}{STOP}", written))
    return Text(_without_echoes(normalise(cut), goal))


@lru_cache(maxsize=64)
def _runs(goal: str) -> tuple[frozenset[str], frozenset[tuple[str, ...]]]:
    """The words of the goal, and its shortest runs that count as an echo."""
    words = _TOKEN.findall(normalise(goal))
    return frozenset(words), frozenset(run for at in range(len(words)) if (run := _run(words, at)))


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
    known, runs = _runs(goal)
    if not runs:
        return text
    found = list(_TOKEN.finditer(text))
    words = [match[0] for match in found]
    pieces: list[str] = []
    done = covered = 0
    for at, word in enumerate(words):
        if word not in known or (at + 1 < len(words) and words[at + 1] not in known):
            continue
        run = _run(words, at)
        if run in runs:
            first, end = max(found[at].start(), covered), found[at + len(run) - 1].end()
            pieces += [text[done:first], _INK.sub(ECHO, text[first:end])]
            done = covered = end
    return "".join([*pieces, text[done:]])
