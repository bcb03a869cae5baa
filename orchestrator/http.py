"""The one place that knows httpx. Bytes out, bytes in, four clocks; what a status means is the codecs' business.

httpx rides on aiohttp's transport: its own pool costs 0.8 ms a call for one run and 7 ms for a thousand. The transport is asked
without httpx.AsyncClient in between: cookies, redirects and auth flows are not wanted here and cost 40% more CPU. All waiting is on the
loop's clock (`asyncio.timeout`), so a virtual-time loop drives it. A connection whose call was cancelled is closed, never reused.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from orchestrator.errors import CallError, ConfigError, Timeout, Unavailable
from orchestrator.providers.wire import MAX_REPLY, Reply, Request

T = TypeVar("T")
_LOOPBACK = ("localhost", "127.", "::1")
_PIECE = 512 * 1024
_BROKEN = (httpx.HTTPError, httpx.StreamError, aiohttp.ClientError, OSError)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds; None is no limit. An unstreamed call knows only `connect` and `whole`."""

    connect: float | None = 10.0
    first_token: float | None = 120.0
    between_tokens: float | None = 60.0
    whole: float | None = 600.0


class Endpoint:
    """One base URL, one pool of connections without a ceiling. Close it, or use it as an async context manager.

    `headers` go with every request (the key among them). `context` replaces the process's shared TLS context. Proxies of the
    environment are honoured, but not for this machine. Raises ConfigError for a base URL that is none.
    """

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        *,
        context: ssl.SSLContext | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        limit: int = MAX_REPLY,
    ) -> None:
        url = _checked(base_url)
        self._base = str(url).rstrip("/")
        self._headers = {"user-agent": "orchestrator", "accept-encoding": "identity", **(headers or {})}
        self._limit = limit
        self._urls: dict[str, httpx.URL] = {}
        self._transport = transport or connected(url, context)

    @classmethod
    def from_transport(
        cls,
        transport: httpx.AsyncBaseTransport,
        base_url: str = "http://localhost",
        headers: Mapping[str, str] | None = None,
    ) -> Endpoint:
        """The seam for tests: `httpx.MockTransport` and its like."""
        return cls(base_url, headers, transport=transport)

    async def post(self, request: Request, timeouts: Timeouts = Timeouts()) -> Reply:
        """Send, and read the answer whole. Raises Timeout (TIMEOUT) or Unavailable (CONNECTION_FAILED, MALFORMED_RESPONSE)."""
        streamed = await self._send(request, Timeouts(timeouts.connect, None, None, timeouts.whole))
        try:
            return await streamed.reply()
        finally:
            await streamed.hang_up()

    @asynccontextmanager
    async def stream(self, request: Request, timeouts: Timeouts = Timeouts()) -> AsyncIterator[Streamed]:
        """Send; inside the block the answer is read piece by piece. Leaving the block hangs up if it was not read to its end."""
        streamed = await self._send(request, timeouts)
        try:
            yield streamed
        finally:
            await streamed.hang_up()

    async def _send(self, request: Request, timeouts: Timeouts) -> Streamed:
        clock = _Clock(timeouts)
        try:
            sent = self._transport.handle_async_request(self._request(request, timeouts))
            response = await clock.within("first_token", sent)
        except _BROKEN as error:
            raise _unavailable(error, self._base) from error
        try:
            return Streamed(response, clock, self._limit)
        except CallError:
            await response.aclose()
            raise

    async def close(self) -> None:
        """Close every connection; safe to call twice."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _request(self, request: Request, timeouts: Timeouts) -> httpx.Request:
        url = self._urls.get(request.path)
        if url is None:
            url = self._urls[request.path] = httpx.URL(self._base + request.path)
        limits = {"connect": timeouts.connect, "read": None, "write": None, "pool": None}
        headers = {**self._headers, **request.headers}
        if len(request.body) > _PIECE:
            headers["content-length"] = str(len(request.body))
            return httpx.Request(
                "POST", url, headers=headers, stream=_Pieces(request.body), extensions={"timeout": limits}
            )
        return httpx.Request("POST", url, headers=headers, content=request.body, extensions={"timeout": limits})


class Streamed:
    """An answer being read: iterate for its bytes. Once the iteration is over, `closed_early` says whether the connection broke."""

    def __init__(self, response: httpx.Response, clock: _Clock, limit: int) -> None:
        self.status = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self.closed_early = False
        self._response = response
        self._clock = clock
        self._limit = limit
        self._size = 0
        self._wait = "first_token"
        self._unpack = _unpacker(self.headers.get("content-encoding", ""))
        # Not `aiter_bytes`: three generators deep, it leaves tasks behind when the reader breaks off.
        self._chunks = aiter(_asynchronous(response.stream))

    def __aiter__(self) -> Streamed:
        return self

    async def __anext__(self) -> bytes:
        """The next bytes. Raises Timeout, or Unavailable when the answer is larger than the limit."""
        try:
            chunk = await self._clock.within(self._wait, anext(self._chunks))
        except _BROKEN:
            self.closed_early = True
            raise StopAsyncIteration from None
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

    async def hang_up(self) -> None:
        """Give the connection back, or close it when the answer was not read to its end."""
        try:
            await self._response.aclose()
        finally:
            if isinstance(self._chunks, AsyncGenerator):
                await self._chunks.aclose()


class _Pieces(httpx.AsyncByteStream):
    """A long body in pieces, so that writing it does not hold the loop."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._body), _PIECE):
            yield self._body[at : at + _PIECE]


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


def _checked(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, TypeError, ValueError) as error:
        raise ConfigError(
            f"base_url {base_url!r} is not a URL ({error}); write for example https://api.example.com/v1"
        ) from error
    if url.scheme not in ("http", "https") or not url.host or url.query or url.userinfo:
        raise ConfigError("base_url must be http(s)://host[:port][/path] without user, password or query")
    return url


def connected(url: httpx.URL, context: ssl.SSLContext | None = None) -> AiohttpTransport:
    """The transport of one endpoint: a pool without a ceiling, and the process's shared TLS context."""
    secure = url.scheme == "https"
    tls = context or (_shared_context() if secure else None)

    def session() -> aiohttp.ClientSession:
        # The adapter's own session would cap at 100 connections and drop the TLS settings.
        connector = aiohttp.TCPConnector(limit=0, ssl=tls if tls is not None else True)
        return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

    found = None if url.host.startswith(_LOOPBACK) or proxy_bypass(url.host) else getproxies().get(url.scheme)
    return AiohttpTransport(
        verify=tls if tls is not None else False,
        trust_env=False,
        client=session,
        proxy=httpx.Proxy(found) if found else None,
    )


def _unavailable(error: Exception, base: str) -> CallError:
    cause = error.__cause__ or error
    # The adapter calls a dropped connection a ConnectTimeout; only its cause tells.
    if isinstance(error, httpx.TimeoutException) and (error.__cause__ is None or isinstance(cause, TimeoutError)):
        return Timeout("TIMEOUT", f"no connection to {base} within timeouts.connect")
    said = str(cause) or type(cause).__name__
    return Unavailable(
        "CONNECTION_FAILED", f"no answer from {base}: {type(cause).__name__}: {said[:200]}; check base_url and network"
    )


def _asynchronous(stream: object) -> httpx.AsyncByteStream:
    if not isinstance(stream, httpx.AsyncByteStream):
        raise ConfigError(f"the transport gave a {type(stream).__name__}; use an asynchronous httpx transport")
    return stream


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
