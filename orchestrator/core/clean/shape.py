"""JSON in a body: read it, see whether it confesses an error, and clean its strings without changing its shape."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.core.clean.value import plain
from orchestrator.core.quick import quick
from orchestrator.core.spec import Json

LARGEST = 1_000_000
_DECODER = json.JSONDecoder()
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_FAILED = frozenset(("error", "failed", "failure", "fail", "err"))
_CODES = ("code", "error_code", "errorCode", "errcode", "status_code", "statusCode", "type")


@quick
@dataclass(frozen=True, slots=True)
class Parsed:
    """JSON: its value and its text."""

    value: Json
    text: str


def parse(text: str) -> Parsed | None:
    """The object or array that `text` is, or None. Over 1 MB it is not read: such a body is cut anyway."""
    bare = text.strip()
    if not bare or bare[0] not in "{[" or bare[-1] not in "}]" or len(text) > LARGEST:
        return None
    odd: list[str] = []
    naming = bare.rfind("NaN") >= 0 or bare.rfind("Infinity") >= 0
    try:
        value, end = (_naming(odd) if naming else _DECODER).raw_decode(bare)
    except (ValueError, RecursionError):
        return None
    if end < len(bare):
        return None
    return write(value) if odd or ("\\" in bare and "\\u" in bare) else Parsed(value, bare)


def _naming(odd: list[str]) -> json.JSONDecoder:
    """Reads NaN and the infinities as their names, and adds them to `odd`."""

    def constant(name: str) -> str:
        odd.append(name)
        return name

    return json.JSONDecoder(parse_constant=constant)


def write(value: Json) -> Parsed:
    """`value` as readable JSON; always valid: what has no JSON form is described (see `plain`)."""
    try:
        return Parsed(value, _ENCODER.encode(value))
    except (TypeError, ValueError, RecursionError):
        value = plain(value)
        return Parsed(value, _ENCODER.encode(value))


def scrub(value: Json, clean: Callable[[str], str]) -> Json:
    """`value` with `clean` applied to every string in it, keys too. Two keys that become equal both stay."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        fresh: dict[str, Json] = {}
        for key, item in value.items():
            name = clean(key) if isinstance(key, str) else str(key)
            while name in fresh:
                name += "'"
            fresh[name] = scrub(item, clean)
        return fresh
    if isinstance(value, Sequence):
        return [scrub(item, clean) for item in value]
    return value


def confession(value: Json) -> tuple[bool, str | None]:
    """Whether an object says of itself that it is an error, and the code it gives.

    Known shapes: `status` (or `result`) = "error" and its words; `success`, `ok` = false; `isError` = true; an `error` that is
    not empty beside no data (JSON-RPC, most web APIs).
    """
    if not isinstance(value, Mapping):
        return False, None
    error = value.get("error")
    state = value.get("status")
    failed = isinstance(state, str) and state.lower() in _FAILED
    failed = failed or value.get("success") is False or value.get("ok") is False or value.get("isError") is True
    if not failed and error and isinstance(error, str | Mapping):
        failed = not any(value.get(name) for name in ("data", "result", "results", "items"))
    if not failed:
        return False, None
    inner = error if isinstance(error, Mapping) else {}
    return True, _code(value) or _code(inner) or (as_code(error) if isinstance(error, str) else None)


def _code(value: Mapping[str, Json]) -> str | None:
    for name in _CODES:
        code = value.get(name)
        if isinstance(code, int) and not isinstance(code, bool) and abs(code) < 10**9:
            return str(code)
        if isinstance(code, str) and (named := as_code(code)) is not None:
            return named
    return None


def as_code(word: str) -> str | None:
    """`word` if it can stand as an error code: one word of up to 64 letters, digits, `_ - .`; its case is kept."""
    word = word.strip()
    good = 0 < len(word) <= 64 and word.isascii() and word.replace("_", "").replace("-", "").replace(".", "").isalnum()
    return word if good else None
