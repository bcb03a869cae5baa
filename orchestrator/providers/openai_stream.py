"""Chat completion chunks, gathered into the message that the unstreamed reply would have held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from orchestrator.core.events import Usage
from orchestrator.core.prompt import Completion, Delta
from orchestrator.providers.failure import error_of, failure, fault
from orchestrator.providers.stream import EventStream, Whole
from orchestrator.providers.wire import Asked, Reply, dict_of, dicts_of, dumps, text_of

Read: TypeAlias = Callable[[dict[str, Any], dict[str, Any], Asked], Completion]
_STRINGS = ("reasoning_content", "reasoning", "reasoning_text", "refusal")


class Chunks(EventStream):
    """A stream of `chat.completion.chunk`."""

    def __init__(self, asked: Asked, *, read: Read, whole: Whole, usage: Callable[[dict[str, Any]], Usage]) -> None:
        super().__init__(asked, whole)
        self._turn = read
        self._count = usage
        self._spent: dict[str, Any] = {}
        self._thinking: list[str] = []
        self._strings: dict[str, list[str]] = {}
        self._others: dict[str, Any] = {}
        self._calls = _Calls()
        self._finish: str | None = None
        self._seen = False

    def _take(self, event: dict[str, Any]) -> Delta | None:
        if isinstance(event.get("usage"), dict):
            self._spent = event["usage"]
        for choice in dicts_of(event.get("choices")):
            if choice.get("index") in (0, None):
                return self._choice(choice)
        return None

    def _choice(self, choice: dict[str, Any]) -> Delta | None:
        self._seen = True
        if error_of(choice) is not None:
            raise failure(Reply(200, {}, dumps({"error": choice["error"]})), self._asked.now)
        self._finish = text_of(choice.get("finish_reason")).strip() or self._finish  # some send "" until the end
        return self._delta(dict_of(choice.get("delta")) or dict_of(choice.get("message")))

    def _delta(self, delta: dict[str, Any]) -> Delta | None:
        reasoning = ""
        for name, value in delta.items():
            if name in _STRINGS and isinstance(value, str):
                self._strings.setdefault(name, []).append(value)
                reasoning = reasoning or (value if name != "refusal" else "")
            elif name == "tool_calls":
                for item in value if isinstance(value, list) else [value]:
                    self._calls.add(dict_of(item))
            elif name == "function_call" and isinstance(value, dict):
                self._calls.add({"index": 0, "function": value})
            elif name != "content" and isinstance(value, list):
                self._others.setdefault(name, []).extend(value)
        content = delta.get("content")
        if content is None or isinstance(content, str):
            return self._said(content or "", reasoning)
        if not isinstance(content, list):
            raise fault("MALFORMED_RESPONSE", f"delta.content is {type(content).__name__}, not text")
        pieces = dicts_of(content)
        thought = "".join(text_of(bit.get("text")) for piece in pieces for bit in dicts_of(piece.get("thinking")))
        self._thinking.append(thought)
        return self._said("".join(text_of(piece.get("text")) for piece in pieces), reasoning or thought)

    def _read(self) -> Completion:
        if self._finish is None and not self._done:
            raise fault("STREAM_INTERRUPTED", "the stream ended without finish_reason and without [DONE]")
        if not self._seen:
            raise fault("EMPTY_RESPONSE", "the stream held no choice")
        text, thinking = "".join(self._text), "".join(self._thinking)
        message: dict[str, Any] = self._others | {name: "".join(pieces) for name, pieces in self._strings.items()}
        message["tool_calls"] = self._calls.whole()
        message["content"] = text
        if thinking:
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": thinking}]}
            message["content"] = [thought, {"type": "text", "text": text}]
        return self._turn({"message": message, "finish_reason": self._finish}, self._spent, self._asked)

    def _usage(self) -> Usage:
        return self._count(self._spent)


class _Calls:
    """Fragments of calls. Joined by index; a server that gives all calls one index is told apart by id and name."""

    def __init__(self) -> None:
        self._calls: list[tuple[int, dict[str, Any], list[Any]]] = []
        self._at: dict[int, int] = {}
        self._highest = 0

    def add(self, item: dict[str, Any]) -> None:
        """Take one element of `delta.tool_calls`."""
        function = dict_of(item.get("function"))
        id, name = text_of(item.get("id")), text_of(function.get("name"))
        index = item.get("index")
        place = index if isinstance(index, int) else self._highest
        self._highest = max(self._highest, place)
        known = self._at.get(place)
        if known is not None and name and ((id and id != self._calls[known][1]["id"]) or (index is None and not id)):
            known = None
        if known is None:
            known = self._at[place] = len(self._calls)
            self._calls.append((place, {"id": "", "type": "function", "name": ""}, []))
        _, call, pieces = self._calls[known]
        call["id"] = call["id"] or id
        if name != call["name"] and not pieces:
            call["name"] += name
        if (piece := function.get("arguments")) not in (None, ""):
            pieces.append(piece)
        extras = {key: value for key, value in item.items() if key not in ("id", "index", "type", "function")}
        call.update({key: value for key, value in extras.items() if value is not None and key != "name"})

    def whole(self) -> list[dict[str, Any]]:
        """The calls, by index and then by arrival."""
        found = []
        for _, call, pieces in sorted(self._calls, key=lambda item: item[0]):
            joined = "".join(piece if isinstance(piece, str) else dumps(piece).decode() for piece in pieces)
            arguments = pieces[0] if len(pieces) == 1 else joined
            extras = {key: value for key, value in call.items() if key != "name"}
            found.append(extras | {"function": {"name": call["name"], "arguments": arguments}})
        return found
