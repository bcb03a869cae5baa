"""A light mock of a chat-completions endpoint, in its own process: it sleeps, then proposes the next call or the Final.

The model's name is the script: ``k5-l50`` is five tool steps at 50 ms. How far a run has come is read off the request: it
counts the tool messages. `prefix` in its report is the least share of a prompt that the next prompt of that run kept.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys

_MODEL = re.compile(rb'"model":\s?"k(\d+)-l(\d+)')
_TOOL = re.compile(rb'"role":\s?"tool"')
_STREAM = re.compile(rb'"stream":\s?true')
_MESSAGES = re.compile(rb'"messages":\s?\[')
_RUN = re.compile(rb"run (\d+):")
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def reply(step: int, last: int) -> dict[str, object]:
    """The message of this step."""
    if step >= last:
        return {"role": "assistant", "content": f"The value of the last entry is v{last - 1}."}
    call = {
        "id": f"call_{step}",
        "type": "function",
        "function": {"name": "look", "arguments": json.dumps({"key": f"entry-{step}"})},
    }
    return {"role": "assistant", "content": f"I look up entry-{step}.", "tool_calls": [call]}


def whole(step: int, last: int) -> bytes:
    body = {"id": "c1", "object": "chat.completion", "created": 1, "model": "mock", "usage": USAGE}
    finish = "stop" if step >= last else "tool_calls"
    return json.dumps(
        {**body, "choices": [{"index": 0, "message": reply(step, last), "finish_reason": finish}]}
    ).encode()


def streamed(step: int, last: int) -> bytes:
    message = reply(step, last)
    deltas: list[dict[str, object]] = [{"role": "assistant", "content": message["content"]}]
    if "tool_calls" in message:
        deltas.append({"tool_calls": [{"index": 0, **call} for call in message["tool_calls"]]})  # type: ignore[attr-defined]
    finish = "stop" if step >= last else "tool_calls"
    chunks: list[dict[str, object]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}, {"choices": [], "usage": USAGE}]
    lines = [json.dumps({"id": "c1", "object": "chat.completion.chunk", **chunk}) for chunk in chunks]
    return "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode()


class Connection(asyncio.Protocol):
    """One keep-alive connection."""

    prompts: dict[bytes, bytes] | None = None
    prefix = 1.0

    def __init__(self) -> None:
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (head := self.buffer.find(b"\r\n\r\n")) >= 0:
            length = re.search(rb"content-length: *(\d+)", self.buffer[:head], re.IGNORECASE)
            end = head + 4 + (int(length[1]) if length else 0)
            if len(self.buffer) < end:
                return
            request, self.buffer = self.buffer[:end], self.buffer[end:]
            self.answer(request[: request.find(b" ", 5)], request[head + 4 :])

    def answer(self, path: bytes, body: bytes) -> None:
        if path.endswith(b"/report"):
            self.write(json.dumps({"prefix": Connection.prefix}).encode(), b"application/json")
            return
        script = _MODEL.search(body)
        last, delay = (int(script[1]), int(script[2])) if script else (0, 0)
        step = len(_TOOL.findall(body))
        if Connection.prompts is not None:
            self.compare(body)
        stream = _STREAM.search(body) is not None
        made = streamed(step, last) if stream else whole(step, last)
        kind = b"text/event-stream" if stream else b"application/json"
        asyncio.get_running_loop().call_later(delay / 1000, self.write, made, kind)

    def compare(self, body: bytes) -> None:
        assert Connection.prompts is not None
        start = _MESSAGES.search(body)
        run = _RUN.search(body)
        if start is None or run is None:
            return
        prompt = body[start.end() : body.rindex(b"]")]
        before = Connection.prompts.get(run[1])
        if before is not None:
            kept = next(
                (i for i, (a, b) in enumerate(zip(before, prompt, strict=False)) if a != b),
                min(len(before), len(prompt)),
            )
            Connection.prefix = min(Connection.prefix, kept / len(before))
        Connection.prompts[run[1]] = prompt

    def write(self, body: bytes, kind: bytes) -> None:
        head = (
            b"HTTP/1.1 200 OK\r\ncontent-type: "
            + kind
            + b"\r\ncontent-length: "
            + str(len(body)).encode()
            + b"\r\n\r\n"
        )
        if not self.transport.is_closing():
            self.transport.write(head + body)


async def main(*, compare: bool) -> None:
    Connection.prompts = {} if compare else None
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(compare="--compare" in sys.argv))
