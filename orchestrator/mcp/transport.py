"""The two ways to a server, as the SDK's transports, with what it leaves open closed: its end is noticed, its stderr is kept
short, and HTTP goes through `egress`, to checked addresses and within bounds.

Everything a child process inherits is HOME, LOGNAME, PATH, SHELL, TERM, USER, and the `env` of its settings.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeAlias

import httpx
import httpx2
from mcp.client.streamable_http import streamable_http_client

from orchestrator import egress
from orchestrator.egress import EgressSettings, Rules
from orchestrator.mcp.stdio import LARGEST, stdio
from orchestrator.mcp_settings import McpSettings

_TAIL = 2048


Way: TypeAlias = Callable[[Callable[[], None], "Tail"], AbstractAsyncContextManager[tuple[Any, Any]]]
"""Leads to a server: the streams of a new session, and whom to tell at its end."""


@asynccontextmanager
async def transport(
    settings: McpSettings, rules: Rules, ended: Callable[[], None], tail: Tail
) -> AsyncIterator[tuple[Any, Any]]:
    """The Way to the server of these settings. `ended` is called once nothing more can come."""
    async with stdio(settings, tail.stream) if settings.command else _http(settings, rules, tail) as (read, write):
        yield Watched(read, ended), write


@asynccontextmanager
async def _http(settings: McpSettings, rules: Rules, tail: Tail) -> AsyncIterator[tuple[Any, Any]]:
    headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
    patience = httpx2.Timeout(settings.connect, read=None)
    # trust_env=False: a proxy of the environment would go round the check of addresses
    async with (
        httpx2.AsyncClient(
            headers=headers, timeout=patience, transport=Outward(rules, tail), trust_env=False
        ) as client,
        streamable_http_client(settings.url, http_client=client, max_sse_event_size=LARGEST) as streams,
    ):
        yield streams


class Watched:
    """A stream of messages that tells when it has come to its end."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream, self._ended = stream, ended

    @property
    def last_context(self) -> Any:
        """The SDK carries the sender's context variables beside each message."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """The next message."""
        try:
            return await self._stream.receive()
        except BaseException:
            self._ended()
            raise

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except BaseException:
            self._ended()
            raise

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        closed: bool | None = await self._stream.__aexit__(kind, error, trace)
        return closed


class Tail(asyncio.Protocol):
    """The last that a child process wrote to its stderr, or that a server answered over HTTP: for the operator, when it does not
    start. Never shown to a model."""

    def __init__(self) -> None:
        self._kept = b""
        self._pipe: asyncio.BaseTransport | None = None

    async def __aenter__(self) -> Self:
        reading, writing = os.pipe()
        self.stream = os.fdopen(writing, "w")
        self._pipe, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: self, os.fdopen(reading, "rb", 0))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stream.close()
        if self._pipe is not None:
            self._pipe.close()

    def data_received(self, data: bytes) -> None:
        """Keep the end."""
        self._kept = (self._kept + data)[-_TAIL:]

    def forget(self) -> None:
        """It has started: what it said on the way there is no reason for anything later."""
        self._kept = b""

    @property
    def last(self) -> str:
        """The last line that says something."""
        lines = [line for line in self._kept.decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""


class Outward(httpx2.AsyncBaseTransport):
    """The SDK's requests, sent by `egress`: judged, dialled at exactly the address that was judged, unpacked and read within bounds."""

    def __init__(self, rules: Rules, tail: Tail) -> None:
        self._inner, self._tail = egress.transport(rules), tail

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """One request. Refused, and Unavailable (UNKNOWN_HOST), come through as they are."""
        body = await request.aread()
        extensions = {"timeout": request.extensions["timeout"]}
        asked = httpx.Request(
            request.method, str(request.url), headers=request.headers.raw, content=body, extensions=extensions
        )
        with _in_its_words():
            response = await self._inner.handle_async_request(asked)
        if response.status_code >= 400 and request.method == "POST":  # a GET for a stream may be refused
            self._tail.data_received(b"HTTP %d\n" % response.status_code)
        return httpx2.Response(response.status_code, headers=response.headers.raw, stream=_Body(response))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _in_its_words():
            async for piece in self._response.aiter_raw():
                yield piece

    async def aclose(self) -> None:
        await self._response.aclose()


@contextmanager
def _in_its_words() -> Iterator[None]:
    """What httpx raises, as its successor names it."""
    try:
        yield
    except httpx.TimeoutException as error:
        raise httpx2.ReadTimeout(str(error)) from error
    except httpx.HTTPError as error:
        raise httpx2.NetworkError(str(error)) from error


def rules_for(settings: McpSettings, general: EgressSettings, name: str) -> Rules:
    """Where this server may be: at its URL's host and port; inside only as far as `[egress]` says."""
    url = httpx.URL(settings.url)
    own = general.rules(name)
    port = url.port or (443 if url.scheme == "https" else 80)
    return replace(
        own, hosts=(url.host,), ports=frozenset((port,)), connect=settings.connect, seconds=None, largest=LARGEST
    )
