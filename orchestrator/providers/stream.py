"""What both dialects' stream decoders share: events out of bytes, a plain JSON reply where a stream was asked, the three ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from orchestrator.core.events import StopReason, Usage
from orchestrator.core.prompt import Completion, Delta
from orchestrator.errors import Unavailable
from orchestrator.providers.failure import error_of, failure, fault
from orchestrator.providers.sse import Events
from orchestrator.providers.wire import MAX_REPLY, Asked, Reply, dumps, estimated, heal, is_events, loads

Whole: TypeAlias = Callable[[Any, Reply, Asked], Completion]
"""A dialect's reader of a JSON body that is no error; it is given the reply for what JSON readers lose."""

_KEEP_ALIVE = ("ping", "keepalive", "keep-alive", "heartbeat")


class EventStream(ABC):
    """One streamed reply. A dialect adds `_take` (one event), `_read` (the end) and `_usage`."""

    def __init__(self, asked: Asked, whole: Whole, limit: int = MAX_REPLY) -> None:
        self._asked = asked
        self._whole = whole
        self._events = Events(limit)
        self._limit = limit
        self._body: list[bytes] = []
        self._size = 0
        self._plain: bool | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._done = False

    def feed(self, data: bytes) -> tuple[Delta, ...]:
        """Take the next bytes, split anywhere; the pieces of text and reasoning that they complete."""
        if self._plain is None:
            data = self._sniff(data)
        elif self._plain:
            self._keep(data)
        if self._plain is not False:
            return ()
        found = []
        for name, event in self._events.feed(data):
            delta = self._event(name, event)
            if delta is not None:
                found.append(delta)
        return tuple(found)

    def end(self, *, closed_early: bool = False) -> Completion:
        """The server is done (or, `closed_early`, gone)."""
        if self._plain:
            return read_whole(Reply(200, {}, b"".join(self._body), closed_early), self._asked, self._whole)
        if self._plain is None:
            if b"".join(self._body).strip() and not closed_early:
                return read_whole(Reply(200, {}, b"".join(self._body)), self._asked, self._whole)
            raise fault(
                "STREAM_INTERRUPTED" if closed_early else "EMPTY_RESPONSE", "the stream ended before its first event"
            )
        for name, event in self._events.rest():
            try:
                loads(event)
            except ValueError:
                if event.strip() != b"[DONE]":
                    break
            self._event(name, event)
        return self._read()

    def cut(self) -> Completion:
        """We hung up: text and reasoning so far, no calls. Tokens that the server had not counted yet are estimated."""
        text, reasoning = heal("".join(self._text)), heal("".join(self._reasoning))
        told, seen = self._usage(), Completion(text, reasoning)
        written = max(told.output_tokens, estimated(Usage(), seen, self._asked.sent).output_tokens)
        usage = estimated(replace(told, output_tokens=written), seen, self._asked.sent)
        return Completion(text, reasoning, (), StopReason.CUT, usage)

    @abstractmethod
    def _take(self, event: dict[str, Any]) -> Delta | None: ...

    @abstractmethod
    def _read(self) -> Completion: ...

    @abstractmethod
    def _usage(self) -> Usage: ...

    def _event(self, name: str, data: bytes) -> Delta | None:
        stripped = data.strip()
        if self._done or not stripped or name in _KEEP_ALIVE:
            return None
        if stripped == b"[DONE]":
            self._done = True
            return None
        try:
            event = loads(data)
        except ValueError:
            event = None
        error = error_of(event)
        if name == "error" and error is None:
            said = event if isinstance(event, dict) else {"message": data.decode("utf-8", "replace")}
            raise failure(Reply(200, {}, dumps({"error": said})), self._asked.now)
        if not isinstance(event, dict):
            raise fault(
                "MALFORMED_RESPONSE", f"an event of the stream is unreadable ({len(data)} bytes): text was lost"
            )
        if error is not None:
            raise failure(Reply(200, {}, data), self._asked.now)
        return self._take(event)

    def _said(self, text: str, reasoning: str) -> Delta | None:
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        return Delta(heal(text), heal(reasoning)) if text or reasoning else None

    def _sniff(self, data: bytes) -> bytes:
        # Some servers ignore `stream: true`, proxies answer with a page: no SSE line starts like JSON or HTML.
        self._keep(data)
        known = b"".join(self._body)
        start = known.removeprefix(b"\xef\xbb\xbf").lstrip()
        if len(known) < 4 or not start:
            self._body = [known]
            return b""
        self._plain = not start.startswith((b"d", b"e", b"i", b"r", b":"))
        if not self._plain:
            self._body.clear()
        return known

    def _keep(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._limit:
            raise Unavailable("MALFORMED_RESPONSE", f"reply larger than {self._limit} bytes; not read further")
        self._body.append(data)


def decoded(reply: Reply, asked: Asked, stream: Callable[[Asked], EventStream], whole: Whole) -> Completion:
    """The reply as a Completion, whichever way it came; a CallError for all that is none."""
    if not 200 <= reply.status < 300:
        raise failure(reply, asked.now)
    if is_events(reply):
        events = stream(asked)
        events.feed(reply.body)
        return events.end(closed_early=reply.closed_early)
    return read_whole(reply, asked, whole)


def read_whole(reply: Reply, asked: Asked, whole: Whole) -> Completion:
    """A reply that is one JSON document, read by its dialect; a CallError for one that is not, or that is an error."""
    try:
        body = loads(reply.body)
    except ValueError:
        code = "STREAM_INTERRUPTED" if reply.closed_early else "MALFORMED_RESPONSE"
        raise fault(code, f"the reply is not JSON ({len(reply.body)} bytes); check base_url in the settings") from None
    if error_of(body) is not None:
        raise failure(reply, asked.now)
    return whole(body, reply, asked)
