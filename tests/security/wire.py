"""A server on loopback that answers with whatever bytes a test wants, and names that resolve to whatever a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeAlias

Answer: TypeAlias = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
"""(path, writer): says what it has to say; the connection is closed after it."""


@dataclass
class Site:
    """`heads` are the request lines and headers it was sent, `port` where it listens."""

    port: int = 0
    heads: list[bytes] = field(default_factory=list)

    def url(self, host: str, path: str = "/") -> str:
        return f"http://{host}:{self.port}{path}"


@asynccontextmanager
async def site(answer: Answer) -> AsyncIterator[Site]:
    found = Site()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                head = await reader.readuntil(b"\r\n\r\n")
                found.heads.append(head)
                await answer(head.split(b" ", 2)[1], writer)
                await writer.drain()
        finally:
            writer.close()
            with suppress(OSError, TimeoutError):
                await asyncio.wait_for(writer.wait_closed(), 0.5)
            writer.transport.abort()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


def said(body: bytes = b"ok", *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "content-type: text/plain", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def saying(pages: Mapping[str, bytes]) -> Answer:
    """Answers by path; 404 elsewhere."""

    async def answer(path: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(pages.get(path.decode(), said(b"", status="404 Not Found")))

    return answer


def moved(location: str, status: str = "302 Found") -> bytes:
    return said(b"", f"location: {location}", status=status)


class Names:
    """A resolver whose answers change: each name has a list of answers, the last of which is repeated."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self.asked: list[str] = []
        self._answers = {name.replace("_", "."): [list(each) for each in given] for name, given in answers.items()}

    async def __call__(self, host: str, _port: int) -> list[str]:
        self.asked.append(host)
        left = self._answers.get(host)
        if left is None:
            raise OSError("no such host")
        return left.pop(0) if len(left) > 1 else left[0]
