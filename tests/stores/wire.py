"""A wire to PostgreSQL that a test can cut: before a request has got through, or after it has, before the reply comes back."""

from __future__ import annotations

import asyncio
from typing import Literal, Self, TypeAlias

from psycopg.conninfo import conninfo_to_dict, make_conninfo

Cut: TypeAlias = Literal["request", "reply"]


class Wire:
    """`url` leads through the wire; `down` refuses new connections."""

    def __init__(self, url: str) -> None:
        named = conninfo_to_dict(url)
        self._host, self._port = str(named.get("host") or "localhost"), int(named.get("port") or 5432)
        self._target = url
        self.url = ""
        self.down = False
        self.lost = asyncio.Event()
        self._cut: Cut | None = None
        self._marker = b""
        self._pumps: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []

    def cut(self, kind: Cut, marker: str) -> None:
        """Lose the next request that holds the marker, or the reply to it, and the connection with it; then `lost` is set."""
        self._cut, self._marker = kind, marker.encode()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = make_conninfo(self._target, host="127.0.0.1", port=port, sslmode="disable", gssencmode="disable")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()
        ends = [writer.wait_closed() for writer in self._writers]
        await asyncio.gather(*self._pumps, *ends, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        if self.down:
            writer.close()
            return
        if self._host.startswith("/"):
            server, to_server = await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{self._port}")
        else:
            server, to_server = await asyncio.open_connection(self._host, self._port)
        self._writers.append(to_server)
        doomed = asyncio.Event()
        self._pumps.append(asyncio.create_task(self._requests(reader, to_server, writer, doomed)))
        self._pumps.append(asyncio.create_task(self._replies(server, writer, to_server, doomed)))

    async def _requests(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        back: asyncio.StreamWriter,
        doomed: asyncio.Event,
    ) -> None:
        while data := await source.read(65536):
            if self._cut and self._marker in data:
                if self._cut == "request":
                    self._lose()
                    break
                self._cut = None
                doomed.set()
            sink.write(data)
        sink.close()
        back.close()

    async def _replies(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        back: asyncio.StreamWriter,
        doomed: asyncio.Event,
    ) -> None:
        while data := await source.read(65536):
            if doomed.is_set():
                self._lose()
                break
            sink.write(data)
        sink.close()
        back.close()

    def _lose(self) -> None:
        self._cut = None
        self.lost.set()
