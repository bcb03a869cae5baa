"""The messages API, as Anthropic and compatible servers speak it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.core.events import Anomaly, StopReason, Usage
from orchestrator.core.prompt import Completion, Message, Prompt, RawCall, Text, ToolCall, ToolOutput
from orchestrator.providers.anthropic_stream import Blocks
from orchestrator.providers.failure import failure, fault
from orchestrator.providers.finish import finish
from orchestrator.providers.stream import decoded
from orchestrator.providers.wire import (
    Asked,
    Head,
    Options,
    Reply,
    Request,
    body_of,
    count_of,
    dict_of,
    dicts_of,
    dumps,
    exact,
    raw_arguments,
    storable,
    text_of,
    unique_ids,
)

__all__ = ["decode", "failure", "head", "headers", "parts", "request", "stream"]

_NAME = "anthropic"
_JSON = {"content-type": "application/json"}
_BAD_NAME = re.compile(r"[^A-Za-z0-9_-]")
_PLAIN = {"text": {"type", "text", "citations"}, "tool_use": {"type", "id", "name", "input", "caller"}}
_CACHE = b',"cache_control":{"type":"ephemeral"}}'


def headers(key: str) -> Mapping[str, str]:
    """`x-api-key` and the API version."""
    return {"anthropic-version": "2023-06-01"} | ({"x-api-key": key} if key else {})


def head(prompt: Prompt, options: Options) -> Head:
    """Model, limits, tools and system. Grammars are not of this API; a JSON schema is its `output_config`."""
    body: dict[str, Any] = {"model": options.model, "max_tokens": prompt.max_tokens}
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if prompt.stop and options.stop_ok:
        body["stop_sequences"] = prompt.stop
    if prompt.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema} for tool in prompt.tools
        ]
    if prompt.json_schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": prompt.json_schema}}
    if options.stream:
        body["stream"] = True
    if prompt.system:
        cached = {"cache_control": {"type": "ephemeral"}} if options.cache else {}
        body["system"] = [{"type": "text", "text": prompt.system, **cached}] if options.cache else prompt.system
    body = {name: value for name, value in (body | dict(options.extra)).items() if value is not None}
    return Head("/v1/messages", _JSON, dumps(body)[:-1] + b',"messages":[', options.cache)


def request(head: Head, parts: Sequence[bytes], tail: str = "") -> Request:
    """Joined bytes. The tail is one more block of the last user message; a cache breakpoint stands before it."""
    if parts and parts[-1].startswith(b'{"role":"user"'):
        *parts, last = parts
        blocks = last[:-3] + (_CACHE if head.cache else b"}")
        blocks += b"," + dumps({"type": "text", "text": tail}) if tail else b""
        parts = [*parts, blocks + b"]}"]
    elif tail:
        parts = [*parts, dumps({"role": "user", "content": [{"type": "text", "text": tail}]})]
    return Request(head.path, head.headers, body_of(head, parts))


def parts(message: Message, model: str) -> tuple[bytes, ...]:
    """Always one wire message, of blocks: results before text for the user, no blank text, never without content."""
    texts = [
        {"type": "text", "text": part.text} for part in message.parts if isinstance(part, Text) and part.text.strip()
    ]
    if message.role == "user":
        blocks = [_result(part) for part in message.parts if isinstance(part, ToolOutput)] + texts
    else:
        calls = [part for part in message.parts if isinstance(part, ToolCall)]
        blocks = _replayed(message, model, calls) or texts + [_tool_use(call) for call in calls]
    blocks = blocks or [{"type": "text", "text": "(empty)" if message.role == "user" else "(no answer)"}]
    return (dumps({"role": message.role, "content": blocks}),)


def decode(reply: Reply, asked: Asked = Asked()) -> Completion:  # noqa: B008  a frozen value
    """The reply as a Completion, whichever way it came; a CallError for all that is none."""
    return decoded(reply, asked, stream, _whole)


def stream(asked: Asked = Asked()) -> Blocks:  # noqa: B008
    """A fresh decoder of one streamed reply."""
    return Blocks(asked, read=_turn, whole=_whole, usage=_usage)


def _whole(body: Any, reply: Reply, asked: Asked) -> Completion:
    message = dict_of(body)
    if "content" not in message:
        raise fault(
            "MALFORMED_RESPONSE", "the reply is no message; check that base_url speaks the Anthropic messages API"
        )
    if any(isinstance(block.get("input"), dict) and block["input"] for block in dicts_of(message["content"])):
        message = dict_of(exact(reply.body))
    if not text_of(message.get("stop_reason")).strip():
        raise fault("MALFORMED_RESPONSE", "the reply has no stop_reason: nothing says that it is whole")
    return _turn(message, asked)


def _turn(message: dict[str, Any], asked: Asked) -> Completion:
    message = storable(message)
    spent = _usage(dict_of(message.get("usage")))
    stop, odd = finish(message.get("stop_reason"), output_tokens=spent.output_tokens, max_tokens=asked.max_tokens)
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list) and content is not None:
        raise fault("MALFORMED_RESPONSE", f"content is {type(content).__name__}, not a list of blocks")
    blocks = dicts_of(content)
    text = "".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text")
    reasoning = "".join(text_of(block.get("thinking")) for block in blocks if block.get("type") == "thinking")
    raw = [block for block in blocks if block.get("type") == "tool_use"]
    ids, missing, twice = unique_ids(block.get("id") for block in raw)
    calls = tuple(
        RawCall(id, text_of(block.get("name")), raw_arguments(block.get("input")))
        for id, block in zip(ids, raw, strict=True)
    )
    if calls and stop is StopReason.END_TURN:
        stop = StopReason.TOOL_USE
    flags = ((Anomaly.MISSING_CALL_ID,) if missing else ()) + ((Anomaly.DUPLICATE_CALL_ID,) if twice else ())
    plain = all(block.keys() <= _PLAIN.get(text_of(block.get("type")), set()) for block in blocks)
    opaque: dict[str, Any] = {} if plain else {"provider": _NAME, "model": asked.model, "content": blocks}
    return Completion(text, reasoning, calls, stop, spent, odd + flags, opaque)


def _usage(usage: dict[str, Any]) -> Usage:
    # Anthropic counts cached input apart; ours includes it, as budgets want the whole prompt.
    cached = count_of(usage.get("cache_read_input_tokens"))
    fresh = count_of(usage.get("input_tokens")) + count_of(usage.get("cache_creation_input_tokens"))
    return Usage(fresh + cached, count_of(usage.get("output_tokens")), cached)


def _result(output: ToolOutput) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": output.id, "content": output.text or "(no output)"}
    return block | {"is_error": True} if output.error else block


def _tool_use(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": call.id,
        "name": _BAD_NAME.sub("_", call.name)[:64] or "unknown",
        "input": call.input,
    }


def _replayed(message: Message, model: str, calls: list[ToolCall]) -> list[dict[str, Any]]:
    """The blocks as they came, to the same model; [] when they would not be valid, or do not say what the parts say.

    Signed thinking goes back byte for byte; unsigned thinking, which a real endpoint refuses, and blank text are left out.
    """
    opaque = message.opaque
    blocks = opaque.get("content")
    if opaque.get("provider") != _NAME or opaque.get("model") != model or not isinstance(blocks, Sequence):
        return []
    kept = [dict(block) for block in blocks if isinstance(block, Mapping) and _sendable(block)]
    said = "".join(text_of(block.get("text")) for block in kept if block.get("type") == "text")
    meant = "".join(part.text for part in message.parts if isinstance(part, Text))
    uses = [block for block in kept if block.get("type") == "tool_use"]
    if len(uses) != len(calls) or "".join(said.split()) != "".join(meant.split()) or not kept:
        return []
    if kept[-1].get("type") in ("thinking", "redacted_thinking"):
        return []
    for block, call in zip(uses, calls, strict=True):
        block.update(_tool_use(call))
    return kept


def _sendable(block: Mapping[str, Any]) -> bool:
    if block.get("type") == "text":
        return bool(text_of(block.get("text")).strip())
    return block.get("type") != "thinking" or bool(block.get("signature"))
