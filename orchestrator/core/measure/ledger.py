"""Who showed which value first, and who uses it: the bookkeeping behind the backward slice of a run."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import islice
from typing import Final, NamedTuple

from orchestrator.core.events import Action
from orchestrator.core.measure.clauses import lazy
from orchestrator.core.measure.look import Look, flat, value_of
from orchestrator.core.measure.tokens import Key, stands_out
from orchestrator.core.measure.values import Asked, Wanted, asked, fields, shown_in

_NEAREST: Final = 64  # numbers of the run that are compared with one rounded number
_MANY: Final = 64  # values that are asked for: to look for each of them costs more than to read closely
_SPELT: Final = ("w:", "c:")  # words and CJK runs; numbers, dates and times are spelt in many ways
_DIGITS: Final = 2  # a rounding keeps at least two significant digits


class Source(NamedTuple):
    """An Observation: the turn (from 1) that called for it, its Action, how that went, and what the tool returned."""

    turn: int
    action: Action
    id: str
    status: str
    content: str


class Story(NamedTuple):
    """A run as its backward slice sees it: `written` gives what each of its turns wrote."""

    goal: str
    final: str
    sources: Sequence[Source]
    turns: int
    written: Callable[[], Sequence[str]]


class Ledger:
    """The values of one run: each belongs to the first success that shows it or, if none does, to the first error.

    A value is looked for when it is asked for. Texts are read closely where a look does not tell, and then of words those are entered
    that the Final or an input asks for; `all_words` enters the others too.
    """

    def __init__(self, story: Story, *, all_words: bool = False) -> None:
        self._story = story
        self._sources = story.sources
        self._all_words = all_words
        self._order = _successes_first(story.sources)
        self._asked: dict[int, Asked] = {}
        self._looked_for: dict[Key, int | None] = {}
        self._reads: dict[int, tuple[set[Key], set[Decimal]]] = {}

    def used_by_final(self) -> frozenset[int]:
        """The Observations whose values stand in the Final, or were computed into it."""
        return self._used_by(asked(self._story.final), self._story.turns)

    def used_by_input(self, index: int) -> frozenset[int]:
        """The successes of earlier turns whose values stand in this Action's input, or were computed into it."""
        turn, sources = self._sources[index].turn, self._sources
        found = self._used_by(self._given(index), turn)
        return frozenset([each for each in found if sources[each].turn < turn and sources[each].status == "success"])

    def _used_by(self, given: Asked, until: int) -> frozenset[int]:
        keys, numbers = given
        found = self._shown_to(keys)
        return found | self._computed(frozenset(self._unseen(numbers)), until) if numbers else found

    def _given(self, index: int) -> Asked:
        """What the input of this Action asks for."""
        found = self._asked.get(index)
        if found is None:
            found = self._asked[index] = asked(*fields(self._sources[index].action.input))
        return found

    def _shown_to(self, keys: frozenset[Key]) -> frozenset[int]:
        """The owners of these keys; a number that nobody shows exactly may be a rounding of one."""
        if self._all_words or len(self._looked_for) + len(keys) > _MANY:
            return self._read_for(keys)
        return frozenset([owner for owner in map(self._look_for, keys) if owner is not None])

    def _read_for(self, keys: frozenset[Key]) -> frozenset[int]:
        """`_shown_to`, all Observations read closely."""
        found: set[int] = set()
        for key in keys - self._goal:
            if key in self._owners:
                found.add(self._owners[key])
            elif isinstance(key, Decimal) and key not in self._seen:
                near = self._near(key, self._owned)
                if near:
                    found.add(min(self._owners[each] for each in near))
        return frozenset(found)

    def _look_for(self, key: Key) -> int | None:
        """The owner of a key: the first that shows it, if neither the goal nor its Action's input holds it."""
        if key not in self._looked_for:
            spelt = isinstance(key, str) and key[:2] in _SPELT
            self._looked_for[key] = self._first(str(key), str(key)[2:]) if spelt else self._first_of_value(key)
        return self._looked_for[key]

    def _first(self, key: str, word: str) -> int | None:
        order = self._order if stands_out(word) else self._with_capitals
        if not order:
            return None
        flattened = flat(word)
        given = self._goal_look.holds(word, flattened)
        if key in self._goal if given is None else given:
            return None
        looks = self._looks
        for index in order:
            shown = looks[index].holds(word, flattened)
            if shown is not False and key not in self._given(index)[0] and (shown or key in self._read(index)[0]):
                return index
        return None

    def _first_of_value(self, key: Key) -> int | None:
        """`_first` of a number, date or time: Observations are read only where it could stand."""
        looks, value = self._looks, value_of(key)
        if self._goal_look.may_show(value) and key in self._goal:
            return None
        maybe = [index for index in self._order if looks[index].may_show(value)]
        for index in maybe:
            if key in self._read(index)[0]:
                return index
        if not isinstance(key, Decimal) or any(key in self._read(index)[1] for index in maybe):
            return None
        near = self._near(key, self._owned) if self._may_be_near(key) else ()
        return min(self._owners[each] for each in near) if near else None

    def _may_be_near(self, number: Decimal) -> bool:
        """Could an Observation show a number of which this one is a rounding?"""
        value, half = abs(float(number)), float(_half(number))
        return any(look.may_show_between(value - half, value + half) for look in self._looks)

    @lazy
    def _looks(self) -> list[Look]:
        return [Look(source.content) for source in self._sources]

    @lazy
    def _with_capitals(self) -> list[int]:
        """The Observations where a word that tells nothing elsewhere may be a name."""
        return [index for index in self._order if self._looks[index].inner_capitals]

    @lazy
    def _goal_look(self) -> Look:
        return Look(self._story.goal)

    @lazy
    def _goal(self) -> frozenset[Key]:
        return asked(self._story.goal)[0]

    def _read(self, index: int) -> tuple[set[Key], set[Decimal]]:
        """What an Observation shows that neither the goal nor the Action's own input holds; and all its numbers."""
        if index in self._reads:
            return self._reads[index]
        goal, (own, _) = self._goal, self._given(index)
        found, runs = shown_in(self._sources[index].content, self._words)
        shown = {run for run in runs if run not in goal and run not in own}
        seen: set[Decimal] = set()
        for keys, _, numbers in found:
            seen.update(numbers)
            if goal.isdisjoint(keys) and own.isdisjoint(keys):
                shown.update(keys)
        self._reads[index] = shown, seen
        return shown, seen

    @lazy
    def _words(self) -> Wanted | None:
        """All that the Final and the inputs ask for."""
        if self._all_words:
            return None
        final, _ = asked(self._story.final)
        return Wanted(final.union(*(self._given(index)[0] for index in self._order)) - self._goal)

    @lazy
    def _owners(self) -> dict[Key, int]:
        """The owner of each value, all texts read closely."""
        owners: dict[Key, int] = {}
        for index in self._order:
            for key in self._read(index)[0]:
                owners.setdefault(key, index)
        return owners

    @lazy
    def _owned(self) -> list[Decimal]:
        return sorted(key for key in self._owners if isinstance(key, Decimal))

    @lazy
    def _seen(self) -> frozenset[Decimal]:
        """All numbers of all Observations."""
        return frozenset[Decimal]().union(*(self._read(index)[1] for index in self._order))

    @lazy
    def _sorted(self) -> list[Decimal]:
        return sorted(self._seen)

    def _unseen(self, numbers: Iterable[tuple[Decimal, ...]]) -> Iterator[Decimal]:
        """Those of these numbers that neither an Observation nor the goal holds: they were computed."""
        for variants in numbers:
            if not any(map(self._is_seen, variants)) and self._goal.isdisjoint(variants):
                yield from variants

    def _is_seen(self, number: Decimal) -> bool:
        """Does an Observation show this number, or one of which it is a rounding?"""
        if self._all_words or len(self._looked_for) > _MANY:
            return number in self._seen or bool(self._near(number, self._sorted))
        value = value_of(number)
        maybe = (index for index, look in enumerate(self._looks) if look.may_show(value))
        if any(number in self._read(index)[1] for index in maybe):
            return True
        return self._may_be_near(number) and bool(self._near(number, self._sorted))

    @staticmethod
    def _near(number: Decimal, known: list[Decimal]) -> tuple[Decimal, ...]:
        """The known numbers of which this one is a rounding to two or more significant digits."""
        if not number or not known:
            return ()
        half = _half(number)
        first = bisect_left(known, number - half)
        return tuple(each for each in islice(known, first, first + _NEAREST) if abs(each - number) <= half)

    @lazy
    def _written(self) -> list[frozenset[Key]]:
        """For each turn, what it writes."""
        return [asked(text)[0] for text in self._story.written()]

    @lazy
    def _whole(self) -> Ledger:
        """With all words: what a turn writes of an Observation need not be asked for."""
        return self if self._all_words else Ledger(self._story, all_words=True)

    def _computed(self, numbers: frozenset[Decimal], until: int) -> frozenset[int]:
        """The Observations whose values were stated together with one of these numbers, in a turn after theirs and up to `until`."""
        if not numbers:
            return frozenset()
        return frozenset(
            owner
            for turn, keys in enumerate(self._written[:until], 1)
            if not numbers.isdisjoint(keys)
            for owner in self._whole._shown_to(keys)  # noqa: SLF001  one of its own
            if self._sources[owner].turn < turn
        )


def _successes_first(sources: Sequence[Source]) -> Sequence[int]:
    """Their indexes, in the order in which they claim a value."""
    failed = [index for index, source in enumerate(sources) if source.status != "success"]
    if not failed:
        return range(len(sources))
    return [*(index for index, source in enumerate(sources) if source.status == "success"), *failed]


def _half(number: Decimal) -> Decimal:
    """Half a unit of its last significant digit, of which there are at least two."""
    digits = len(number.normalize().as_tuple().digits)
    return Decimal(5).scaleb(number.adjusted() - max(digits, _DIGITS))
