"""A body on its way in: unpacked piece by piece, and never more than the bound of it, nor later than the deadline."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final, TypeAlias

import httpx

from orchestrator.egress.rules import Refused

PIECE: Final = 64 * 1024
"""Bytes that are unpacked at once: 16 KiB on the wire may be 16 MiB."""
Broken: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Around each read: names what the network raises."""
PACKINGS: Final = frozenset({"gzip", "x-gzip", "deflate"})
Unpack: TypeAlias = Callable[[bytes], Iterator[bytes]]
"""Unpacks the next bytes of one body, in pieces of at most PIECE bytes. Raises Refused (BAD_ENCODING)."""


class Bounded(httpx.AsyncByteStream):
    """`end` is on the event loop's clock. Raises Refused (TOO_LARGE, BAD_ENCODING), and httpx.ReadTimeout at the end."""

    def __init__(
        self, inner: httpx.AsyncByteStream, packing: str, largest: int | None, end: float | None, broken: Broken
    ) -> None:
        self._inner, self._end, self._broken = inner, end, broken
        self._largest = largest
        self._unpack = unpacker(packing)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = aiter(self._inner)
        packed = plain = 0
        while (piece := await self._next(pieces)) is not None:
            packed += len(piece)
            self._bound(packed)
            for part in self._unpack(piece):
                plain += len(part)
                self._bound(plain)
                yield part

    async def aclose(self) -> None:
        """Hang up."""
        await self._inner.aclose()

    async def _next(self, pieces: AsyncIterator[bytes]) -> bytes | None:
        with self._broken():
            async with asyncio.timeout_at(self._end):
                return await anext(pieces, None)

    def _bound(self, size: int) -> None:
        if self._largest is not None and size > self._largest:
            raise Refused("TOO_LARGE", f"the answer is larger than {self._largest} bytes; not read further")


def unpacker(packing: str) -> Unpack:
    """For one body that is packed so. Refused for a packing that we cannot read, which was not asked for."""
    packing = packing.strip().lower()
    if packing in {"", "identity"}:
        return _as_it_is
    if packing not in PACKINGS:
        raise Refused("BAD_ENCODING", f"the answer is packed as {packing[:40]!r}, which was not asked for")
    return _Inflate(packing).feed


def _as_it_is(piece: bytes) -> Iterator[bytes]:
    yield piece


class _Inflate:
    """gzip (any number of members) or deflate (with zlib's header, or raw as some servers send it)."""

    def __init__(self, packing: str) -> None:
        self._deflate = packing == "deflate"
        self._wbits = zlib.MAX_WBITS if self._deflate else zlib.MAX_WBITS | 16
        self._inflate = zlib.decompressobj(self._wbits)
        self._head = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._inflate.eof:
                if self._deflate:
                    return
                self._inflate = zlib.decompressobj(self._wbits)
            part = self._part(data)
            data = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
            if part:
                yield part

    def _part(self, data: bytes) -> bytes:
        """The next part. Whether there is a header of zlib's shows in the first two bytes, which may come one by one."""
        before, headless = self._head, len(self._head) < 2
        self._head = (before + data[:2])[:2]
        try:
            return self._inflate.decompress(data, PIECE)
        except zlib.error as error:
            if self._deflate and headless:
                self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
                return self._part(before + data)
            raise Refused("BAD_ENCODING", f"the answer's packing is broken: {error}") from error
