"""A look at a text mostly tells whether a word stands there, at a hundredth of what it costs to read the text."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from orchestrator.core.measure.clauses import lazy, nfkc
from orchestrator.core.measure.tokens import stands_plainly, token

_INNER_CAPITAL: Final = re.compile(r"[A-Z](?<=\w.)")
_RUN: Final = re.compile("[0-9]++(?:[.,][0-9]++)*+")
_SCALED: Final = re.compile(
    "([0-9](?<![0-9].)(?<![0-9][.,].)[0-9]*+(?:[.,][0-9]++)*+)( ?(?:%|万亿|百万|[万亿]|(?i:k|thousand|million|billion|percent)(?![A-Za-z]))|[eE][+-]?[0-9]{1,3})"
)
_GROUPS: Final = 6  # of digits between commas: what has more is read
_CLOSE: Final = 1e-9  # of floats that stand for decimals
_POINTS: Final = 2


class Look:
    """What is seen of one text before it is read."""

    def __init__(self, content: str) -> None:
        self._text = content if content.isascii() else nfkc(content)
        self._folded = self._text.casefold()
        self._flat = flat(self._folded)
        self._escaped = "\\" in content and content.lstrip()[:1] in ("{", "[")

    def holds(self, word: str, flattened: str) -> bool | None:
        """Does this word, or CJK run, stand there as a token? None: that must be read. It is told in its `flat` form too."""
        if self._escaped:
            return None
        if flattened not in self._flat:
            return False
        return stands_plainly(word, self._folded) or None

    def may_show(self, value: float | None) -> bool:
        """Could this number stand there, or a part of a date? None: any. False is sure."""
        return self._unclear or (bool(self._values) if value is None else value in self._values)

    def may_show_between(self, low: float, high: float) -> bool:
        """Could a number between these stand there? False is sure."""
        if self._unclear:
            return True
        at = bisect_left(self._sorted, low * (1 - _CLOSE))
        return at < len(self._sorted) and self._sorted[at] <= high * (1 + _CLOSE)

    @lazy
    def _unclear(self) -> bool:
        """Are there escapes in the way, or digits that could be cut in many ways?"""
        return self._escaped or max(map(_commas, self._runs), default=0) > _GROUPS

    @lazy
    def _runs(self) -> set[str]:
        return set(_RUN.findall(self._text))

    @lazy
    def _values(self) -> frozenset[float]:
        """What everything there is worth that could be a number, or a part of a date; without its sign."""
        found = {value for run in self._runs for value in _worth(run)}
        for run, scale in set(_SCALED.findall(self._text)):
            groups = run.split(",")
            for low in range(len(groups)):
                for each in token("".join(groups[low:]) + scale):
                    found.update([abs(float(number)) for number in each.numbers])
        return frozenset(found)

    @lazy
    def _sorted(self) -> list[float]:
        return sorted(self._values)

    @property
    def inner_capitals(self) -> bool:
        """Words that are too short or too common to tell anything do where they bear one."""
        return self._escaped or (self._text != self._folded and _INNER_CAPITAL.search(self._text) is not None)


def flat(text: str) -> str:
    """The text without what reading may take out of the middle of a token: signs and separators of digits."""
    if "-" in text:  # to find none is much cheaper than to replace none
        text = text.replace("-", "")
    if "," in text:
        text = text.replace(",", "")
    return text if text.isascii() else text.replace("\u2212", "")


def value_of(key: str | Decimal) -> float | None:
    """A number without its sign; of a date its day, of a month its year: in every spelling they stand in digits. None for a time."""
    if isinstance(key, Decimal):
        return abs(float(key))
    kind, _, moment = key.partition(":")
    if kind == "t":
        return None
    year, _, rest = moment.partition("-")
    return float(year if kind == "m" else rest.rpartition("-")[2])


def _commas(run: str) -> int:
    return run.count(",")


def _worth(run: str) -> Iterator[float]:
    """What a run of digits, points and commas can be: a number, numbers in a row, a date."""
    if "," in run:
        groups = run.split(",")
        for low in range(len(groups)):
            for high in range(low + 1, len(groups) + 1):
                yield from _worth("".join(groups[low:high]))
    elif run.count(".") < _POINTS:
        yield float(run)
    else:
        yield from map(float, run.split("."))
