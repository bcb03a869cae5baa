"""Who showed which value first, and who uses it: the bookkeeping behind the backward slice of a run."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Final

from orchestrator.core.events import Observation
from orchestrator.core.measure.clauses import lazy, nfkc
from orchestrator.core.measure.gap import TurnText
from orchestrator.core.measure.tokens import Key, stands_out, stands_plainly
from orchestrator.core.measure.values import Wanted, asked, shown_in

_INNER_CAPITAL: Final = re.compile(r"[A-Z](?<=\w.)")
_NEAREST: Final = 64  # numbers of the run that are compared with one rounded number
_MANY: Final = 64  # values that are asked for: to look for each of them costs more than to read closely
_DIGITS: Final = 2  # a rounding keeps at least two significant digits


@dataclass(frozen=True, slots=True)
class Source:
    """An Observation, the turn (from 1) that called for it, and the values of its Action's input."""

    turn: int
    observation: Observation
    input: tuple[str, ...]

    @property
    def status(self) -> str:
        """Success or error."""
        return self.observation.status


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a text asks for; `computed` are its numbers that neither an Observation nor the goal holds."""

    keys: frozenset[Key]
    computed: frozenset[Decimal]


class Ledger:
    """The values of one run: each belongs to the first success that shows it or, if none does, to the first error.

    Of words, those are entered that the Final or an input asks for; `all_words` enters the others too.
    """

    def __init__(
        self, turns: Sequence[TurnText], sources: Sequence[Source], goal: str, *, all_words: bool = False
    ) -> None:
        self._turns = turns
        self._sources = sources
        self._text = goal
        self._goal, _ = asked(goal)
        self._given = tuple(asked(*source.input) for source in sources)
        self._final = asked(turns[-1].final or "")
        wanted = frozenset[Key]().union(self._final[0], *(keys for keys, _ in self._given)) - self._goal
        self._words = None if all_words else Wanted(wanted)
        self._wanted = _spellings(wanted)
        self._owners: dict[Key, int] = {}
        self._seen: set[Decimal] = set()
        for status in ("success", "error"):
            for index, source in enumerate(sources):
                if source.status == status:
                    self._enter(index, source)
        self._owned = sorted(key for key in self._owners if isinstance(key, Decimal))
        self._sorted = sorted(self._seen)

    def _enter(self, index: int, source: Source) -> None:
        own, _ = self._given[index]
        content = source.observation.content
        shown = self._surely_shown(content, own)
        if shown is None:
            self._read_closely(index, content, own)
            return
        for key in shown:
            self._owners.setdefault(key, index)

    def _surely_shown(self, content: str, own: frozenset[Key]) -> tuple[str, ...] | None:
        """What of all that is asked for stands in this text, where a look tells so much; None when it must be read closely."""
        if (
            self._wanted is None
            or len(self._wanted) > _MANY
            or (content.lstrip()[:1] in ("{", "[") and "\\" in content)
        ):
            return None
        text = nfkc(content)
        folded = text.casefold()
        flat = _flat(folded)
        found = {
            key: spelling
            for key, spelling in self._wanted.items()
            if key not in own and key not in self._owners and spelling in flat
        }
        if not any(map(stands_out, found.values())) and not (found and _INNER_CAPITAL.search(text)):
            return ()
        plainly = all(stands_plainly(key[2:], folded) for key in found)
        return tuple(found) if plainly else None

    def _read_closely(self, index: int, content: str, own: frozenset[Key]) -> None:
        found, runs = shown_in(content, self._words)
        owners, goal, seen = self._owners, self._goal, self._seen
        for keys, _, numbers in found:
            seen.update(numbers)
            if goal.isdisjoint(keys) and own.isdisjoint(keys):
                for key in keys:
                    owners.setdefault(key, index)
        for run in runs:
            if run not in goal and run not in own:
                owners.setdefault(run, index)

    def used_by_final(self) -> frozenset[int]:
        """The Observations whose values stand in the Final, or were computed into it."""
        asks = self._ask(*self._final)
        return self._shown_to(asks.keys) | self._computed(asks.computed, len(self._turns))

    def used_by_input(self, index: int) -> frozenset[int]:
        """The successes of earlier turns whose values stand in this Action's input, or were computed into it."""
        source = self._sources[index]
        asks = self._ask(*self._given[index])
        found = self._shown_to(asks.keys) | self._computed(asks.computed, source.turn)
        return frozenset(
            each for each in found if self._sources[each].turn < source.turn and self._sources[each].status == "success"
        )

    def _ask(self, keys: frozenset[Key], numbers: frozenset[tuple[Decimal, ...]]) -> _Asked:
        computed = (
            variants
            for variants in numbers
            if self._goal.isdisjoint(variants)
            and not any(each in self._seen or self._near(each, self._sorted) for each in variants)
        )
        return _Asked(keys, frozenset(each for variants in computed for each in variants))

    def _shown_to(self, keys: Iterable[Key]) -> frozenset[int]:
        """The owners of these keys; a number that nobody shows exactly may be a rounding of one."""
        found: set[int] = set()
        for key in keys:
            if key in self._owners:
                found.add(self._owners[key])
            elif isinstance(key, Decimal) and key not in self._seen and key not in self._goal:
                near = self._near(key, self._owned)
                if near:
                    found.add(min(self._owners[each] for each in near))
        return frozenset(found)

    @staticmethod
    def _near(number: Decimal, known: list[Decimal]) -> tuple[Decimal, ...]:
        """The known numbers of which this one is a rounding to two or more significant digits."""
        digits = len(number.normalize().as_tuple().digits)
        if not number or not known:
            return ()
        half = Decimal(5).scaleb(number.adjusted() - max(digits, _DIGITS))
        first = bisect_left(known, number - half)
        return tuple(each for each in islice(known, first, first + _NEAREST) if abs(each - number) <= half)

    @lazy
    def _stated(self) -> tuple[tuple[frozenset[Key], frozenset[int]], ...]:
        """For each turn, what it writes and the Observations whose values it states."""
        written = (asked(turn.written)[0] for turn in self._turns)
        whole = self if self._words is None else Ledger(self._turns, self._sources, self._text, all_words=True)
        return tuple((keys, whole._shown_to(keys)) for keys in written)  # noqa: SLF001  one of its own

    def _computed(self, numbers: frozenset[Decimal], until: int) -> frozenset[int]:
        """The Observations whose values were stated together with one of these numbers, in a turn after theirs and up to `until`."""
        if not numbers:
            return frozenset()
        return frozenset(
            owner
            for turn, (keys, owners) in enumerate(self._stated[:until], 1)
            if not numbers.isdisjoint(keys)
            for owner in owners
            if self._sources[owner].turn < turn
        )


def _spellings(wanted: Iterable[Key]) -> dict[str, str] | None:
    """What is asked for, as it must be spelt to be found; None when a number, date or time is: those are spelt in many ways."""
    found: dict[str, str] = {}
    for key in wanted:
        if isinstance(key, Decimal) or key[:2] not in ("w:", "c:"):
            return None
        found[key] = _flat(key[2:])
    return found


def _flat(text: str) -> str:
    """The text without what reading may take out of the middle of a token: signs and separators of digits."""
    return text.replace("-", "").replace("\u2212", "").replace(",", "")
