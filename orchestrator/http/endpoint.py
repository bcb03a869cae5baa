"""One base URL: what is sent there, what comes back, and the clocks that run meanwhile."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
from yarl import URL

from orchestrator.core.quick import quick
from orchestrator.egress.body import Unpack, unpacker
from orchestrator.egress.rules import Refused
from orchestrator.errors import CallError, ConfigError, Timeout, Unavailable
from orchestrator.http.connections import Answer, Connections
from orchestrator.providers.wire import MAX_REPLY, Reply, Request

T = TypeVar("T")
_BROKEN = (aiohttp.ClientError, OSError)


@quick
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
        whole = None if timeouts.whole is None else _Clock(Timeouts(None, None, None, timeouts.whole))
        streamed = await self._sent(request, timeouts.connect, whole)
        try:
            return await streamed.reply()
        finally:
            streamed.hang_up()

    @asynccontextmanager
    async def stream(self, request: Request, timeouts: Timeouts = Timeouts()) -> AsyncIterator[Streamed]:
        """Send; inside the block the answer is read piece by piece. Leaving the block hangs up if it was not read to its end."""
        streamed = await self._sent(request, timeouts.connect, _Clock(timeouts))
        try:
            yield streamed
        finally:
            streamed.hang_up()

    async def _sent(self, request: Request, connect: float | None, clock: _Clock | None) -> Streamed:
        url = self._urls.get(request.path)
        if url is None:
            url = self._urls[request.path] = URL(self._base + request.path)
        headers = {**self._headers, **request.headers}
        try:
            sent = self._connections.send(url, headers, request.body, connect)
            answer = await (sent if clock is None else clock.within("first_token", sent))
        except _BROKEN as error:
            raise _unavailable(error, self._base) from error
        try:
            return Streamed(answer, clock, self._limit)
        except Refused as error:
            answer.close()
            raise _malformed(error) from error

    async def close(self) -> None:
        """Close every connection; safe to call twice."""
        await self._connections.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Streamed:
    """An answer being read: iterate for its bytes. Once the iteration is over, `closed_early` says whether the connection broke."""

    def __init__(self, answer: Answer, clock: _Clock | None, limit: int) -> None:
        headers = answer.headers
        self.status = answer.status
        self.headers = (
            {name.lower(): value for name, value in headers.items()} if isinstance(headers, dict) else headers
        )
        self.closed_early = False
        self._answer = answer
        self._clock = clock
        self._limit = limit
        self._size = 0
        self._wait = "first_token"
        packing = self.headers.get("content-encoding")
        self._unpack = None if packing is None else unpacker(packing)

    def __aiter__(self) -> Streamed:
        return self

    async def __anext__(self) -> bytes:
        """The next bytes. Raises Timeout, or Unavailable when the answer is larger than the limit."""
        chunk = await self._next()
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    async def reply(self) -> Reply:
        """The rest of the answer, whole."""
        body = []
        while (chunk := await self._next()) is not None:
            body.append(chunk)
        return Reply(self.status, self.headers, body[0] if len(body) == 1 else b"".join(body), self.closed_early)

    async def _next(self) -> bytes | None:
        read = self._answer.content.readany()
        try:
            chunk = await (read if self._clock is None else self._clock.within(self._wait, read))
        except _BROKEN:
            self.closed_early = True
            return None
        if not chunk:
            return None
        self._wait = "between_tokens"
        if self._unpack is not None:
            return b"".join(self._unpacked(chunk, self._unpack))
        self._bound(len(chunk))
        return chunk

    def _unpacked(self, chunk: bytes, unpack: Unpack) -> Iterator[bytes]:
        # We ask for `identity`; a proxy that packs anyway is read.
        try:
            for part in unpack(chunk):
                self._bound(len(part))
                yield part
        except Refused as error:
            raise _malformed(error) from error

    def _bound(self, size: int) -> None:
        self._size += size
        if self._size > self._limit:
            raise Unavailable("MALFORMED_RESPONSE", f"the answer is larger than {self._limit} bytes; not read further")

    def hang_up(self) -> None:
        """Give the connection back, or close it when the answer was not read to its end."""
        self._answer.close()


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


def _unavailable(error: Exception, base: str) -> CallError:
    if isinstance(error, TimeoutError):
        return Timeout("TIMEOUT", f"no connection to {base} within timeouts.connect")
    said = str(error) or type(error).__name__
    return Unavailable(
        "CONNECTION_FAILED", f"no answer from {base}: {type(error).__name__}: {said[:200]}; check base_url and network"
    )


def _malformed(error: Refused) -> Unavailable:
    return Unavailable("MALFORMED_RESPONSE", error.message)
