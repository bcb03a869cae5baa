"""What took how long: rows of parts on a time axis. Values only; an axis may fold long waits, so that the work between them is seen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from orchestrator.core.events import Attempt

Kind: TypeAlias = Literal["model", "tool", "error", "tried", "pause", "wait"]
"""`tried`: a try that failed; `pause`: between two tries; `wait`: a long tool or a person has the word."""

Worst: TypeAlias = Literal["fine", "odd", "wait", "error"]
"""What is worst about a step."""

FOLDED = 0.06
"""Share of the axis that a folded stretch keeps."""
LONG = 0.25
"""A stretch without work longer than this share of all work is folded, if it lasts SHORTEST seconds."""
SHORTEST = 2.0
MOST_FOLDS = 6
TICKS = 6
APART = 10.0
"""Percent between two ticks."""
LEAST = 0.25
"""Percent that anything is wide."""
MOST_TRIES = 20


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of time, in seconds since the run began."""

    kind: Kind
    start: float
    end: float


@dataclass(slots=True)
class Row:
    """One model turn or one call. `open`: it still goes on."""

    label: str
    anchor: str
    step: int
    call: bool = False
    parts: list[Part] = field(default_factory=list)
    open: bool = False
    rests: bool = False
    error: bool = False

    @property
    def seconds(self) -> float:
        """From its beginning to its end."""
        return max(part.end for part in self.parts) - min(part.start for part in self.parts) if self.parts else 0.0

    @property
    def told(self) -> str:
        """In words, for who cannot see it."""
        return ", ".join(f"{part.kind} {part.end - part.start:.2f} s" for part in self.parts)


def tries(attempts: Sequence[Attempt], start: float, until: float) -> Iterator[Part]:
    """The failed tries between two times, with the pauses after them: a Trace knows how long each took, not when."""
    known = attempts[-MOST_TRIES:]
    spent = sum(max(0.0, each.seconds) for each in known)
    free = max(0.0, until - start)
    shrink = min(1.0, free / spent) if spent > 0 else 0.0
    pause = (free - spent * shrink) / len(known) if known else 0.0
    at = start
    for each in known:
        end = at + max(0.0, each.seconds) * shrink
        yield Part("tried", at, end)
        if pause > 0:
            yield Part("pause", end, end + pause)
        at = end + pause


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of the axis: `start` to `end` seconds lie between `left` and `right` percent."""

    start: float
    end: float
    left: float
    right: float
    folded: bool = False

    @property
    def width(self) -> float:
        """In percent."""
        return self.right - self.left

    @property
    def seconds(self) -> float:
        """How long."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Axis:
    """Where a time lies, in percent."""

    stretches: tuple[Stretch, ...]

    @classmethod
    def over(cls, rows: Iterable[Row]) -> Axis:
        """The axis of these rows."""
        parts = [part for row in rows for part in row.parts]
        if not parts:
            return cls((Stretch(0.0, 1.0, 0.0, 100.0),))
        low, high = min(part.start for part in parts), max(part.end for part in parts)
        pieces = list(_pieces(low, max(high, low + 0.001), parts))
        work = sum(end - start for start, end, folded in pieces if not folded)
        room = 100.0 * (1 - FOLDED * sum(folded for *_, folded in pieces))
        found, left = [], 0.0
        for start, end, folded in pieces:
            right = left + (100 * FOLDED if folded else (end - start) / work * room)
            found.append(Stretch(start, end, left, right, folded))
            left = right
        return cls(tuple(found))

    def place(self, at: float) -> float:
        """Percent from the left."""
        for each in self.stretches:
            if at <= each.end:
                inside = (at - each.start) / each.seconds if each.seconds > 0 else 0.0
                return each.left + max(0.0, inside) * each.width
        return 100.0

    def span(self, part: Part) -> tuple[float, float]:
        """Left and width of a part, in percent; wide enough to be seen."""
        left = self.place(part.start)
        width = max(LEAST, self.place(part.end) - left)
        return min(left, 100.0 - width), width

    @property
    def folds(self) -> tuple[Stretch, ...]:
        """The folded stretches."""
        return tuple(each for each in self.stretches if each.folded)

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Percent and what stands there."""
        work = sum(each.seconds for each in self.stretches if not each.folded)
        step = _round(work / TICKS)
        found: list[tuple[float, str]] = []
        for each in self.stretches:
            if each.folded:
                continue
            count = math.ceil(each.start / step)
            while count * step <= each.end:
                at = self.place(count * step)
                if (not found or at - found[-1][0] >= APART) and at <= 100 - APART / 2:
                    found.append((at, clock(count * step, step)))
                count += 1
        return tuple(found)


def _pieces(low: float, high: float, parts: Sequence[Part]) -> Iterator[tuple[float, float, bool]]:
    """The axis cut where nothing but waiting goes on for long: start, end, folded."""
    busy = sorted((part.start, part.end) for part in parts if part.kind not in {"wait", "pause"})
    idle, at = [], low
    for start, end in [*busy, (high, high)]:
        if start > at:
            idle.append((start - at, at, start))
        at = max(at, end)
    work = (high - low) - sum(seconds for seconds, *_ in idle)
    long = sorted(each for each in idle if work > 0 and each[0] > max(SHORTEST, LONG * work))[-MOST_FOLDS:]
    at = low
    for _, start, end in sorted(long, key=lambda each: each[1]):
        if start > at:
            yield at, start, False
        yield start, end, True
        at = end
    if high > at:
        yield at, high, False


def _round(seconds: float) -> float:
    """The next of 1, 2, 5 times a power of ten, or a round number of minutes or hours."""
    if seconds >= 30:
        return next((each for each in (60, 120, 300, 600, 1800, 3600, 7200, 21600) if each >= seconds), 86_400.0)
    power = 10.0 ** math.floor(math.log10(max(seconds, 1e-6)))
    return next(each * power for each in (1, 2, 5, 10) if each * power >= seconds)


def clock(seconds: float, step: float = 1.0) -> str:
    """A time since the beginning, or a length, as people say it."""
    if seconds >= 3600:
        return f"{int(seconds // 3600)}h {int(seconds % 3600 // 60):02}m"
    if seconds >= 60:
        return f"{int(seconds // 60)}m {int(seconds % 60):02}s"
    digits = max(0, min(3, -math.floor(math.log10(step)))) if step < 1 else 0
    return f"{seconds:.{digits}f} s"


@dataclass(frozen=True, slots=True)
class Cell:
    """Some steps of a long run, in the strip above it: where they begin, and the worst that is in them."""

    first: int
    last: int
    kind: Worst
    shown: bool
    rests: bool
