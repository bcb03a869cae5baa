"""The one place that knows the HTTP client of model calls. Bytes out, bytes in, four clocks; what a status means is the codecs' business.

It is aiohttp's, asked directly: httpx's own pool costs 0.8 ms a call for one run and 7 ms for a thousand; httpx over aiohttp's
connections costs three times what they cost by themselves (docs/decisions/0001). All waiting is on the loop's clock
(`asyncio.timeout`), so a virtual-time loop drives it. A connection whose call was cancelled is closed, never reused.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeVar
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from yarl import URL

from orchestrator.core.quick import quick
from orchestrator.errors import CallError, ConfigError, Timeout, Unavailable
from orchestrator.providers.wire import MAX_REPLY, Reply, Request

T = TypeVar("T")
_LOOPBACK = ("localhost", "127.", "::1")
_PIECE = 512 * 1024
_BROKEN = (aiohttp.ClientError, OSError)


@quick
@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds; None is no limit. An unstreamed call knows only `connect` and `whole`."""

    connect: float | None = 10.0
    first_token: float | None = 120.0
    between_tokens: float | None = 60.0
    whole: float | None = 600.0


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


class Endpoint:
    """One base URL, one pool of connections without a ceiling. Close it, or use it as an async context manager.

    `headers` go with every request (the key among them). `context` replaces the process's shared TLS context. Proxies of the
    environment are honoured, but not for this machine. `connections` stands in for our own. ConfigError for a base URL that is none.
    """

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        *,
        context: ssl.SSLContext | None = None,
        connections: Connections | None = None,
        limit: int = MAX_REPLY,
    ) -> None:
        url = _checked(base_url)
        self._base = str(url).rstrip("/")
        self._headers = {"user-agent": "orchestrator", "accept-encoding": "identity", **(headers or {})}
        self._limit = limit
        self._urls: dict[str, URL] = {}
        self._connections = connections or Connections(url, context)

    async def post(self, request: Request, timeouts: Timeouts = Timeouts()) -> Reply:
        """Send, and read the answer whole. Raises Timeout (TIMEOUT) or Unavailable (CONNECTION_FAILED, MALFORMED_RESPONSE)."""
        streamed = await self._sent(request, Timeouts(timeouts.connect, None, None, timeouts.whole))
        try:
            return await streamed.reply()
        finally:
            streamed.hang_up()

    @asynccontextmanager
    async def stream(self, request: Request, timeouts: Timeouts = Timeouts()) -> AsyncIterator[Streamed]:
        """Send; inside the block the answer is read piece by piece. Leaving the block hangs up if it was not read to its end."""
        streamed = await self._sent(request, timeouts)
        try:
            yield streamed
        finally:
            streamed.hang_up()

    async def _sent(self, request: Request, timeouts: Timeouts) -> Streamed:
        clock = _Clock(timeouts)
        url = self._urls.get(request.path)
        if url is None:
            url = self._urls[request.path] = URL(self._base + request.path)
        headers = {**self._headers, **request.headers}
        try:
            sent = self._connections.send(url, headers, request.body, timeouts.connect)
            answer = await clock.within("first_token", sent)
        except _BROKEN as error:
            raise _unavailable(error, self._base) from error
        try:
            return Streamed(answer, clock, self._limit)
        except CallError:
            answer.close()
            raise

    async def close(self) -> None:
        """Close every connection; safe to call twice."""
        await self._connections.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Connections:
    """aiohttp's session of one endpoint: no ceiling, no cookies, no redirects, nothing unpacked behind our back."""

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


class Streamed:
    """An answer being read: iterate for its bytes. Once the iteration is over, `closed_early` says whether the connection broke."""

    def __init__(self, answer: Answer, clock: _Clock, limit: int) -> None:
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.headers.items()}
        self.closed_early = False
        self._answer = answer
        self._clock = clock
        self._limit = limit
        self._size = 0
        self._wait = "first_token"
        self._unpack = _unpacker(self.headers.get("content-encoding", ""))

    def __aiter__(self) -> Streamed:
        return self

    async def __anext__(self) -> bytes:
        """The next bytes. Raises Timeout, or Unavailable when the answer is larger than the limit."""
        try:
            chunk = await self._clock.within(self._wait, self._answer.content.readany())
        except _BROKEN:
            self.closed_early = True
            raise StopAsyncIteration from None
        if not chunk:
            raise StopAsyncIteration
        self._wait = "between_tokens"
        if self._unpack is not None:
            chunk = self._unpack(chunk, self._limit)
        self._size += len(chunk)
        if self._size > self._limit:
            raise Unavailable("MALFORMED_RESPONSE", f"the answer is larger than {self._limit} bytes; not read further")
        return chunk

    async def reply(self) -> Reply:
        """The rest of the answer, whole."""
        body = [chunk async for chunk in self]
        return Reply(self.status, self.headers, b"".join(body), self.closed_early)

    def hang_up(self) -> None:
        """Give the connection back, or close it when the answer was not read to its end."""
        self._answer.close()


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """A long body in pieces, so that writing it does not hold the loop."""
    for at in range(0, len(body), _PIECE):
        yield body[at : at + _PIECE]


class _Clock:
    """The deadline of the whole call, and limits inside it. The error says which one it was."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self._end = None if timeouts.whole is None else self._start + timeouts.whole
        self._first = None if timeouts.first_token is None else self._start + timeouts.first_token

    async def within(self, name: str, step: Awaitable[T]) -> T:
        """Await the step. Raises Timeout when it outlasts this limit or the whole call's."""
        gap = self._timeouts.between_tokens
        at = self._first if name == "first_token" else None if gap is None else self._loop.time() + gap
        if self._end is not None and (at is None or self._end < at):
            name, at = "whole", self._end
        if at is None:
            return await step
        try:
            async with asyncio.timeout_at(at) as scope:
                return await step
        except TimeoutError as error:
            if not scope.expired():
                raise
            seconds = getattr(self._timeouts, name)
            message = (
                f"the endpoint exceeded timeouts.{name} = {seconds:g} s after {self._loop.time() - self._start:.1f} s"
            )
            raise Timeout("TIMEOUT", message) from error


@functools.cache
def _shared_context() -> ssl.SSLContext:
    # 25 ms each: certifi is parsed once per process.
    return httpx.create_ssl_context()


def _checked(base_url: str) -> URL:
    try:
        url = URL(base_url)
        host = url.host
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"base_url {base_url!r} is not a URL ({error}); write for example https://api.example.com/v1"
        ) from error
    if url.scheme not in ("http", "https") or not host or url.query_string or url.user or url.password:
        raise ConfigError("base_url must be http(s)://host[:port][/path] without user, password or query")
    return url


def _proxy(url: URL) -> tuple[URL | None, aiohttp.BasicAuth | None]:
    """The environment's proxy for this URL, and who we are to it."""
    host = url.host or ""
    found = None if host.startswith(_LOOPBACK) or proxy_bypass(host) else getproxies().get(url.scheme)
    if not found:
        return None, None
    proxy = URL(found)
    auth = aiohttp.BasicAuth(proxy.user, proxy.password or "") if proxy.user else None
    return proxy.with_user(None), auth


def _unavailable(error: Exception, base: str) -> CallError:
    if isinstance(error, TimeoutError):
        return Timeout("TIMEOUT", f"no connection to {base} within timeouts.connect")
    said = str(error) or type(error).__name__
    return Unavailable(
        "CONNECTION_FAILED", f"no answer from {base}: {type(error).__name__}: {said[:200]}; check base_url and network"
    )


def _unpacker(encoding: str) -> Callable[[bytes, int], bytes] | None:
    """We ask for `identity`; a proxy that packs anyway is read as long as the standard library can."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise Unavailable(
            "MALFORMED_RESPONSE", f"the answer is packed as {encoding[:20]!r} though identity was asked for"
        )
    packed = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def unpack(chunk: bytes, limit: int) -> bytes:
        try:
            return packed.decompress(chunk, limit + 1)
        except zlib.error as error:
            raise Unavailable("MALFORMED_RESPONSE", f"the answer's content-encoding is broken: {error}") from error

    return unpack
