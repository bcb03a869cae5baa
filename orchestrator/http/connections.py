"""One endpoint's connections, and how one POST goes over one of them.

They are aiohttp's: its connector finds, opens, keeps and closes them, its parser reads what comes back. Its session, which costs three
times as much again, is asked only where it does something for us: for a proxy, and to write a long body piece by piece.
"""

from __future__ import annotations

import asyncio
import functools
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from aiohttp.http import HttpProcessingError, RawResponseMessage
from yarl import URL

_LOOPBACK = ("localhost", "127.", "::1")
_PIECE = 512 * 1024
_HEADS = 256
"""Kept heads of requests. An endpoint has one for each key that it is asked with; headers that never come again must not pile up."""
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Content(Protocol):
    """A body on its way."""

    async def readany(self) -> bytes:
        """What has come, at least one byte; b"" at the end."""


class Answer(Protocol):
    """A status, its headers, and the body on its way: what an `aiohttp.ClientResponse` is."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, in whatever case they came."""

    @property
    def content(self) -> Content:
        """The body."""

    def close(self) -> None:
        """Hang up, where the body was not read to its end."""


class Connections:
    """One endpoint's connections: no ceiling, no cookies, no redirects, nothing unpacked behind our back."""

    def __init__(self, url: URL, context: ssl.SSLContext | None = None) -> None:
        self._tls = context or (_shared_context() if url.scheme == "https" else None)
        self._proxy, self._proxy_auth = _proxy(url)
        self._session: aiohttp.ClientSession | None = None
        self._connector: aiohttp.TCPConnector | None = None
        self._limits: dict[float | None, aiohttp.ClientTimeout] = {}
        self._heads: dict[tuple[URL, tuple[tuple[str, str], ...]], _Head] = {}

    async def send(self, url: URL, headers: Mapping[str, str], body: bytes, connect: float | None) -> Answer:
        """POST, and come back when the answer's head has come; `connect` is in seconds. Raises aiohttp.ClientError or OSError."""
        limit = self._limits.get(connect)
        if limit is None:
            limit = self._limits[connect] = aiohttp.ClientTimeout(total=None, sock_connect=connect)
        session, long = self.session(), len(body) > _PIECE
        if self._connector is not None and self._proxy is None and not long:
            return await _exchanged(self._connector, self._head(session, url, headers), body, limit)
        return await session.post(
            url,
            data=_pieces(body) if long else aiohttp.BytesPayload(body),
            headers={**headers, "content-length": str(len(body))} if long else headers,
            timeout=limit,
            allow_redirects=False,
            proxy=self._proxy,
            proxy_auth=self._proxy_auth,
        )

    def session(self) -> aiohttp.ClientSession:
        """The session, opened by the first call: only inside a running loop can it be."""
        if self._session is None:
            self._connector = aiohttp.TCPConnector(limit=0, ssl=True if self._tls is None else self._tls)
            self._session = aiohttp.ClientSession(
                connector=self._connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
            )
        return self._session

    async def close(self) -> None:
        """Close them; safe to call twice."""
        self._connector = None
        if self._session is not None:
            await self._session.close()

    def _head(self, session: aiohttp.ClientSession, url: URL, headers: Mapping[str, str]) -> _Head:
        key = url, tuple(headers.items())
        head = self._heads.get(key)
        if head is None:
            if len(self._heads) >= _HEADS:
                self._heads.clear()
            head = self._heads[key] = _head(session, url, headers)
        return head


@dataclass(frozen=True, slots=True)
class _Head:
    """What requests with the same headers share: `request` finds them a connection, `start` is sent up to the number of the body's bytes."""

    request: aiohttp.ClientRequest
    start: bytes


class _Received:
    """An Answer. Its connection is free again once the body has come whole."""

    __slots__ = ("_connection", "content", "headers", "status")

    def __init__(
        self, connection: aiohttp.connector.Connection, message: RawResponseMessage, content: aiohttp.StreamReader
    ) -> None:
        self.status: int = message.code
        self.headers: Mapping[str, str] = message.headers
        self.content = content
        self._connection = connection
        content.on_eof(partial(over, connection))

    def close(self) -> None:
        """Hang up, where the body was not read to its end."""
        self._connection.close()


def over(connection: aiohttp.connector.Connection) -> None:
    """Who answers before all was said is not listening to the rest, nor to another request behind it."""
    transport = connection.transport
    if transport is not None and transport.get_write_buffer_size():
        connection.close()
    else:
        connection.release()


def _head(session: aiohttp.ClientSession, url: URL, headers: Mapping[str, str]) -> _Head:
    request = aiohttp.ClientRequest("POST", url, headers=headers, loop=asyncio.get_running_loop(), session=session)
    request.headers.setdefault("content-type", "application/octet-stream")
    request.headers.popall("content-length", None)
    lines = [
        f"POST {url.raw_path_qs} HTTP/1.1",
        *(f"{name}: {value}" for name, value in request.headers.items()),
        "content-length: ",
    ]
    if any(_CONTROL.search(line) for line in lines):
        raise ValueError("a control character in a header: perhaps a key with a line break at its end")
    return _Head(request, "\r\n".join(lines).encode())


async def _exchanged(
    connector: aiohttp.TCPConnector, head: _Head, body: bytes, limit: aiohttp.ClientTimeout
) -> _Received:
    """The answer to one POST, which is written at once. A connection on which anything goes wrong is closed."""
    connection = await connector.connect(head.request, [], limit)
    try:
        protocol, transport = connection.protocol, connection.transport
        if protocol is None or transport is None or transport.is_closing():
            raise aiohttp.ClientConnectionResetError("the connection closed before it was used")
        protocol.set_response_params(read_until_eof=True, auto_decompress=False)
        transport.write(b"%b%d\r\n\r\n%b" % (head.start, len(body), body))
        message, content = await protocol.read()
        while message.code < 200 and message.code != 101:  # "I am listening": the answer is yet to come
            message, content = await protocol.read()
    except HttpProcessingError as error:
        connection.close()
        raise aiohttp.ClientResponseError(
            head.request.request_info, (), status=error.code, message=error.message, headers=error.headers
        ) from error
    except BaseException:
        connection.close()
        raise
    return _Received(connection, message, content)


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """A long body in pieces, so that writing it does not hold the loop."""
    for at in range(0, len(body), _PIECE):
        yield body[at : at + _PIECE]


@functools.cache
def _shared_context() -> ssl.SSLContext:
    # 25 ms each: certifi is parsed once per process.
    return httpx.create_ssl_context()


def _proxy(url: URL) -> tuple[URL | None, aiohttp.BasicAuth | None]:
    """The environment's proxy for this URL, and who we are to it."""
    host = url.host or ""
    found = None if host.startswith(_LOOPBACK) or proxy_bypass(host) else getproxies().get(url.scheme)
    if not found:
        return None, None
    proxy = URL(found)
    auth = aiohttp.BasicAuth(proxy.user, proxy.password or "") if proxy.user else None
    return proxy.with_user(None), auth
