"""Stands in for an endpoint's connections: an answer without a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from yarl import URL

from orchestrator.http import Answer, Connections


@dataclass
class Body:
    rest: bytes

    async def readany(self) -> bytes:
        some, self.rest = self.rest, b""
        return some


@dataclass
class Given:
    status: int
    headers: Mapping[str, str]
    content: Body = field(default_factory=lambda: Body(b""))

    def close(self) -> None:
        self.content.rest = b""


def answer(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Given:
    return Given(status, headers or {"content-type": "application/json"}, Body(body))


class Answering(Connections):
    """Whatever is sent, this answers: `reply(url, body)`, which may raise."""

    def __init__(self, reply: Callable[[URL, bytes], Answer]) -> None:
        super().__init__(URL("http://localhost"))
        self._reply = reply

    async def send(self, url: URL, headers: Mapping[str, str], body: bytes, connect: float | None) -> Answer:
        return self._reply(url, body)
