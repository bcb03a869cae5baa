"""The demo model server: OpenAI `/v1/chat/completions` and Anthropic `/v1/messages` on loopback. It is no language model.

    python -m orchestrator.demo.server --port 18181

Model names: `demo`, with `-l50` to answer after 50 ms, and `:forged` (or another behaviour; `GET /v1/models` lists them) to
misbehave. The header `x-demo-behaviour` does the same as the suffix. No key is asked for, whatever comes is accepted.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import orjson
from aiohttp import web

from orchestrator.demo.behaviours import BEHAVIOURS, DEAF, WIRE_FAULTS
from orchestrator.demo.conversation import DISCLAIMER, HEADER, BadRequest, Conversation
from orchestrator.demo.speech import Reply
from orchestrator.demo.wire import ANTHROPIC, OPENAI, Wire, limited

MODEL = re.compile(r"(demo)(?:-l(\d{1,5}))?(?::([a-z0-9-]+))?")
REFUSALS = 2
MOST_RUNS = 10_000
LARGEST_BODY = 64 * 1024 * 1024
HTML = b"<!DOCTYPE html><html><body><h1>Welcome to the guest network</h1><p>Please sign in.</p></body></html>"
HEADERS = {HEADER: DISCLAIMER}
STREAM = HEADERS | {"content-type": "text/event-stream", "cache-control": "no-cache"}
JSON = "application/json"


@dataclass(slots=True)
class Demo:
    """The server's whole state: refusals by run (its first user message), the number of requests, and the end."""

    url: str = ""
    requests: int = 0
    refused: OrderedDict[int, int] = field(default_factory=OrderedDict)
    ending: asyncio.Event = field(default_factory=asyncio.Event)

    async def openai(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/chat/completions."""
        return await self.answer(request, OPENAI)

    async def anthropic(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/messages."""
        return await self.answer(request, ANTHROPIC)

    async def answer(self, request: web.Request, wire: Wire) -> web.StreamResponse:
        """Read, wait as long as the model's name says, then reply or misbehave."""
        self.requests += 1
        try:
            conversation = wire.read(orjson.loads(await request.read()))
            latency, behaviour = parse(conversation.model, request.headers.get("x-demo-behaviour"))
        except orjson.JSONDecodeError:
            return refuse(wire, 400, "invalid_request_error", "the body is not JSON")
        except BadRequest as problem:
            return refuse(wire, 400, "invalid_request_error", str(problem))
        except LookupError as problem:
            return refuse(wire, 404, "not_found_error", str(problem.args[0]))
        if latency:
            await asyncio.sleep(latency)
        if behaviour in ("429", "529") and self.refuses(conversation):
            kind = "rate_limit_error" if behaviour == "429" else "overloaded_error"
            extra = {"retry-after": "1"} if behaviour == "429" else {}
            return refuse(wire, int(behaviour), kind, f"demo:{behaviour} refuses twice, then answers", extra)
        if behaviour == "html":
            return web.Response(body=HTML, content_type="text/html", headers=HEADERS)
        reply = limited(conversation, BEHAVIOURS[behaviour](conversation), deaf=behaviour in DEAF)
        if behaviour in WIRE_FAULTS and not behaviour.isdigit():
            return await self.spoil(request, wire, conversation, reply, behaviour)
        if not conversation.stream:
            return web.Response(body=wire.whole(conversation, reply), content_type=JSON, headers=HEADERS)
        return await stream(request, wire.stream(conversation, reply))

    def refuses(self, conversation: Conversation) -> bool:
        """Twice for the first step of a run; the count starts again with the next run of the same goal."""
        if conversation.step:
            return False
        run = hash((conversation.model, conversation.goal))
        count = self.refused.pop(run, 0)
        if count >= REFUSALS:
            return False
        self.refused[run] = count + 1
        if len(self.refused) > MOST_RUNS:
            self.refused.popitem(last=False)
        return True

    async def spoil(
        self, request: web.Request, wire: Wire, conversation: Conversation, reply: Reply, behaviour: str
    ) -> web.StreamResponse:
        """hang, cut, cut-clean: send the first half, then nothing, or a closed connection, or a clean end without its event."""
        if conversation.stream:
            events = list(wire.stream(conversation, reply))
            response = web.StreamResponse(headers=STREAM)
            half = b"".join(events[: max(1, len(events) // 2)])
        else:
            body = wire.whole(conversation, reply)
            response = web.StreamResponse(headers=HEADERS | {"content-type": JSON, "content-length": str(len(body))})
            half = body[: len(body) // 2]
        await response.prepare(request)
        await response.write(half)
        if behaviour == "hang":
            await self.ending.wait()
        if behaviour != "cut-clean" or not conversation.stream:
            if request.transport is not None:
                request.transport.close()
            return response
        await response.write_eof()
        return response

    async def models(self, _request: web.Request) -> web.Response:
        """GET /v1/models: the demo and each of its misbehaviours, with what it does."""
        listed = [model("demo", "answers questions over the shipped knowledge bases by rules")]
        listed += [model(f"demo:{name}", describe(name)) for name in BEHAVIOURS if name]
        return web.Response(
            body=orjson.dumps({"object": "list", "data": listed, "has_more": False}), content_type=JSON, headers=HEADERS
        )

    async def health(self, _request: web.Request) -> web.Response:
        """GET /health."""
        return web.Response(
            body=orjson.dumps({"status": "ok", "requests": self.requests}), content_type=JSON, headers=HEADERS
        )


async def stream(request: web.Request, events: Iterator[bytes]) -> web.StreamResponse:
    """The first event alone, so that a first token can be timed, then the rest in one write: cheap under load."""
    response = web.StreamResponse(headers=STREAM)
    await response.prepare(request)
    await response.write(next(events))
    await response.write(b"".join(events))
    await response.write_eof()
    return response


def refuse(wire: Wire, status: int, kind: str, message: str, extra: dict[str, str] | None = None) -> web.Response:
    """An error in the provider's own shape."""
    return web.Response(
        status=status, body=wire.error(status, kind, message), content_type=JSON, headers=HEADERS | (extra or {})
    )


def parse(name: str, header: str | None) -> tuple[float, str]:
    """(seconds to wait, behaviour) of a model name. LookupError if there is no such model."""
    match = MODEL.fullmatch(name)
    if match is None:
        raise LookupError(
            f"model {name!r} does not exist here; use demo, demo-l50 or demo:forged (GET /v1/models lists all)"
        )
    behaviour = (header or match.group(3) or "").strip().lower()
    if behaviour not in BEHAVIOURS:
        raise LookupError(f"behaviour {behaviour!r} does not exist; known are {', '.join(filter(None, BEHAVIOURS))}")
    return int(match.group(2) or 0) / 1000, behaviour


def describe(behaviour: str) -> str:
    """What a behaviour does, in one line."""
    return WIRE_FAULTS.get(behaviour) or (BEHAVIOURS[behaviour].__doc__ or "").split("\n", 1)[0]


def model(name: str, does: str) -> dict[str, object]:
    """One entry of the list, readable by clients of either provider."""
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "created": 0,
        "owned_by": "orchestrator-demo",
        "display_name": f"{name} ({DISCLAIMER})",
        "description": f"Demo ({DISCLAIMER}): {does}",
    }


def application(demo: Demo) -> web.Application:
    """The routes."""
    app = web.Application(client_max_size=LARGEST_BODY)
    app.router.add_post("/v1/chat/completions", demo.openai)
    app.router.add_post("/v1/messages", demo.anthropic)
    app.router.add_get("/v1/models", demo.models)
    app.router.add_get("/health", demo.health)
    return app


@asynccontextmanager
async def serve(port: int = 0, host: str = "127.0.0.1") -> AsyncIterator[Demo]:
    """Serve until the block ends; port 0 takes a free one. `server.url` has no path: add `/v1` for OpenAI clients."""
    demo = Demo()
    runner = web.AppRunner(application(demo), access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        demo.url = f"http://{host}:{runner.addresses[0][1]}"
        yield demo
    finally:
        demo.ending.set()
        await runner.cleanup()


async def forever(port: int, host: str) -> None:
    """Serve until interrupted."""
    async with serve(port, host) as demo:
        print(f"demo model server ({DISCLAIMER}) on {demo.url}", flush=True)  # noqa: T201
        await asyncio.Event().wait()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="orchestrator.demo.server", description="The demo model server. It is no language model."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=18181)
    given = parser.parse_args()
    try:
        asyncio.run(forever(given.port, given.host))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
