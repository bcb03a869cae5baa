"""Server-sent events out of bytes split anywhere. Linear time; memory is what the unfinished event needs."""

from __future__ import annotations

from orchestrator.errors import Unavailable
from orchestrator.providers.wire import MAX_REPLY


class Events:
    """Incremental reader of `text/event-stream` (WHATWG): CRLF, LF or CR, comments, several data lines, a BOM."""

    def __init__(self, limit: int = MAX_REPLY) -> None:
        self._limit = limit
        self._size = 0
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._name = ""
        self._after_cr = False
        self._started = False

    def feed(self, chunk: bytes) -> list[tuple[str, bytes]]:
        """The events that these bytes complete, as (event name or "", data). Raises Unavailable beyond the size limit."""
        self._size += len(chunk)
        if self._size > self._limit:
            raise Unavailable("MALFORMED_RESPONSE", f"streamed reply larger than {self._limit} bytes; not read further")
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
        if not chunk:
            return []
        self._after_cr = chunk[-1:] == b"\r"
        found: list[tuple[str, bytes]] = []
        for piece in chunk.splitlines(keepends=True):
            body = piece.rstrip(b"\r\n")
            if self._line or len(body) == len(piece):
                self._line.append(body)
            if len(body) < len(piece):
                self._take(b"".join(self._line) if self._line else body, found)
                self._line.clear()
        return found

    def rest(self) -> list[tuple[str, bytes]]:
        """At the end of the bytes: the event that lacks only its blank line, if any (some servers leave it out)."""
        found: list[tuple[str, bytes]] = []
        self._take(b"".join(self._line), found)
        self._line.clear()
        self._take(b"", found)
        return found

    def _take(self, line: bytes, found: list[tuple[str, bytes]]) -> None:
        if not self._started:
            self._started = True
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            if self._data:
                found.append((self._name, b"\n".join(self._data)))
            self._data, self._name = [], ""
            return
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8", "replace")
