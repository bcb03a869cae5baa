"""Arrays as PostgreSQL takes them in its binary form, from lists that say what they hold.

psycopg asks each element of a list what it is and looks up how that is written: of a batch, that was most of the client's work.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format


class Texts(list[str | None]):
    """text[]."""


class Integers(list[int]):
    """bigint[]."""


class Floats(list[float | None]):
    """float8[]."""


class Bodies(list[bytes]):
    """bytea[]."""


_HEAD = struct.Struct(">5i").pack
"""Dimensions, whether there may be NULLs, the elements' type, their number, the index of the first."""

_LENGTH = struct.Struct(">i").pack
_FLOAT = struct.Struct(">id").pack
_NULL = _LENGTH(-1)


class _ArrayDumper(Dumper):
    format = Format.BINARY
    element: int

    def dump(self, obj: Sequence[Any]) -> bytes:
        return b"".join((_HEAD(1, 1, self.element, len(obj), 1), *self.elements(obj)))

    def elements(self, values: Sequence[Any]) -> Sequence[bytes]:
        """Each with its length before it."""
        raise NotImplementedError


class _TextsDumper(_ArrayDumper):
    oid, element = 1009, 25

    def elements(self, values: Sequence[str | None]) -> Sequence[bytes]:
        return [_NULL if value is None else _LENGTH(len(text := value.encode())) + text for value in values]


class _FloatsDumper(_ArrayDumper):
    oid, element = 1022, 701

    def elements(self, values: Sequence[float | None]) -> Sequence[bytes]:
        return [_NULL if value is None else _FLOAT(8, value) for value in values]


class _IntegersDumper(_ArrayDumper):
    oid, element = 1016, 20

    def elements(self, values: Sequence[int]) -> Sequence[bytes]:
        numbers = [8] * (2 * len(values))
        numbers[1::2] = values
        return [struct.pack(f">{len(values) * 'iq'}", *numbers)]


class _BodiesDumper(_ArrayDumper):
    oid, element = 1001, 17

    def elements(self, values: Sequence[bytes]) -> Sequence[bytes]:
        pieces = [b""] * (2 * len(values))
        pieces[::2] = map(_LENGTH, map(len, values))
        pieces[1::2] = values
        return pieces


def register(adapters: AdaptersMap) -> None:
    """Teach a connection these four. It must speak UTF-8."""
    adapters.register_dumper(Texts, _TextsDumper)
    adapters.register_dumper(Integers, _IntegersDumper)
    adapters.register_dumper(Floats, _FloatsDumper)
    adapters.register_dumper(Bodies, _BodiesDumper)
