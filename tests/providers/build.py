"""Wire replies in a line: whole and streamed, both dialects."""

from __future__ import annotations

import json
from typing import Any

TOOLS = [
    "search(query)",
    "get_weather(city)",
    "get_time()",
    "send_email(to,body)",
    "write_file(path,content)",
    "set_todos(todos: array)",
]
JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}


def call(name: Any, arguments: Any, id: Any = "call_1", **extra: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **extra}


def chat(message: dict[str, Any], finish: Any = "stop", output: int = 8) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 20, "completion_tokens": output, "total_tokens": 20 + output},
    }


def message(*blocks: Any, stop: Any = "end_turn", output: int = 8) -> dict[str, Any]:
    usage = {"input_tokens": 20, "output_tokens": output}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": list(blocks),
        "stop_reason": stop,
        "usage": usage,
    }


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def use(name: Any, input: Any, id: Any = "toolu_1") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def thought(text: str, signature: str = "c2ln") -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature}


def chunks(*deltas: dict[str, Any], finish: Any = "stop", done: bool = True) -> str:
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    if finish is not None:
        choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    lines = [f"data: {json.dumps({'choices': [choice]})}\n\n" for choice in choices]
    return "".join(lines) + ("data: [DONE]\n\n" if done else "")


def part(index: int | None, **fields: Any) -> dict[str, Any]:
    """A delta with one element of `tool_calls`; `name` and `arguments` go into its function."""
    function = {key: fields.pop(key) for key in ("name", "arguments") if key in fields}
    place = {} if index is None else {"index": index}
    return {"tool_calls": [{**place, **fields, "function": function}]}


def events(*blocks: dict[str, Any], stop: Any = "end_turn", output: int = 8, size: int = 3) -> str:
    """The stream of these blocks, in pieces of `size` characters, as Anthropic sends them."""
    start = {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 20, "output_tokens": 1}}}
    found: list[dict[str, Any]] = [start]
    for index, block in enumerate(blocks):
        found.append({"type": "content_block_start", "index": index, "content_block": _opened(block)})
        found += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in _deltas(block, size)]
        found.append({"type": "content_block_stop", "index": index})
    found.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": output}})
    found.append({"type": "message_stop"})
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n" for event in found)


def case(name: str, body: Any, expect: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A wire case of the corpus' shape; the dialect is told from the name's prefix, `stream` from the body."""
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    streamed = fields.pop("stream", text.startswith(("data:", "event:", "id:", ":", "\ufeffdata:")))
    status = fields.pop("status", 200)
    return {
        "id": name,
        "provider": {"oa": "openai", "an": "anthropic"}[name[:2]],
        "class": "robustness",
        "http_status": status,
        "headers": fields.pop("headers", EVENTS if streamed else JSON),
        "body": text,
        "request": {"tools": TOOLS, "stream": streamed, "max_tokens": fields.pop("max_tokens", 1024)},
        "why": "",
        "expect": {"outcome": "turn", "actions": [], "final": None, "flags": [], "error_code": None, **expect},
        **fields,
    }


def final(text: str, **more: Any) -> dict[str, Any]:
    return {"final": text, **more}


def acts(*actions: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"actions": [{"tool": tool, "args": args} for tool, args in actions], **more}


def flagged(*flags: str, **more: Any) -> dict[str, Any]:
    return {"flags": list(flags), **more}


def fails(code: str, outcome: str = "fail", **more: Any) -> dict[str, Any]:
    return {"outcome": outcome, "error_code": code, **more}


def retries(code: str, after: float | None = None) -> dict[str, Any]:
    return fails(code, "retry", retry_after_s=after)


def _opened(block: dict[str, Any]) -> dict[str, Any]:
    empty = {"text": "", "thinking": "", "signature": "", "input": {}}
    return {key: empty.get(key, value) for key, value in block.items()}


def _deltas(block: dict[str, Any], size: int) -> list[dict[str, Any]]:
    kind = block["type"]
    if kind == "tool_use":
        return [
            {"type": "input_json_delta", "partial_json": piece} for piece in _pieces(json.dumps(block["input"]), size)
        ]
    if kind == "thinking":
        found = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"], size)]
        return [*found, {"type": "signature_delta", "signature": block["signature"]}]
    return [{"type": "text_delta", "text": piece} for piece in _pieces(block.get("text", ""), size)]


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]
