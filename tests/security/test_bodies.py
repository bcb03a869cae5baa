"""What comes back is bounded: packed, unpacked, in time, and in its head."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.egress import Refused, Rules, client
from orchestrator.egress.body import PIECE, unpacker
from tests.security.wire import Answer, Names, said, saying, site

LARGEST = 1_000_000
RULES = Rules(loopback=True, seconds=5.0, largest=LARGEST)
NAMES = Names(site_example=[["127.0.0.1"]])


def raw(data: bytes) -> bytes:
    made = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return made.compress(data) + made.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": raw,
}


async def asked(answer: Answer, rules: Rules = RULES, method: str = "GET") -> httpx.Response:
    async with site(answer) as there, client(rules, resolve=NAMES) as http:
        return await http.request(method, there.url("site.example"))


def packed(kind: str, body: bytes) -> Answer:
    return saying({"/": said(body, f"content-encoding: {kind}")})


@pytest.mark.parametrize("kind", PACKERS)
async def test_a_packed_body_is_unpacked(kind: str) -> None:
    response = await asked(packed(kind, PACKERS[kind](b"hello " * 1000)))
    assert response.text == "hello " * 1000
    assert "content-encoding" not in response.headers


@pytest.mark.parametrize("kind", PACKERS)
async def test_a_bomb_is_noticed_before_it_unfolds(kind: str) -> None:
    bomb = PACKERS[kind](bytes(50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(Refused, match="TOO_LARGE"):
            await asked(packed(kind, bomb))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 10 * LARGEST


async def test_a_bomb_of_many_members_is_bounded_too() -> None:
    with pytest.raises(Refused, match="TOO_LARGE"):
        await asked(packed("gzip", gzip.compress(b"") * 60_000))
    assert (await asked(packed("gzip", gzip.compress(b"a") + gzip.compress(b"b")))).text == "ab"


@pytest.mark.parametrize("kind", ["br", "zstd", "compress", "gzip, gzip", "x" * 5000, "identity, gzip"])
async def test_a_packing_that_was_not_asked_for_is_refused(kind: str) -> None:
    with pytest.raises(Refused, match="BAD_ENCODING"):
        await asked(packed(kind, b"\x00"))


@pytest.mark.parametrize("kind", ["gzip", "deflate"])
async def test_a_broken_packing_is_refused(kind: str) -> None:
    with pytest.raises(Refused, match="BAD_ENCODING"):
        await asked(packed(kind, b"\xff\xfe this is no packing"))


@given(st.binary(max_size=3000), st.sampled_from(sorted(PACKERS)), st.integers(1, 50))
def test_unpacking_in_any_pieces_gives_the_whole(data: bytes, kind: str, step: int) -> None:
    feed, wire = unpacker(kind), PACKERS[kind](data)
    parts = [part for at in range(0, len(wire), step) for part in feed(wire[at : at + step])]
    assert b"".join(parts) == data
    assert all(len(part) <= PIECE for part in parts)


@given(st.binary(max_size=300), st.sampled_from(sorted(PACKERS)))
def test_any_bytes_are_unpacked_or_refused(data: bytes, kind: str) -> None:
    feed = unpacker(kind)
    try:
        assert all(part for part in feed(data))
    except Refused as error:
        assert error.code == "BAD_ENCODING"


async def test_an_endless_body_is_not_read_further() -> None:
    async def endless(_path: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(bytes(65536))
            await writer.drain()

    with pytest.raises(Refused, match="TOO_LARGE"):
        await asked(endless)


async def dripping_body(_path: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


async def dripping_head(_path: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nx: ")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


async def promising(_path: bytes, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.001)


async def silent(_path: bytes, _writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def winding(path: bytes, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(0.1)
    writer.write(said(b"", f"location: {path.decode()}x", status="302 Found"))


@pytest.mark.parametrize("answer", [dripping_body, dripping_head, promising, silent, winding])
async def test_the_whole_of_it_ends_in_time_however_it_drips(answer: Answer) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(httpx.TimeoutException):
        await asked(answer, Rules(loopback=True, seconds=0.3, redirects=20))
    assert loop.time() - began < 5


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000,
        b"HTTP/1.1 200 OK\r\na: " + b"b" * 100_000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a" * 100_000 + b": b\r\n",
        b"HTTP/1.1 200 " + b"O" * 100_000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n",
        b"HTTP/9.9 200 OK\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"\x00\xff\r\n",
    ],
)
async def test_a_head_that_is_none_or_too_large_is_an_error_of_httpx(head: bytes) -> None:
    async def answer(_path: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(head + b"\r\n")

    with pytest.raises(httpx.HTTPError):
        await asked(answer)


async def test_a_connection_that_breaks_off_is_an_error_of_httpx() -> None:
    for piece in (b"", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"):

        async def answer(_path: bytes, writer: asyncio.StreamWriter, piece: bytes = piece) -> None:
            writer.write(piece)

        with pytest.raises(httpx.HTTPError):
            await asked(answer)


async def test_a_head_alone_has_no_body_to_unpack() -> None:
    response = await asked(saying({"/": said(b"", "content-encoding: gzip")}), method="HEAD")
    assert (response.status_code, response.content) == (200, b"")
