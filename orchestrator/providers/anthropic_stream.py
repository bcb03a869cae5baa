"""Message events, gathered into the message that the unstreamed reply would have been."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from orchestrator.core.events import Usage
from orchestrator.core.prompt import Completion, Delta
from orchestrator.providers.failure import fault
from orchestrator.providers.stream import EventStream, Whole
from orchestrator.providers.wire import Asked, dict_of, exact_object, text_of

Read: TypeAlias = Callable[[dict[str, Any], Asked], Completion]
_FIELDS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


class Blocks(EventStream):
    """A stream of `message_start`, `content_block_*`, `message_delta`, `message_stop`. Unknown events are skipped."""

    def __init__(self, asked: Asked, *, read: Read, whole: Whole, usage: Callable[[dict[str, Any]], Usage]) -> None:
        super().__init__(asked, whole)
        self._turn = read
        self._count = usage
        self._spent: dict[str, Any] = {}
        self._stop: str | None = None
        self._started = False
        self._blocks: dict[int, _Block] = {}
        self._last = -1

    def _take(self, event: dict[str, Any]) -> Delta | None:
        kind = event.get("type")
        if kind == "message_start":
            self._started = True
            self._spend(dict_of(event.get("message")).get("usage"))
        elif kind == "content_block_start":
            block = _Block(dict_of(event.get("content_block")))
            self._blocks[self._index(event, fresh=True)] = block
            return self._said(text_of(block.start.get("text")), text_of(block.start.get("thinking")))
        elif kind == "content_block_delta":
            return self._delta(self._index(event), dict_of(event.get("delta")))
        elif kind == "content_block_stop" and (known := self._blocks.get(self._index(event))):
            known.open = False
        elif kind == "message_delta":
            self._spend(event.get("usage"))
            self._stop = text_of(dict_of(event.get("delta")).get("stop_reason")).strip() or self._stop
        elif kind == "message_stop":
            self._done = True
        return None

    def _index(self, event: dict[str, Any], *, fresh: bool = False) -> int:
        index = event.get("index")
        if not isinstance(index, int):
            index = self._last + 1 if fresh else self._last
        self._last = max(self._last, index)
        return index

    def _delta(self, index: int, delta: dict[str, Any]) -> Delta | None:
        field = _FIELDS.get(text_of(delta.get("type")))
        piece = text_of(delta.get(field or ""))
        if field is None:
            return None
        kind = {"text": "text", "partial_json": "tool_use"}.get(field, "thinking")
        self._blocks.setdefault(index, _Block({"type": kind})).add(field, piece)
        return self._said(piece if field == "text" else "", piece if field == "thinking" else "")

    def _spend(self, usage: Any) -> None:
        # message_start counts the input, message_delta the output so far; a null or a 0 never undoes a count.
        self._spent |= {name: value for name, value in dict_of(usage).items() if value or name not in self._spent}

    def _read(self) -> Completion:
        torn = any(block.open and block.start.get("type") == "tool_use" for block in self._blocks.values())
        if (self._stop is None and not self._done) or torn:
            raise fault("STREAM_INTERRUPTED", "the stream ended without its terminal event (message_stop)")
        if self._stop is None:
            code = "MALFORMED_RESPONSE" if self._started or self._blocks else "EMPTY_RESPONSE"
            raise fault(code, "the stream ended without a stop_reason: nothing says that the reply is whole")
        blocks = [block.whole() for _, block in sorted(self._blocks.items())]
        return self._turn({"content": blocks, "stop_reason": self._stop, "usage": self._spent}, self._asked)

    def _usage(self) -> Usage:
        return self._count(self._spent)


class _Block:
    """One content block: what it started with and the pieces that came after."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.open = True
        self._pieces: dict[str, list[str]] = {}

    def add(self, field: str, piece: str) -> None:
        """Take a delta of this field."""
        self._pieces.setdefault(field, []).append(piece)

    def whole(self) -> dict[str, Any]:
        """The block as an unstreamed reply would hold it; input that is no object stays text, for the arguments' reader."""
        block = dict(self.start)
        for field, pieces in self._pieces.items():
            joined = "".join(pieces)
            if field != "partial_json":
                block[field] = text_of(block.get(field)) + joined
            elif joined.strip():
                found = exact_object(joined)
                block["input"] = joined if found is None else found
        return block
