"""Rules, Notifications and a fake robot for the tests of this folder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web

from orchestrator.alerts import Kind, Notification, Rule, Selector, load_rules

RULES = {rule.name: rule for rule in load_rules()}
GAP = RULES["thought_action_gap"]


def gauge(name: str = "lag", *, pending: float = 0.0, threshold: float = 10.0, resolve: float = 5.0) -> Rule:
    words = {"en": "is {value}", "zh": "为 {value}"}
    return Rule(name, Kind.GAUGE, Selector("m"), threshold, resolve, words, words, minimum=0, pending=pending)  # type: ignore[arg-type]


def note(**changes: Any) -> Notification:
    made = Notification(
        rule=GAP.name,
        status="firing",
        severity=GAP.severity,
        title=GAP.title,
        says=GAP.says,
        labels={"agent": "shop", "model": "main"},
        value=0.125,
        threshold=GAP.threshold,
        since=1_700_000_000.0,
        at=1_700_000_120.0,
        unit=GAP.unit,
        samples=40.0,
        runs=("r1", "r2"),
    )
    return replace(made, **changes)


@dataclass
class Receiver:
    """A receiver on loopback that keeps what it was sent, and answers as it is told; the last answer is repeated."""

    url: str = ""
    answers: list[tuple[int, Any]] = field(default_factory=lambda: [(200, {"errcode": 0, "errmsg": "ok"})])
    bodies: list[Any] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    hang: bool = False
    came: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.raw.append(body)
        self.bodies.append(json.loads(body))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.paths.append(request.path_qs)
        self.came.set()
        if self.hang:
            await asyncio.Event().wait()
        status, answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return web.Response(status=status, text=text, content_type="application/json")

    async def until(self, ready: Callable[[], bool]) -> None:
        while not ready():
            self.came.clear()
            await asyncio.wait_for(self.came.wait(), 20)

    def texts(self) -> list[str]:
        return [body["markdown"]["content"] for body in self.bodies]


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = web.Application()
    app.router.add_post("/{tail:.*}", receiver.take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield receiver
    finally:
        await runner.cleanup()
