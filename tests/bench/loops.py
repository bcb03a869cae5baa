"""The two loops that are compared: a raw one, thirty lines over httpx, and ours, durable and with everything on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import httpx
from httpx_aiohttp import AiohttpTransport
from yarl import URL

from orchestrator import log
from orchestrator.assembly import RunRequest, open_ports, started
from orchestrator.core.events import ModelTurn
from orchestrator.http import Connections
from orchestrator.metrics import Metrics
from orchestrator.runner import drive
from orchestrator.settings import ModelSettings, Settings
from orchestrator.tool import tool
from orchestrator.toolbox import Toolbox

Step = Callable[[], None]
FILLER = " ".join(f"word{n}" for n in range(270))


def observation(key: str) -> str:
    """2 KB that say something new."""
    return f"{key}: value v{key.rpartition('-')[2]}. {key} {FILLER}"


@tool(repeatable=True)
async def look(key: str) -> str:
    """Looks up one entry of the register."""
    return observation(key)


def goal(run: int) -> str:
    return f"run {run}: what is the value of the last entry?"


@asynccontextmanager
async def raw(url: str, model: str, step: Step) -> AsyncIterator[Callable[[int], Awaitable[str]]]:
    """What a careful person writes in an afternoon: one client, JSON made anew each time, no log, no guard."""
    tools = [
        {
            "type": "function",
            "function": {"name": look.spec.name, "description": look.spec.description, "parameters": look.spec.schema},
        }
    ]
    async with httpx.AsyncClient(
        transport=AiohttpTransport(client=Connections(URL(url)).session), timeout=60
    ) as client:

        async def one(run: int) -> str:
            messages: list[dict[str, object]] = [
                {"role": "system", "content": "Answer."},
                {"role": "user", "content": goal(run)},
            ]
            while True:
                body = {"model": model, "messages": messages, "tools": tools, "max_tokens": 4096}
                message = (await client.post(f"{url}/chat/completions", json=body)).json()["choices"][0]["message"]
                step()
                messages.append(message)
                if not message.get("tool_calls"):
                    return str(message["content"])
                for call in message["tool_calls"]:
                    result = observation(json.loads(call["function"]["arguments"])["key"])
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

        yield one


def nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


@asynccontextmanager
async def ours(
    url: str, model: str, step: Step, *, stream: bool = False, watched: bool = False, store: str
) -> AsyncIterator[Callable[[int], Awaitable[str]]]:
    """The product: policies, cleaning, guards, a durable trace in `store`; `watched`: as a worker is, with metrics and log."""
    models = {"m": ModelSettings(provider="openai", base_url=url, model=model, stream=stream)}
    settings = Settings(models=models, store=store)
    toolbox = Toolbox([look])
    submitted = started(settings, toolbox.specs, RunRequest("?", max_steps=1000))

    def counted(_run: object, entry: object) -> None:
        if isinstance(getattr(entry, "event", None), ModelTurn):
            step()

    metrics = Metrics()
    with nowhere() as stream_of_lines:
        log.configure("json", "warning", stream=stream_of_lines)
        observers = (counted, metrics.observe, log.log_entry) if watched else (counted,)
        async with open_ports(settings, toolbox=toolbox, observers=observers) as ports:

            async def one(run: int) -> str:
                run_id = f"run-{run}"
                await ports.store.append(run_id, 0, [replace(submitted, goal=goal(run))], at=time.time())
                ended = (await drive(run_id, ports)).ended
                assert ended is not None
                return ended.answer or ended.detail

            yield one
