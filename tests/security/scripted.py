"""A model server on loopback that says what a play tells it to, in both dialects, and keeps every request it was sent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from pydantic import SecretStr

from orchestrator.core.spec import Protocol
from orchestrator.settings import ModelSettings, Retry
from tests.security.sent import Dialect, Sent, read


@dataclass(frozen=True, slots=True)
class Say:
    """A reply: text, and natively calls. `status` other than 200 refuses, with the text as the reason."""

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    status: int = 200


Play = Callable[[Sent, int], Say]
"""What to say to this request, the n-th from 0."""


@dataclass(slots=True)
class Scripted:
    """`requests` are in the order they came."""

    play: Play
    url: str = ""
    requests: list[Sent] = field(default_factory=list)

    def model(self, dialect: Dialect, protocol: Protocol, key: str = "") -> ModelSettings:
        """This server as a model of the settings."""
        base = f"{self.url}/v1" if dialect == "openai" else self.url
        return ModelSettings(
            provider=dialect,
            base_url=base,
            model="m",
            protocol=protocol,
            stream=False,
            api_key=SecretStr(key),
            retry=Retry(attempts=1),
        )

    async def openai(self, request: web.Request) -> web.Response:
        said = await self._said(request)
        calls = [
            {
                "id": f"call_{len(self.requests)}abcdef{index}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(given)},
            }
            for index, (name, given) in enumerate(said.calls)
        ]
        message = {"role": "assistant", "content": said.text, **({"tool_calls": calls} if calls else {})}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        return _answer(said, {"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 9}})

    async def anthropic(self, request: web.Request) -> web.Response:
        said = await self._said(request)
        blocks: list[dict[str, Any]] = [{"type": "text", "text": said.text}] if said.text else []
        blocks += [
            {"type": "tool_use", "id": f"toolu_{len(self.requests)}abcdef{index}", "name": name, "input": given}
            for index, (name, given) in enumerate(said.calls)
        ]
        stop = "tool_use" if said.calls else "end_turn"
        usage = {"input_tokens": 9, "output_tokens": 9}
        body = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": blocks,
            "stop_reason": stop,
            "usage": usage,
        }
        return _answer(said, body)

    async def _said(self, request: web.Request) -> Say:
        sent = read(await request.read())
        self.requests.append(sent)
        return self.play(sent, len(self.requests) - 1)


def _answer(said: Say, body: Mapping[str, Any]) -> web.Response:
    if said.status != 200:
        body = {"type": "error", "error": {"type": "invalid_request_error", "message": said.text}}
    return web.Response(status=said.status, text=json.dumps(body), content_type="application/json")


@asynccontextmanager
async def scripted(play: Play) -> AsyncIterator[Scripted]:
    """Serve on a free port until the block ends."""
    server = Scripted(play)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.openai)
    app.router.add_post("/v1/messages", server.anthropic)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        await runner.cleanup()
