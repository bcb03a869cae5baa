"""Observation-error propagation: when a tool fails, does the model take notice in its next turn?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from orchestrator.core.events import Action, Observation
from orchestrator.core.measure.clauses import says_something
from orchestrator.core.measure.families import CODES, PARTS, STATUS, WORDS, Family
from orchestrator.core.measure.gap import TurnText
from orchestrator.core.measure.names import ToolName, parts, spelling
from orchestrator.core.measure.notice import Said, either, number, words
from orchestrator.core.measure.tokens import Key
from orchestrator.core.measure.values import shown


class Notice(StrEnum):
    """What the next turn made of an error Observation."""

    PROPAGATED = "propagated"
    IGNORED = "ignored"
    UNSTATED = "unstated"


@dataclass(frozen=True, slots=True)
class ErrorObservation:
    """One sample: the action that failed, and whether the next turn took notice."""

    id: str
    result: Notice


_FAMILY: Final = {family: re.compile(either(spoken)) for family, spoken in WORDS.items()}
_STATUS: Final = re.compile(r"(?<![0-9])[45][0-9]{2}(?![0-9])")
_LEAST_DIGITS: Final = 3


def error_observations(
    turn: TurnText, next_turn: TurnText, tools: tuple[ToolName, ...], goal: str
) -> tuple[ErrorObservation, ...]:
    """A sample for each error Observation of the turn, by what the turn after it says."""
    failed = tuple(each for each in turn.observations if each.status == "error")
    written = "\n".join((next_turn.written, next_turn.final or ""))
    if not failed or not says_something(written):
        return tuple(ErrorObservation(each.id, Notice.UNSTATED) for each in failed)
    said = Said(written, goal)
    if len(failed) == 1:
        noticed = {failed[0].id} if said.a_failure() or _noticed(failed[0], said) else set()
    else:
        noticed = _noticed_of_several(failed, turn.actions, tools, said)
    return tuple(
        ErrorObservation(each.id, Notice.PROPAGATED if each.id in noticed else Notice.IGNORED) for each in failed
    )


def _noticed_of_several(
    failed: tuple[Observation, ...], actions: tuple[Action, ...], tools: tuple[ToolName, ...], said: Said
) -> set[str]:
    """Which of several failed calls are noticed: if the text names some of them, only those can be."""
    inputs = {action.id: shown(action.input) for action in actions}
    naming = said.naming(tools, {each.id: (each.tool, keys) for each, keys in _own(failed, inputs)})
    named = {action_id for action_id, places in naming.items() if places.starts}
    meant = [each for each in failed if not named or each.id in named]
    return {each.id for each in meant if said.a_failure_beside(naming[each.id]) or _noticed(each, said)}


def _own(
    failed: tuple[Observation, ...], inputs: dict[str, frozenset[Key]]
) -> Iterable[tuple[Observation, frozenset[Key]]]:
    """Each failed call with the values of its input that no other failed call has."""
    shared = Counter(key for each in failed for key in inputs.get(each.id, ()))
    for each in failed:
        yield each, frozenset(key for key in inputs.get(each.id, frozenset()) if shared[key] == 1)


def _noticed(error: Observation, said: Said) -> bool:
    """Does the text hold the error's code, a word of its family, or all the words of a code of no family?"""
    code = tuple(parts(error.code or ""))
    families = families_of(error.code) if code else _families_in(error.content)
    if any(said.has(_FAMILY[family]) for family in families):
        return True
    if any(
        len(part) >= _LEAST_DIGITS and part.isdecimal() and said.has_number(number(part)) for part in _numbers(code)
    ):
        return True
    if not code or all(map(str.isdecimal, code)):
        return False
    return said.has(_spelled(error.code or "")) or (not families and said.has_all(_own_words(code)))


def _numbers(code: tuple[str, ...]) -> frozenset[str]:
    return frozenset(digits for part in code for digits in re.findall("[0-9]+", part))


@lru_cache(maxsize=256)
def _spelled(code: str) -> re.Pattern[str]:
    return re.compile(spelling(code))


@lru_cache(maxsize=256)
def _own_words(code: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(words(part)) for part in code)


@lru_cache(maxsize=256)
def families_of(code: str | None) -> frozenset[Family]:
    """The families of an error code: by the status number in it, else by the table's words among its parts."""
    split = parts(code or "")
    spoken = " ".join(split)
    if spoken in CODES:
        return frozenset(CODES[spoken])
    status = {family for part in split if _STATUS.fullmatch(part) and (family := _of_status(part))}
    return frozenset(status or {PARTS[part] for part in split if part in PARTS} | _spoken(spoken))


def _families_in(content: str) -> frozenset[Family]:
    """The families of an error that has no code: those whose words, or marked numbers, stand in its content."""
    said = Said(content, "")
    status = {
        family
        for each in set(_STATUS.findall(content))
        if (family := _of_status(each)) and said.has_number(number(each))
    }
    return frozenset(status | {family for family, pattern in _FAMILY.items() if said.mentions(pattern)})


def _of_status(number: str) -> Family | None:
    return STATUS.get(int(number)) or (Family.UNAVAILABLE if number.startswith("5") else None)


def _spoken(text: str) -> set[Family]:
    return {family for family, pattern in _FAMILY.items() if pattern.search(text)}
