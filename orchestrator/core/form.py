"""A form that the user wrote: quoted words with holes in braces, such as `'Dinner at {restaurant}'`. A value that fills it is the
user's: he said what it is to say, and that its holes are to be filled with what is found.

What stands in a hole is a line of at most 80 characters, and points at nothing (no address, URL, account or path). All is linear
in the length of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from orchestrator.core.identifier import identifiers, plain

_QUOTED = re.compile(
    r"(?<!\w)'((?:[^'\n]|(?<=\w)'(?=\w)){1,400})'(?!\w)|\"([^\"\n]{1,400})\"|“([^”\n]{1,400})”|「([^」\n]{1,400})」|`([^`\n]{1,400})`"
)
_HOLE = re.compile(r"\{([^\W\d][\w ]{0,40})\}")
_FILLING = 80
_LETTERS = 4
_MOST = 32


def forms(text: str) -> Iterator[tuple[str, ...]]:
    """The forms in a text, each as literal, hole, literal, ..., literal. A form with nearly nothing but holes is none."""
    for count, found in enumerate(_QUOTED.finditer(text)):
        if count >= _MOST:
            return
        parts = _HOLE.split(next(filter(None, found.groups()), ""))
        literals = parts[::2]
        if len(parts) > 1 and all(literals[1:-1]) and sum(map(str.isalnum, "".join(literals))) >= _LETTERS:
            yield tuple(parts)


def fills(form: tuple[str, ...], value: str) -> bool:
    """Is the value this form, its holes filled? Holes of one name must be filled alike."""
    if "\n" in value or "\r" in value:
        return False
    rest, filled = plain(value), dict[str, str]()
    first, holes, literals = _tidy(form[0]).lstrip(), form[1::2], [_tidy(each) for each in form[2::2]]
    if not rest.startswith(first):
        return False
    rest = rest[len(first) :]
    literals[-1] = literals[-1].rstrip()
    for hole, literal in zip(holes, literals, strict=True):
        last = literal is literals[-1]
        at = (len(rest) - len(literal) if rest.endswith(literal) else -1) if last else rest.find(literal)
        filling = rest[: max(at, 0)].strip()
        if not filling or len(filling) > _FILLING or filled.setdefault(hole, filling) != filling:
            return False
        rest = rest[at + len(literal) :]
    return not any(True for each in filled.values() for _ in identifiers(each))


def _tidy(literal: str) -> str:
    """The strict reading of a piece, the spaces at its ends kept."""
    inner = plain(literal)
    if not inner:
        return " " if literal else ""
    return (" " if literal[0].isspace() else "") + inner + (" " if literal[-1].isspace() else "")
