"""One endpoint's connections: an aiohttp session, asked for one thing only, a POST of bytes."""

from __future__ import annotations

import functools
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Protocol
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from yarl import URL

from orchestrator.egress.address import is_loopback

_PIECE = 512 * 1024


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
        self._limits: dict[float | None, aiohttp.ClientTimeout] = {}

    async def send(self, url: URL, headers: Mapping[str, str], body: bytes, connect: float | None) -> Answer:
        """POST, and come back when the answer's head has come; `connect` is in seconds. Raises aiohttp.ClientError or OSError."""
        limit = self._limits.get(connect)
        if limit is None:
            limit = self._limits[connect] = aiohttp.ClientTimeout(total=None, sock_connect=connect)
        long = len(body) > _PIECE
        return await self.session().post(
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
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=True if self._tls is None else self._tls),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session

    async def close(self) -> None:
        """Close them; safe to call twice."""
        if self._session is not None:
            await self._session.close()


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
    found = None if is_loopback(host) or proxy_bypass(host) else getproxies().get(url.scheme)
    if not found:
        return None, None
    proxy = URL(found)
    auth = aiohttp.BasicAuth(proxy.user, proxy.password or "") if proxy.user else None
    return proxy.with_user(None), auth
