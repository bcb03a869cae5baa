"""Chat completions, as OpenAI and the many compatible servers speak it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.core.events import Anomaly, StopReason, Usage
from orchestrator.core.prompt import Completion, Message, Prompt, RawCall, Text, ToolCall, ToolOutput
from orchestrator.providers.failure import error_of, failure, fault
from orchestrator.providers.finish import finish
from orchestrator.providers.openai_stream import Chunks
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

_NAME = "openai"
_JSON = {"content-type": "application/json"}
_BAD_NAME = re.compile(r"[^A-Za-z0-9_.:-]")
_REASONING = ("reasoning_content", "reasoning", "reasoning_text")
_KEPT = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
_PLAIN_CALL = {"id", "type", "index", "function"}
_MAX_STOPS = 4  # more are a 400 at OpenAI; the reader's own cut is the guard anyway


def headers(key: str) -> Mapping[str, str]:
    """`authorization: Bearer`, or nothing for a keyless local server."""
    return {"authorization": f"Bearer {key}"} if key else {}


def head(prompt: Prompt, options: Options) -> Head:
    """Model, limits, tools and the system message. `grammar` (GBNF) is llama.cpp's field."""
    body: dict[str, Any] = {"model": options.model, options.max_tokens_field: prompt.max_tokens}
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if prompt.stop and options.stop_ok:
        body["stop"] = prompt.stop[:_MAX_STOPS]
    if prompt.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
            }
            for tool in prompt.tools
        ]
    if prompt.grammar is not None:
        body["grammar"] = prompt.grammar
    elif prompt.json_schema is not None:
        schema = {"name": "reply", "schema": prompt.json_schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if options.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    body = {name: value for name, value in (body | dict(options.extra)).items() if value is not None}
    first = dumps({"role": "system", "content": prompt.system}) + b"," if prompt.system else b""
    return Head("/chat/completions", _JSON, dumps(body)[:-1] + b',"messages":[' + first)


def request(head: Head, parts: Sequence[bytes], tail: str = "") -> Request:
    """Joined bytes. The tail goes into the last user message: some chat templates refuse two in a row."""
    if not tail:
        return Request(head.path, head.headers, body_of(head, parts))
    said = dumps({"role": "user", "content": tail})
    if parts and parts[-1].startswith(b'{"role":"user","content":"'):
        *parts, last = parts
        said = last[:-2] + dumps("\n\n" + tail)[1:] + b"}"
    return Request(head.path, head.headers, body_of(head, [*parts, said]))


def parts(message: Message, model: str) -> tuple[bytes, ...]:
    """A user message becomes one tool message per output, then its text; an assistant message is one."""
    texts = [part.text for part in message.parts if isinstance(part, Text) and part.text.strip()]
    if message.role == "user":
        outputs = (part for part in message.parts if isinstance(part, ToolOutput))
        found: list[dict[str, Any]] = [{"role": "tool", "tool_call_id": out.id, "content": out.text} for out in outputs]
        if texts or not found:
            found.append({"role": "user", "content": "\n\n".join(texts) or "(empty)"})
        return tuple(dumps(item) for item in found)
    calls = [part for part in message.parts if isinstance(part, ToolCall)]
    return (dumps(_assistant("\n\n".join(texts), calls, _replayed(message, model, len(calls)))),)


def decode(reply: Reply, asked: Asked = Asked()) -> Completion:  # noqa: B008  a frozen value
    """The reply as a Completion, whichever way it came; a CallError for all that is none."""
    return decoded(reply, asked, stream, _whole)


def stream(asked: Asked = Asked()) -> Chunks:  # noqa: B008
    """A fresh decoder of one streamed reply."""
    return Chunks(asked, read=_turn, whole=_whole, usage=_usage)


def _whole(body: Any, reply: Reply, asked: Asked) -> Completion:
    choice = _first(body)
    if choice is None:
        raise fault(
            "MALFORMED_RESPONSE", "the reply holds no choice; check that base_url is a chat completions endpoint"
        )
    message = choice.get("message")
    if error_of(choice) is None and not isinstance(message, dict):
        raise fault("MALFORMED_RESPONSE", "the reply's choice holds no message")
    if any(isinstance(dict_of(call.get("function")).get("arguments"), dict) for call in _raw_calls(dict_of(message))):
        body = exact(reply.body)
        choice = _first(body) or choice
    if not text_of(choice.get("finish_reason")).strip() and error_of(choice) is None:
        raise fault("MALFORMED_RESPONSE", "the reply has no finish_reason: nothing says that it is whole")
    return _turn(choice, dict_of(dict_of(body).get("usage")), asked)


def _first(body: Any) -> dict[str, Any] | None:
    choices = dicts_of(dict_of(body).get("choices"))
    for item in choices:
        if item.get("index") == 0:
            return item
    return choices[0] if choices else None


def _turn(choice: dict[str, Any], usage: dict[str, Any], asked: Asked) -> Completion:
    # `finish_reason` may be missing here: a stream that ended with [DONE] alone.
    if error_of(choice) is not None:
        raise failure(Reply(200, {}, dumps({"error": choice["error"]})), asked.now)
    message = storable(dict_of(choice.get("message")))
    spent = _usage(usage)
    stop, odd = finish(choice.get("finish_reason"), output_tokens=spent.output_tokens, max_tokens=asked.max_tokens)
    text, thinking = _content(message.get("content"))
    reasoning = next((message[name] for name in _REASONING if text_of(message.get(name))), "") or thinking
    raw = _raw_calls(message)
    calls, flags = _calls(raw)
    if text_of(message.get("refusal")) and not text.strip() and not calls:
        text, stop = message["refusal"], StopReason.REFUSAL
    if calls and stop is StopReason.END_TURN:
        stop = StopReason.TOOL_USE
    opaque = _opaque(message, raw, asked.model) if calls else {}
    return Completion(text, reasoning, calls, stop, spent, odd + flags, opaque)


def _content(value: Any) -> tuple[str, str]:
    if value is None or isinstance(value, str):
        return value or "", ""
    if not isinstance(value, list):
        raise fault("MALFORMED_RESPONSE", f"message.content is {type(value).__name__}, not text")
    texts = [text_of(item.get("text")) for item in dicts_of(value) if item.get("type") in ("text", "output_text")]
    thoughts = [
        "".join(text_of(piece.get("text")) for piece in dicts_of(item.get("thinking")))
        for item in dicts_of(value)
        if item.get("type") == "thinking"
    ]
    return "".join(texts), "".join(thoughts)


def _raw_calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    given = message.get("tool_calls")
    if given is None and isinstance(message.get("function_call"), dict):
        return [{"function": message["function_call"]}]
    if given is None or isinstance(given, dict):
        return [given] if given else []
    if not isinstance(given, list):
        raise fault("MALFORMED_RESPONSE", f"message.tool_calls is {type(given).__name__}, not a list")
    return [dict_of(call) for call in given]


def _calls(raw: list[dict[str, Any]]) -> tuple[tuple[RawCall, ...], tuple[Anomaly, ...]]:
    ids, missing, twice = unique_ids([call.get("id") for call in raw])
    calls = []
    for id, call in zip(ids, raw, strict=True):
        function = dict_of(call.get("function"))
        calls.append(RawCall(id, text_of(function.get("name")), raw_arguments(function.get("arguments"))))
    flags = ((Anomaly.MISSING_CALL_ID,) if missing else ()) + ((Anomaly.DUPLICATE_CALL_ID,) if twice else ())
    return tuple(calls), flags


def _usage(usage: dict[str, Any]) -> Usage:
    cached = dict_of(usage.get("prompt_tokens_details")).get("cached_tokens", usage.get("prompt_cache_hit_tokens"))
    thought = dict_of(usage.get("completion_tokens_details")).get("reasoning_tokens")
    return Usage(
        count_of(usage.get("prompt_tokens")),
        count_of(usage.get("completion_tokens")),
        count_of(cached),
        count_of(thought),
    )


def _opaque(message: dict[str, Any], raw: list[dict[str, Any]], model: str) -> dict[str, Any]:
    # Only what cannot be rebuilt: reasoning that must come back with its calls, and vendors' extras on calls.
    kept = {name: message[name] for name in _KEPT if message.get(name)}
    extras = [
        {name: value for name, value in call.items() if name not in _PLAIN_CALL and value is not None} for call in raw
    ]
    if not kept and not any(extras):
        return {}
    return {"provider": _NAME, "model": model, "message": kept, "calls": extras}


def _replayed(message: Message, model: str, calls: int) -> dict[str, Any]:
    opaque = message.opaque
    extras = opaque.get("calls")
    ours = opaque.get("provider") == _NAME and opaque.get("model") == model
    return dict(opaque) if ours and calls and isinstance(extras, Sequence) and len(extras) == calls else {}


def _assistant(text: str, calls: list[ToolCall], replayed: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "(no answer)")}
    if not calls:
        return found
    extras = [dict(extra) if isinstance(extra, Mapping) else {} for extra in replayed.get("calls") or [{}] * len(calls)]
    tool_calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": _BAD_NAME.sub("_", call.name)[:64] or "unknown",
                "arguments": dumps(call.input).decode(),
            },
            **extra,
        }
        for call, extra in zip(calls, extras, strict=True)
    ]
    return found | {"tool_calls": tool_calls} | dict_of(replayed.get("message"))
