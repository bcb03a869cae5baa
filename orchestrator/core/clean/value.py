"""Any Python value to JSON, without running foreign code that could hang: generators are not iterated, objects not asked."""

from __future__ import annotations

import math
import types
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from pathlib import PurePath

from orchestrator.core.spec import Json

_DEPTH = 60
_AS_TEXT = frozenset(("datetime", "uuid", "ipaddress", "zoneinfo", "fractions"))  # by name: core imports no clock
_MAX_BITS = 14_000  # Python refuses to print integers of more than 4,300 digits


def plain(value: object) -> Json:
    """`value` as JSON. What has no JSON form is described in brackets, never left out.

    NaN and the infinities become the strings "NaN", "Infinity", "-Infinity"; sets become sorted lists; nesting beyond 60
    levels and cycles are named where they stand.
    """
    return _plain(value, (), _DEPTH)


def _plain(value: object, path: tuple[int, ...], depth: int) -> Json:
    if value is None or isinstance(value, bool | str):
        return value if value is None or isinstance(value, bool) else str.__str__(value)
    if isinstance(value, int):
        return _integer(int.__int__(value))
    if isinstance(value, float):
        return _real(float.__float__(value))
    if id(value) in path:
        return "[cycle: this value contains itself]"
    if depth == 0:
        return f"[nested deeper than {_DEPTH} levels]"
    inner = (*path, id(value))
    if isinstance(value, Mapping):
        return {_key(key): _plain(item, inner, depth - 1) for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return _in_order(_plain(item, inner, depth - 1) for item in value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_plain(item, inner, depth - 1) for item in value]
    if isinstance(value, Enum):
        return _plain(value.value, inner, depth - 1)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name, None), inner, depth - 1) for field in fields(value)}
    return _leaf(value)


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    inner = _plain(key, (), 3)
    if inner is None or isinstance(inner, bool):
        return {None: "null", True: "true", False: "false"}[inner]
    return str(inner)


def _integer(value: int) -> Json:
    if value.bit_length() > _MAX_BITS:
        return f"[integer of about {int(value.bit_length() * 0.30103) + 1} digits]"
    return value


def _real(value: float) -> Json:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _in_order(items: Iterable[Json]) -> Json:
    return sorted(items, key=lambda item: (type(item).__name__, str(item)))


def _leaf(value: object) -> Json:
    if type(value).__module__ in _AS_TEXT or isinstance(value, Decimal | PurePath):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _octets(bytes(value))
    if isinstance(value, types.CoroutineType):
        value.close()
        return "[coroutine: the tool returned it without awaiting it]"
    if isinstance(value, types.GeneratorType | types.AsyncGeneratorType):
        return "[generator: the tool returned it without reading it; return a list]"
    if isinstance(value, BaseException):
        return f"[{type(value).__name__}: the tool returned an exception; raise it]"
    return f"[object of type {type(value).__name__}: it has no JSON form]"


def _octets(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return f"[{len(raw)} bytes that are no text]"
