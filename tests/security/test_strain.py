"""Clients that send too much, too slowly, or too often; over real sockets. One of them costs the others nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx
import pytest

from orchestrator.api import operation, server
from tests.api.conftest import api, terse_log
from tests.api.place import Place

__all__ = ["api", "terse_log"]


@asynccontextmanager
async def line(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    at = urlsplit(url)
    reader, writer = await asyncio.open_connection(at.hostname, at.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def head(api: Place, *more: str, target: str = "/v1/runs", method: str = "POST") -> bytes:
    lines = [
        f"{method} {target} HTTP/1.1",
        "host: 127.0.0.1",
        "connection: close",
        f"authorization: Bearer {api.admin}",
        *more,
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


async def answered(reader: asyncio.StreamReader) -> bytes:
    """Everything until the server closes."""
    async with asyncio.timeout(20):
        try:
            return await reader.read(-1)
        except ConnectionError:
            return b""


async def alive(url: str, api: Place) -> None:
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {api.admin}"}) as http:
        assert (await http.get(f"{url}/v1/runs")).status_code == 200


@pytest.mark.parametrize(
    "more",
    [
        "x: " + "a" * 100_000,
        "\r\n".join(f"x-{number}: a" for number in range(5000)),
        "cookie: " + "a=b; " * 10_000,
        "x" * 50_000 + ": a",
    ],
    ids=["long value", "many", "cookies", "long name"],
)
async def test_headers_that_are_too_large_are_refused(api: Place, more: str) -> None:
    async with api.served() as url, line(url) as (reader, writer):
        writer.write(head(api, more, method="GET"))
        assert (await answered(reader)).startswith((b"HTTP/1.1 400", b"HTTP/1.1 431"))
        await alive(url, api)


@pytest.mark.parametrize(
    "broken",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\r\n\r\n",
        b"G\x00T / HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
        b"GET / HTTP/1.1\r\nhost : a\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\n b\r\n x: \x01\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_answered_400_or_not_at_all(api: Place, broken: bytes) -> None:
    async with api.served() as url, line(url) as (reader, writer):
        writer.write(broken + b"\r\n\r\n")
        writer.write_eof()
        said = await answered(reader)
        assert not said or b" 500 " not in said.split(b"\r\n", 1)[0]
        await alive(url, api)


async def test_one_request_cannot_hide_another(api: Place) -> None:
    """Content-Length and Transfer-Encoding at once is how requests are smuggled through proxies."""
    hidden = b"0\r\n\r\n" + head(api, "content-length: 0", target="/v1/runs/r/cancel")
    await api.run("r")
    async with api.served() as url, line(url) as (reader, writer):
        writer.write(head(api, f"content-length: {len(hidden)}", "transfer-encoding: chunked") + hidden)
        writer.write_eof()
        said = await answered(reader)
    assert said.count(b"HTTP/1.1 ") <= 2
    assert len(await api.store.read("r")) == 1 or b" 4" in said.split(b"\r\n", 1)[0]


@pytest.mark.parametrize("target", ["/v1/runs", "/login"])
async def test_a_body_that_drips_is_given_up(api: Place, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    monkeypatch.setattr(operation, "BODY_SECONDS", 0.2)
    async with api.served() as url, line(url) as (reader, writer):
        writer.write(head(api, "content-type: application/json", "content-length: 1000", target=target) + b"{")
        coming = asyncio.ensure_future(answered(reader))
        while not coming.done():
            writer.write(b" ")
            await asyncio.sleep(0.02)
        assert b"HTTP/1.1 408" in coming.result()
        await alive(url, api)


async def test_a_body_that_nobody_asked_for_does_not_hold_a_connection(
    api: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GET that announces a body and drips it: the answer comes, and then the connection goes."""
    monkeypatch.setattr(server, "HEAD", 0.2)
    async with api.served() as url, line(url) as (reader, writer):
        writer.write(head(api, "content-length: 1000000", method="GET"))
        coming = asyncio.ensure_future(answered(reader))
        while not coming.done():
            writer.write(b"x")
            await asyncio.sleep(0.02)
        assert coming.result().startswith(b"HTTP/1.1 200")


async def test_a_head_that_drips_is_given_up(api: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD", 0.2)
    async with api.served() as url, line(url) as (reader, writer):
        writer.write(b"GET /v1/runs HTTP/1.1\r\n")
        coming = asyncio.ensure_future(answered(reader))
        while not coming.done():
            writer.write(b"a: b\r\n")
            await asyncio.sleep(0.02)
        assert coming.result() == b""
        await alive(url, api)


async def test_a_body_without_end_is_given_up_at_its_bound(api: Place) -> None:
    async with api.served() as url, line(url) as (reader, writer):
        writer.write(head(api, "content-type: application/json", "transfer-encoding: chunked"))
        coming = asyncio.ensure_future(answered(reader))
        sent = 0
        while not coming.done() and sent < 100_000_000:
            writer.write(b"10000\r\n" + bytes(65536) + b"\r\n")
            sent += 65536
            try:
                await writer.drain()
            except ConnectionError:
                break
        said = await coming
    assert not said or said.startswith(b"HTTP/1.1 413")
    assert sent < 20_000_000


async def test_hundreds_of_idle_connections_cost_the_others_nothing(api: Place) -> None:
    async with api.served() as url:
        at = urlsplit(url)
        idle = [await asyncio.open_connection(at.hostname, at.port) for _ in range(300)]
        for _, writer in idle[::2]:
            writer.write(b"GET / HTTP/1.1\r\n")
        async with asyncio.timeout(5):
            await alive(url, api)
        for _, writer in idle:
            writer.transport.abort()
