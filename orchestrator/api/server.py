"""uvicorn around the application: limits of headers and time, sockets that give up on clients that take nothing, an end in good order.

On SIGTERM no new connection is taken, event streams end after their current event (their clients come back, to another process,
with Last-Event-ID), and requests under way have GRACE seconds.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from orchestrator.errors import ConfigError

GRACE = 10
HEADERS = 16 * 1024
"""Bytes of a request's line and headers; more is a 431, or a 400 where they come in pieces."""
HEAD = 15.0
"""Seconds that a request's line and headers may take."""
IDLE = 10
"""Seconds that a connection is kept between two requests."""
TAKES_NOTHING = 60_000
"""Milliseconds after which the kernel drops a client that acknowledges nothing."""
BACKLOG = 1024
AT_ONCE = 5000
"""Connections; more are told 503."""


class Patient(H11Protocol):
    """Closes a connection that does not bring a whole request line and headers within HEAD seconds of its first byte."""

    _slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody connected: the first request is due."""
        super().connection_made(transport)
        self._slow = self.loop.call_later(HEAD, self._too_slow)

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._in_time()
        elif self._slow is None and (before is None or before.response_complete):
            self._slow = self.loop.call_later(HEAD, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._in_time()
        super().connection_lost(exc)

    def _in_time(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _too_slow(self) -> None:
        self._slow = None
        self.transport.close()


class Server(uvicorn.Server):
    """Serves `app` until `stop` is called; then `closing` is set. Signals are the caller's."""

    def __init__(self, app: ASGIApp, closing: asyncio.Event) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Patient,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=True,
                proxy_headers=False,
                h11_max_incomplete_event_size=HEADERS,
                timeout_keep_alive=IDLE,
                timeout_graceful_shutdown=GRACE,
                limit_concurrency=AT_ONCE,
            )
        )
        self._closing = closing

    async def run_on(self, listener: socket.socket) -> None:
        """Serve until told to stop."""
        await self.serve(sockets=[listener])

    def stop(self) -> None:
        """Begin the end; again: do not wait for requests under way."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._closing.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """None: uvicorn would raise them anew at the end."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. ConfigError when the address cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        raise ConfigError(f"api.host, api.port: {host}:{port} cannot be served: {error}; choose another") from error
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, TAKES_NOTHING)
    return listener


def url_of(listener: socket.socket) -> str:
    """Where it listens."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
