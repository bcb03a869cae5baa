"""Replies as bytes: OpenAI chat completions and Anthropic messages, whole or as server-sent events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import orjson

from orchestrator.demo.conversation import DISCLAIMER, Call, Conversation, from_anthropic, from_openai
from orchestrator.demo.speech import Reply

PIECE = 24  # characters per streamed delta
BYTES_PER_TOKEN = 4
OPENAI_STOP = {"end": "stop", "stop_sequence": "stop", "tools": "tool_calls", "length": "length"}
ANTHROPIC_STOP = {"end": "end_turn", "stop_sequence": "stop_sequence", "tools": "tool_use", "length": "max_tokens"}


@dataclass(frozen=True, slots=True)
class Wire:
    """One provider's dialect: how to read a request, write a reply, stream it, and write an error."""

    read: Callable[[Any], Conversation]
    whole: Callable[[Conversation, Reply], bytes]
    stream: Callable[[Conversation, Reply], Iterator[bytes]]
    error: Callable[[int, str, str], bytes]


def tokens(text: str) -> int:
    """A plausible count: about four bytes of UTF-8 each."""
    return len(text.encode()) // BYTES_PER_TOKEN + 1 if text else 0


def input_tokens(conversation: Conversation) -> int:
    """The whole prompt."""
    said = sum(len(turn.text) + sum(len(call.arguments) for call in turn.calls) for turn in conversation.turns)
    results = sum(len(text) for turn in conversation.turns for _, text in turn.results)
    return (len(conversation.system) + said + results) * 2 // BYTES_PER_TOKEN + 60 * len(conversation.tools) + 4


def output_tokens(reply: Reply) -> int:
    """Text, thinking and arguments together."""
    if reply.tokens is not None:
        return reply.tokens
    return max(1, tokens(reply.text) + tokens(reply.thinking) + sum(tokens(call.arguments) + 8 for call in reply.calls))


def limited(conversation: Conversation, reply: Reply, *, deaf: bool = False) -> Reply:
    """The reply as an endpoint lets it out: cut at the first stop sequence, and at max_tokens."""
    ends = [(at, stop) for stop in conversation.stop if stop and (at := reply.text.find(stop)) >= 0]
    if ends and not deaf:
        at, stop = min(ends)
        reply = replace(reply, text=reply.text[:at], calls=(), stop="stop_sequence", stopped=stop)
    if reply.tokens is None and output_tokens(reply) > conversation.max_tokens:
        room = conversation.max_tokens * BYTES_PER_TOKEN
        text = reply.text.encode()[:room].decode(errors="ignore")
        reply = replace(reply, text=text, calls=(), stop="length", stopped=None, tokens=conversation.max_tokens)
    return reply


def reply_id(conversation: Conversation) -> str:
    """The same conversation always gets the same id."""
    return sha256(f"{conversation.goal}\0{conversation.step}".encode()).hexdigest()[:20]


def openai_base(conversation: Conversation, kind: str) -> dict[str, Any]:
    """What every OpenAI body starts with."""
    return {
        "id": f"chatcmpl-demo-{reply_id(conversation)}",
        "object": kind,
        "created": 0,
        "model": conversation.model,
        "system_fingerprint": DISCLAIMER,
    }


def openai_usage(conversation: Conversation, reply: Reply) -> dict[str, Any]:
    """Token counts, reasoning apart."""
    prompt, written = input_tokens(conversation), output_tokens(reply)
    thought = written if reply.stop == "length" and reply.thinking else tokens(reply.thinking)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": min(thought, written)},
    }


def openai_call(call: Call) -> dict[str, Any]:
    """One tool call."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def openai_whole(conversation: Conversation, reply: Reply) -> bytes:
    """A chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or (None if reply.calls else "")}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if reply.calls:
        message["tool_calls"] = [openai_call(call) for call in reply.calls]
    body = openai_base(conversation, "chat.completion")
    body["choices"] = [{"index": 0, "message": message, "finish_reason": OPENAI_STOP[reply.stop], "logprobs": None}]
    return orjson.dumps(body | {"usage": openai_usage(conversation, reply)})


def openai_stream(conversation: Conversation, reply: Reply) -> Iterator[bytes]:
    """Chunks, then the usage chunk, then [DONE]."""
    base = openai_base(conversation, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return event(base | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"reasoning_content": piece}) for piece in pieces(reply.thinking))
    yield from (chunk({"content": piece}) for piece in pieces(reply.text))
    for index, call in enumerate(reply.calls):
        opened = openai_call(call)
        opened["function"] = {"name": call.name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, **opened}]})
        yield from (
            chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            for piece in pieces(call.arguments)
        )
    yield chunk({}, OPENAI_STOP[reply.stop])
    yield event(base | {"choices": [], "usage": openai_usage(conversation, reply)})
    yield b"data: [DONE]\n\n"


def openai_error(_status: int, kind: str, message: str) -> bytes:
    """An error body."""
    return orjson.dumps({"error": {"message": message, "type": kind, "param": None, "code": kind}})


def anthropic_base(conversation: Conversation, reply: Reply) -> dict[str, Any]:
    """A message without its content."""
    usage = {
        "input_tokens": input_tokens(conversation),
        "output_tokens": output_tokens(reply),
        "cache_read_input_tokens": 0,
    }
    return {
        "id": f"msg_demo_{reply_id(conversation)}",
        "type": "message",
        "role": "assistant",
        "model": conversation.model,
        "content": [],
        "stop_reason": ANTHROPIC_STOP[reply.stop],
        "stop_sequence": reply.stopped,
        "usage": usage,
    }


def arguments(call: Call) -> Any:
    """The object; text that is no JSON goes out as the text it is, as some compatible servers do."""
    try:
        return orjson.loads(call.arguments)
    except ValueError:
        return call.arguments


def anthropic_whole(conversation: Conversation, reply: Reply) -> bytes:
    """A message."""
    content: list[dict[str, Any]] = []
    if reply.thinking:
        content.append({"type": "thinking", "thinking": reply.thinking, "signature": "demo"})
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments(call)} for call in reply.calls
    ]
    return orjson.dumps(anthropic_base(conversation, reply) | {"content": content})


def anthropic_stream(conversation: Conversation, reply: Reply) -> Iterator[bytes]:
    """message_start, blocks, message_delta, message_stop."""
    start = anthropic_base(conversation, reply) | {"stop_reason": None, "stop_sequence": None}
    start["usage"] = start["usage"] | {"output_tokens": 1}
    yield event({"type": "message_start", "message": start})
    index = 0
    if reply.thinking:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(reply.thinking)]
        yield from block(
            index,
            {"type": "thinking", "thinking": "", "signature": ""},
            [*deltas, {"type": "signature_delta", "signature": "demo"}],
        )
        index += 1
    if reply.text:
        yield from block(
            index, {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(reply.text)]
        )
        index += 1
    for call in reply.calls:
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces(call.arguments))]
        yield from block(index, {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}, deltas)
        index += 1
    ended = {"stop_reason": ANTHROPIC_STOP[reply.stop], "stop_sequence": reply.stopped}
    yield event({"type": "message_delta", "delta": ended, "usage": {"output_tokens": output_tokens(reply)}})
    yield event({"type": "message_stop"})


def block(index: int, opened: dict[str, Any], deltas: list[dict[str, Any]]) -> Iterator[bytes]:
    """One content block."""
    yield event({"type": "content_block_start", "index": index, "content_block": opened})
    yield from (event({"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas)
    yield event({"type": "content_block_stop", "index": index})


def anthropic_error(_status: int, kind: str, message: str) -> bytes:
    """An error body."""
    return orjson.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_demo"})


def event(body: dict[str, Any]) -> bytes:
    """One server-sent event; Anthropic's also carry their type as the event's name."""
    named = b"event: " + body["type"].encode() + b"\n" if "type" in body else b""
    return named + b"data: " + orjson.dumps(body) + b"\n\n"


def pieces(text: str) -> Iterator[str]:
    """A text in streamed pieces."""
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


OPENAI = Wire(from_openai, openai_whole, openai_stream, openai_error)
ANTHROPIC = Wire(from_anthropic, anthropic_whole, anthropic_stream, anthropic_error)
