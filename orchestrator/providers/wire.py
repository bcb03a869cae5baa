"""What codecs and transport hand each other, and JSON that may be hostile. Knows no dialect and does no I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import orjson

from orchestrator.core.events import Usage
from orchestrator.core.prompt import Completion, Delta, Message, Prompt
from orchestrator.core.quick import quick
from orchestrator.core.spec import JsonObject
from orchestrator.errors import CallError

MAX_REPLY = 32 * 1024 * 1024
"""Bytes of one reply, streamed or not. The largest context windows hold about 4 MB of text; the rest is JSON and reserve."""
DEEPEST = 400
"""Levels of nesting that are read: deeper ones could not be written again, into a request or a Trace."""
DOUBLED = "\0doubled"


@quick
@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP POST. `path` is appended to the endpoint's base URL; the endpoint adds the key."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@quick
@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP answer, read to its end. Header names are lower case; `closed_early`: the connection broke inside the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    closed_early: bool = False


@quick
@dataclass(frozen=True, slots=True)
class Options:
    """How one model of one endpoint wants to be asked.

    `stop_ok` False: the endpoint rejects stop sequences or falls silent with them. `max_tokens_field` is
    "max_completion_tokens" for some OpenAI models. `cache` marks Anthropic prompt-cache breakpoints. `extra` is merged into the
    request body last and wins; a null there removes a field.
    """

    model: str
    stream: bool = False
    stop_ok: bool = True
    temperature: float | None = None
    max_tokens_field: str = "max_tokens"
    cache: bool = False
    extra: JsonObject = field(default_factory=dict)


@quick
@dataclass(frozen=True, slots=True)
class Head:
    """The constant part of every request of a run, serialised once: the body is `prefix + b",".join(parts) + b"]}"`."""

    path: str
    headers: Mapping[str, str]
    prefix: bytes
    cache: bool = False


@quick
@dataclass(frozen=True, slots=True)
class Asked:
    """What the reader must know about the request. `max_tokens` 0 is unknown; `now` is unix seconds, for HTTP dates.

    `sent` is the request body's bytes: what a stream costs that we cut before its usage came is estimated from it.
    """

    model: str = ""
    max_tokens: int = 0
    now: float | None = None
    sent: int = 0


class Stream(Protocol):
    """Reads one streamed reply. Memory is bounded by MAX_REPLY; after `end` or `cut` it is spent."""

    def feed(self, data: bytes) -> tuple[Delta, ...]:
        """Take the next bytes, split anywhere. Raises CallError for an error event or an unreadable one."""

    def end(self, *, closed_early: bool = False) -> Completion:
        """The server is done. Raises CallError STREAM_INTERRUPTED when its terminal event never came."""

    def cut(self) -> Completion:
        """We hung up on purpose: what came so far, without calls; `stop` is CUT."""


class Provider(Protocol):
    """One dialect of HTTP. A module with these functions is one; all are pure."""

    def headers(self, key: str) -> Mapping[str, str]:
        """The endpoint's constant headers with this API key ("" for none)."""

    def parts(self, message: Message, model: str) -> tuple[bytes, ...]:
        """The wire messages of one neutral message, as JSON. Serialise once and keep."""

    def head(self, prompt: Prompt, options: Options) -> Head:
        """The constant part: everything but messages and tail."""

    def request(self, head: Head, parts: Sequence[bytes], tail: str = "") -> Request:
        """Join kept bytes. `tail` stands last, inside the last user message where there is one."""

    def decode(self, reply: Reply, asked: Asked = ...) -> Completion:
        """Read a whole reply, JSON or SSE. Raises a CallError with a code of the closed list for anything else."""

    def failure(self, reply: Reply, now: float | None = None) -> CallError:
        """The error that this reply is."""

    def stream(self, asked: Asked = ...) -> Stream:
        """A fresh decoder for one streamed reply."""


def body_of(head: Head, parts: Sequence[bytes]) -> bytes:
    """The request's body. One join: a second copy of a long history costs forty times the first (fresh pages)."""
    if not parts:
        return head.prefix + b"]}"
    pieces = [*parts]
    pieces[0] = head.prefix + pieces[0]
    pieces[-1] += b"]}"
    return b",".join(pieces)


def loads(data: bytes) -> Any:
    """JSON of a server. Tolerates a BOM, bytes that are no UTF-8 (U+FFFD) and lone surrogates; raises ValueError, also beyond DEEPEST."""
    try:
        value = orjson.loads(data)
    except ValueError:
        return exact(data)
    return value if len(data) <= DEEPEST else _shallow(value, data.count(b"{") + data.count(b"["))


def dumps(value: Any) -> bytes:
    """Compact JSON in UTF-8. Integers of any size; a lone surrogate becomes U+FFFD."""
    try:
        return orjson.dumps(value, default=_plain)
    except TypeError:
        return heal(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)).encode()


def heal(text: str) -> str:
    """Join surrogate pairs that were split between chunks; what stays alone becomes U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def storable(value: dict[str, Any]) -> dict[str, Any]:
    """The same JSON object with no lone surrogate anywhere."""
    try:
        orjson.dumps(value)
    except TypeError:
        return dict(json.loads(heal(json.dumps(value, ensure_ascii=False))))
    return value


def exact(data: bytes) -> Any:
    """As `loads`, without loss: integers of any size, and an object in which a key stands twice carries the key DOUBLED."""
    text = data.decode("utf-8-sig", "surrogatepass" if _passes(data) else "replace")
    try:
        value = json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return _shallow(value, text.count("{") + text.count("["))


def exact_object(text: str) -> dict[str, Any] | None:
    """The object that this text is, read without loss; None when it is none or a key stands twice."""
    try:
        value = exact(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    return value if isinstance(value, dict) and not is_doubled(value) else None


def is_doubled(value: Any) -> bool:
    """Does a key stand twice anywhere in this `exact` value?"""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            if DOUBLED in item:
                return True
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
    return False


def raw_arguments(value: Any) -> str | dict[str, Any]:
    """A call's arguments as `RawCall` wants them. What is neither text nor an unambiguous object becomes text that no parser takes."""
    if isinstance(value, dict):
        return "(a key stands twice)" if is_doubled(value) else value
    if value is None or isinstance(value, str):
        return value or ""
    return dumps(value).decode()


def text_of(value: Any) -> str:
    """The string, or "" for anything else."""
    return value if isinstance(value, str) else ""


def dict_of(value: Any) -> dict[str, Any]:
    """The object, or {} for anything else."""
    return value if isinstance(value, dict) else {}


def dicts_of(value: Any) -> list[dict[str, Any]]:
    """The objects of an array; [] for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def count_of(value: Any) -> int:
    """A token count, or 0 for anything that is none."""
    if type(value) is int and 0 <= value < 10**15:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return 0
    return int(value)


def estimated(told: Usage, seen: Completion, sent: int) -> Usage:
    """The usage as told, and an estimate for each count that was not: of `sent` bytes of request, of what was written.

    Four bytes a token: English has four letters, Chinese three bytes a character and about one token and a third.
    """
    if told.input_tokens and told.output_tokens:
        return told
    calls = "".join(call.arguments if isinstance(call.arguments, str) else str(call.arguments) for call in seen.calls)
    written = len((seen.text + seen.reasoning + calls).encode("utf-8", "replace"))
    return replace(
        told, input_tokens=told.input_tokens or -(-sent // 4), output_tokens=told.output_tokens or -(-written // 4)
    )


def is_events(reply: Reply) -> bool:
    """Is this body server-sent events, whatever was asked for?"""
    kind = reply.headers.get("content-type", "")
    return "event-stream" in kind or reply.body.lstrip().startswith((b"data:", b"event:", b"id:", b"retry:", b":"))


def unique_ids(given: Iterable[Any]) -> tuple[list[str], bool, bool]:
    """Call ids, all different and none empty, with: was one missing? was one there twice? The first of equals keeps its id."""
    raw = [heal(value.strip()) if isinstance(value, str) else "" for value in given]
    taken = set(raw)
    if len(taken) == len(raw) and "" not in taken:
        return raw, False, False
    ids: list[str] = []
    seen: set[str] = set()
    for index, value in enumerate(raw):
        fresh = value
        while not fresh or fresh in seen:
            fresh = f"call{index:05d}" if not fresh else f"{fresh}0"
            fresh = f"{fresh}0" if fresh in taken else fresh
        seen.add(fresh)
        ids.append(fresh)
    named = [value for value in raw if value]
    return ids, len(named) < len(raw), len(set(named)) < len(named)


def _pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(items)
    if len(found) < len(items):
        found[DOUBLED] = True
    return found


def _shallow(value: Any, opened: int) -> Any:
    """The value, in which so many brackets are opened. ValueError when it is nested beyond DEEPEST."""
    level = [value] if opened > DEEPEST and isinstance(value, dict | list) else []
    for _ in range(DEEPEST + 1):
        level = [
            item
            for outer in level
            for item in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(item, dict | list)
        ]
        if not level:
            return value
    raise ValueError("nested too deeply")


def _passes(data: bytes) -> bool:
    if b"\xed" not in data:  # every encoded surrogate begins with it
        return False
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON")
