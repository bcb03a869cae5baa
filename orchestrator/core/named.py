"""What a name of the user's stands for: he says 'Dental check-up', the calendar says that this is event 5.

Only fields that the operator declares for a tool (`ToolSpec.names`), in records that the tool itself builds, and only where the
name means one thing in all that the run has read: whoever puts a second thing of that name there makes it mean none. What points
at somebody (an address, a URL, an account) is never resolved: who can write a record could direct it to himself.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from orchestrator.core.clean import END
from orchestrator.core.identifier import plain
from orchestrator.core.run import Run
from orchestrator.core.spec import Json, ToolSpec

_DEPTH = 6
_WORD = re.compile(r"[^\W_]+")
_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}\Z")
_SHORTEST, _SHORTEST_WIDE = 4, 2
_DIGITS = re.compile(r"#?[-+]?[\d,]{1,9}(?:\.0*)?")
_PIECE = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![a-z])")
_IDS = frozenset({"id", "ids", "no", "nr", "number", "num", "index", "key", "编号"})


def resolved(run: Run, said: Callable[[str], bool]) -> Mapping[tuple[str, str], str]:
    """(argument, value) of what the user named, and the tool that said so. `said`: do these words stand in his request?"""
    meant: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for spec, content in _contents(run):
        for record in _records(content):
            for argument, (field, name) in spec.names.items():
                word, value = _text(record, name), _text(record, field)
                if word and value:
                    meant[argument, bare(word)].setdefault(value, spec.name)
                    meant[argument, plain(word)].setdefault(value, spec.name)
    return {
        (argument, value): tool
        for (argument, name), values in meant.items()
        if len(values) == 1 and _telling(name) and said(name)
        for value, tool in values.items()
    }


def counts(value: object, argument: str) -> bool:
    """Is this a number that stands for a thing: a whole one in a text, or one given as an id? A sum or a size stands for itself."""
    if isinstance(value, str):
        return _DIGITS.fullmatch(value.strip()) is not None
    return not isinstance(value, bool) and isinstance(value, int | float) and not _IDS.isdisjoint(_words(argument))


def called(value: str | float, argument: str, text: str) -> bool:
    """Does the text call this number by what it stands for: "file 13", "files 12 and 13", "ID: 13", "#13"? Else it may be a date, a
    time or a count in the request that somebody else now uses as an id."""
    words = "|".join(map(re.escape, sorted({*_words(argument), *_IDS})))
    number = re.escape(shown(value).strip())
    pattern = (
        rf"(?:(?<![^\W_])(?:{words})s?\.?|[#№号])[\s:='\"“(]{{0,3}}(?:#?\d{{1,9}}(?:\s?,\s?|\s?、|\s(?:and|or|und)\s|和)){{0,16}}"
        rf"#?{number}(?![^\W_]|[.,:/-]\w)"
    )
    return re.search(pattern, text, re.IGNORECASE) is not None


def _words(argument: str) -> set[str]:
    """The words of an argument's name: `fileId` and `file_id` are "file" and "id"."""
    return {word.casefold() for word in _PIECE.findall(argument) if len(word) > 1}


def bare(name: str) -> str:
    """A name as people say it: its words, without the ending of a file and without numbers that merely count."""
    words = _WORD.findall(_EXTENSION.sub("", name))
    return " ".join(word for word in words if not word.isdigit() or len(words) == 1).casefold()


def _telling(name: str) -> bool:
    """Is this long enough to be a name?"""
    return len(name) >= (_SHORTEST if name.isascii() else _SHORTEST_WIDE)


def _contents(run: Run) -> Iterator[tuple[ToolSpec, str]]:
    specs = {spec.name: spec for spec in run.start.tools if spec.names}
    for step in run.steps if specs else ():
        for seen in step.observations:
            if seen.tool in specs and seen.status == "success":
                yield specs[seen.tool], seen.content


def _records(content: str) -> Iterator[Json]:
    """The records in an Observation's body. One that is no whole JSON (text, or cut to its length) has none."""
    body = content.partition("\n")[2].removesuffix(END).strip()
    if body[:1] not in {"[", "{"}:
        return
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return
    yield from _within(value, _DEPTH)


def _within(value: Any, depth: int) -> Iterator[Json]:
    if not isinstance(value, list):
        yield value
    if depth and isinstance(value, list | dict):
        for inner in value if isinstance(value, list) else value.values():
            if isinstance(inner, list | dict) or isinstance(value, list):
                yield from _within(inner, depth - 1)


def _text(record: Any, field: str) -> str:
    """What stands in a field of a record; "" names the record itself, where it is a plain value."""
    value = record.get(field) if isinstance(record, dict) else record if not field else None
    return shown(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def shown(value: str | float) -> str:
    """A value as it is compared: 10 and 10.0 are one number."""
    return str(value) if isinstance(value, str | bool) else f"{value:.12g}"
