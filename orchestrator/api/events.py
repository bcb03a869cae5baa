"""The events of a run as Server-Sent Events: stored and live through one path, `Store.follow`.

`id:` is the seq, so a client that comes back with Last-Event-ID goes on where it was. A follower holds one page of the trace
and nothing else: a slow one is simply asked less often, and one that takes nothing for STALL seconds is let go. After the
last event the stream ends; whoever then asks again gets 204, which tells an EventSource to stay away.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from orchestrator.api.operation import Call
from orchestrator.api.problems import Problem, body_of, of
from orchestrator.core.events import Entry, ModelTurn, Waiting
from orchestrator.errors import StoreError
from orchestrator.stores.record import dump_entry

MEDIA = "text/event-stream"
BEAT = 15.0
"""Seconds between two looks whether the follower may still follow; and between two signs of life when nothing happens."""
STALL = 30.0
"""Seconds that one write may take."""
_log = structlog.stdlib.get_logger("orchestrator.api")


def public(entry: Entry) -> Entry:
    """The entry without what is for a provider's or a tool's eyes only."""
    match entry.event:
        case ModelTurn(opaque=opaque) as turn if opaque:
            return replace(entry, event=replace(turn, opaque={}))
        case Waiting(token=token) as waiting if token:
            return replace(entry, event=replace(waiting, token=""))  # nosec B106  # taken away, not set
        case _:
            return entry


def frame(entry: Entry) -> bytes:
    """One event: its JSON is one line, whatever is in it."""
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (entry.seq, entry.event.kind.encode(), dump_entry(public(entry)))


class EventStream(Response):
    """Events after `after`, until the run ends, the client goes, or the server is about to stop."""

    media_type = MEDIA

    def __init__(self, call: Call, run_id: str, after: int, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(None, 200, {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})})
        self._call, self._run_id, self._after = call, run_id, after
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  as ASGI has it
        """Answer."""
        gone = asyncio.ensure_future(_gone(receive))
        try:
            with self._call.service.followers.one_more(self._call.who.name):
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                async for piece in self._pieces(gone):
                    async with asyncio.timeout(STALL):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                if not gone.done():
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            _log.info("a follower took nothing and was let go", run=self._run_id, after=STALL)
        finally:
            gone.cancel()

    async def _pieces(self, gone: asyncio.Future[None]) -> AsyncIterator[bytes]:
        service = self._call.service
        closing = asyncio.ensure_future(service.closing.wait())
        entries = service.store.follow(self._run_id, self._after)
        coming = asyncio.ensure_future(anext(entries, None))
        now = asyncio.get_running_loop().time
        due = now() + BEAT
        yield b"retry: 1000\n\n"
        try:
            while True:
                await asyncio.wait((coming, closing, gone), timeout=due - now(), return_when=asyncio.FIRST_COMPLETED)
                if gone.done() or closing.done():
                    return
                if now() >= due:
                    await self._still_allowed()
                    due = now() + BEAT
                if not coming.done():
                    yield b": still here\n\n"
                    continue
                entry = coming.result()
                if entry is None:
                    return
                yield frame(entry)
                coming = asyncio.ensure_future(anext(entries, None))
        except (Problem, StoreError) as error:
            yield b"event: problem\ndata: %b\n\n" % body_of(of(error))
        finally:
            coming.cancel()
            closing.cancel()
            await asyncio.gather(coming, closing, return_exceptions=True)

    async def _still_allowed(self) -> None:
        """Problem when the token was revoked, has expired or says less, or the run was purged, in the meantime."""
        who = self._call.service.gate.who(self._call.request)
        who.need("read")
        row = await self._call.service.store.row(self._run_id)
        if row is None or not who.sees(row.tenant):
            raise Problem(404, "UNKNOWN_RUN", "the run has been deleted")


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
