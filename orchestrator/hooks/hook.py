"""A hook: one receiver of Notifications behind the policies, made from its settings."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from orchestrator.alerts import Links, Notification, Wording
from orchestrator.alerts.settings import HookSettings
from orchestrator.errors import ConfigError
from orchestrator.hooks.command import Command
from orchestrator.hooks.pagerduty import EVENTS, PagerDuty
from orchestrator.hooks.posted import Dialect, Posted, divided, endpoint
from orchestrator.hooks.slack import Slack
from orchestrator.hooks.webhook import Webhook
from orchestrator.hooks.wecom import Wecom
from orchestrator.policy import Ask, LimitRules, RetryRules, Rules, guard
from orchestrator.settings import Settings

RETRY: Final = RetryRules(attempts=8, total=600.0, base=1.0, cap=60.0, share=1.0, floor=60.0)
"""A receiver that is away for some minutes is no reason to lose an alert; the courier tries again after that."""

LEVELS: Final = ("info", "warning", "critical")


class Call(Protocol):
    """One try of one delivery."""

    async def __call__(self, ask: Ask[Notification]) -> None:
        """Deliver, or raise CallError."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class Hook:
    """One receiver: limited, retried, each try within its timeout. `least` is the lowest severity that it is told."""

    def __init__(self, name: str, once: Call, rules: Rules, least: str = "info") -> None:
        self.name = name
        self._once = once
        self._least = LEVELS.index(least)
        self._call: Callable[[Ask[Notification]], Awaitable[None]] = guard(once, f"hook {name}", rules).call

    def wants(self, note: Notification) -> bool:
        """Is this one severe enough?"""
        return LEVELS.index(note.severity) >= self._least

    async def send(self, note: Notification) -> None:
        """Deliver with retries. Raises the CallError of the last try."""
        await self._call(Ask(note, run=note.fingerprint))

    async def attempt(self, note: Notification) -> None:
        """Deliver once, without limit and retries: for trying a hook. Raises CallError."""
        await self._once(Ask(note))

    async def close(self) -> None:
        """Let go of connections."""
        await self._once.close()


def make_hooks(settings: Settings, clock: Callable[[], float] = time.time) -> tuple[Hook, ...]:
    """Every configured hook. ConfigError names the setting."""
    return tuple(make_hook(name, each, settings, clock) for name, each in settings.hooks.items())


def make_hook(name: str, given: HookSettings, settings: Settings, clock: Callable[[], float] = time.time) -> Hook:
    """One hook by its settings. ConfigError names the setting that is missing or wrong."""
    wording = wording_of(given, settings)
    rules = Rules(
        timeout=given.timeout + 1.0,
        retry=RETRY,
        breaker=None,
        limit=LimitRules(at_once=1, calls=given.calls, window=60.0),
    )
    if given.kind == "command":
        if not given.argv:
            raise ConfigError(f'hooks.{name}.argv is empty: write for example argv = ["/usr/local/bin/page"]')
        return Hook(name, Command(given.argv, wording, given.timeout), rules, given.severity)
    url = given.url.get_secret_value() or (EVENTS if given.kind == "pagerduty" else "")
    base, path = divided(url, f"hooks.{name}.url")
    way = endpoint(base, given, loopback=settings.egress.loopback)
    posted = Posted(way, _dialect(name, given, path, wording), given.timeout, clock)
    return Hook(name, posted, rules, given.severity)


def wording_of(given: HookSettings, settings: Settings) -> Wording:
    """In which language a hook speaks, and where its links lead."""
    return Wording(given.language, Links(settings.alerts.runbook, settings.alerts.console))


def _dialect(name: str, given: HookSettings, path: str, wording: Wording) -> Dialect:
    match given.kind:
        case "wecom":
            return Wecom(path, wording)
        case "slack":
            return Slack(path, wording)
        case "pagerduty":
            key = given.key.get_secret_value()
            if not key:
                raise ConfigError(f"hooks.{name}.key is missing: write the integration's routing key, or env:NAME")
            return PagerDuty(path, wording, key)
        case _:
            try:
                return Webhook(path, wording, given.secret.get_secret_value())
            except ConfigError as error:
                raise ConfigError(f"hooks.{name}.secret: {error}") from error
