"""A hook by its settings, and what a receiver on loopback was sent through it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from orchestrator.alerts.settings import AlertSettings, HookSettings
from orchestrator.egress import EgressSettings
from orchestrator.hooks import Hook, make_hook
from orchestrator.settings import Settings
from tests.alerts.make import Receiver, note, receiving

KEY = "693a91f6-7xxx-4bc4-97a0-0ec2sifa5aaa"
CONSOLE = "https://console.example/runs/{run}"


def hook(name: str = "it", **given: Any) -> Hook:
    alerts = AlertSettings(console=CONSOLE, runbook="https://runbook.example/")
    settings = Settings(hooks={name: HookSettings(**given)}, alerts=alerts, egress=EgressSettings(loopback=True))
    return make_hook(name, settings.hooks[name], settings, clock=lambda: 1_700_000_300.0)


async def sent(url_end: str = "", work: Callable[[Hook], Awaitable[None]] | None = None, **given: Any) -> Receiver:
    async with receiving() as receiver:
        made = hook(url=receiver.url + url_end, **given)
        try:
            await (work(made) if work else made.attempt(note()))
        finally:
            await made.close()
        return receiver
