"""When a schedule is due: the five fields of cron, in UTC. Pure; knows no clock and no queue.

Fields: minute, hour, day of the month, month, weekday (0 and 7 are Sunday). Each is `*`, a number, a range `a-b`, any of these
with a step `/n`, or several with commas. As in Vixie cron, a day counts if either of day and weekday fits, where both are given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from orchestrator.errors import ConfigError

FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
HORIZON = 8 * 366
"""Days to look ahead: 29 February comes at least every eight years."""


@dataclass(frozen=True, slots=True)
class Cron:
    """One line of cron, read: the numbers that fit each field; `either`: day and weekday are both restricted."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool

    @classmethod
    def parse(cls, line: str, place: str = "cron") -> Cron:
        """Read a line. ConfigError names the place and the field."""
        words = line.split()
        if len(words) != len(FIELDS):
            raise ConfigError(
                f"{place} = {line!r}: write five fields, minute hour day month weekday, such as '0 7 * * 1-5'"
            )
        sets = [_field(word, *field, place) for word, field in zip(words, FIELDS, strict=True)]
        minutes, hours, days, months, weekdays = sets
        either = not words[2].startswith("*") and not words[4].startswith("*")
        found = cls(
            tuple(sorted(minutes)),
            tuple(sorted(hours)),
            frozenset(days),
            frozenset(months),
            frozenset(day % 7 for day in weekdays),
            either,
        )
        if next(found.after(0.0), None) is None:
            raise ConfigError(f"{place} = {line!r}: there is no such day")
        return found

    def after(self, at: float) -> Iterator[float]:
        """The times (unix seconds) after `at`, in order; ends when there is none within eight years of the one before."""
        start = datetime.fromtimestamp(at, UTC)
        day = start.replace(hour=0, minute=0, second=0, microsecond=0)
        idle = 0
        while idle <= HORIZON:
            idle += 1
            if self._fits(day):
                idle = 0
                for hour in self.hours:
                    for minute in self.minutes:
                        moment = day.replace(hour=hour, minute=minute)
                        if moment > start:
                            yield moment.timestamp()
            day += timedelta(days=1)

    def last(self, now: float, within: float) -> float | None:
        """The newest time in (now - within, now], if there is one."""
        newest = None
        for at in self.after(now - within):
            if at > now:
                break
            newest = at
        return newest

    def _fits(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_day or by_weekday if self.either else by_day and by_weekday


def _field(word: str, name: str, low: int, high: int, place: str) -> set[int]:
    found: set[int] = set()
    for part in word.split(","):
        span, _, step = part.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        try:
            start, stop = int(first), int(last or (high if step else first))
            stride = int(step or 1)
        except ValueError:
            raise ConfigError(f"{place}: the {name} {part!r} is no number, range or step") from None
        if not (low <= start <= stop <= high and stride >= 1):
            raise ConfigError(f"{place}: the {name} {part!r} must lie within {low}-{high}")
        found.update(range(start, stop + 1, stride))
    return found
