"""Known so far: facts that the tools declare, taken by code out of their results, in short lines at the end of the prompt.

A tool maps a label to a JSON Pointer (RFC 6901) into its data. What is found is cleaned to one short line; the newest value of
a label wins, and its step is named so that the model can look it up. Nothing here is a summary by a model: no guess enters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.core.clean.steps import one_line
from orchestrator.core.quick import quick
from orchestrator.core.spec import Json, Language

_VALUE = 200
_LABEL = 60
_MOST = 64
_HEADER: Mapping[Language, str] = {"en": "Known so far:", "zh": "【当前已知信息】"}


@quick
@dataclass(frozen=True, slots=True)
class Fact:
    """The value of a label, as one clean line, and the step (from 1) whose Observation showed it last."""

    value: str
    step: int


def point(data: Json, pointer: str) -> object:
    """What an RFC 6901 pointer finds in `data`: "" is the whole, "/a/0/b" a path, `~1` a slash, `~0` a tilde. Raises LookupError."""
    if pointer and not pointer.startswith("/"):
        raise LookupError(f"the JSON Pointer {pointer!r} must be empty or begin with a slash")
    found: Json = data
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found[key]
        elif isinstance(found, Sequence) and not isinstance(found, str) and _is_index(key):
            found = found[int(key)]
        else:
            raise LookupError(f"{pointer!r} finds nothing at {key!r}")
    return found


def _is_index(key: str) -> bool:
    return key.isascii() and key.isdigit() and len(key) < 10 and (key == "0" or key[0] != "0")


def facts(data: Json, pointers: Mapping[str, str]) -> Mapping[str, str]:
    """The declared facts that `data` holds: label to value, one clean line each. What is absent, empty or null is left out.

    Numbers and booleans are written as in JSON; a list of plain values is joined by commas; an object is no fact.
    """
    known: dict[str, str] = {}
    for label, pointer in pointers.items():
        try:
            value = _said(point(data, pointer))
        except LookupError:
            continue
        if value:
            known[one_line(label, _LABEL)] = value
    return known


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return one_line(value, _VALUE)
    if isinstance(value, int):
        return str(value) if value.bit_length() < 512 else ""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return one_line(", ".join(filter(None, map(_part, value[:20]))), _VALUE)
    return ""


def _part(value: object) -> str:
    return _said(value) if isinstance(value, str | int | float) else ""


def fold(known: Mapping[str, Fact], new: Mapping[str, str], step: int) -> Mapping[str, Fact]:
    """`known` with the facts of one Observation of `step`. A label seen again moves to the end; at most 64 stay, the newest."""
    if not new:
        return known
    kept = {label: fact for label, fact in known.items() if label not in new}
    kept |= {label: Fact(value, step) for label, value in new.items()}
    return kept if len(kept) <= _MOST else dict(list(kept.items())[-_MOST:])


def summary(known: Mapping[str, Fact], limit_chars: int, language: Language = "en") -> str:
    """The lines of the state summary, header first, within `limit_chars`; "" when nothing is known. The oldest fall out first."""
    colon = "：" if language == "zh" else ": "
    room = limit_chars - len(_HEADER[language])
    lines: list[str] = []
    for label, fact in reversed(list(known.items())):
        line = f"{label}{colon}{fact.value} (step {fact.step})"
        if len(line) + 1 > room:
            break
        room -= len(line) + 1
        lines.append(line)
    return "\n".join((_HEADER[language], *reversed(lines))) if lines else ""
