"""A hook that is an HTTP POST: one dialect's message through the policies, and what a status means for a hook."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import aiohttp
from yarl import URL

from orchestrator.alerts import Notification
from orchestrator.alerts.settings import HookSettings
from orchestrator.egress import Rules, session
from orchestrator.errors import ConfigError, RateLimited, Rejected, Unauthorised, Unavailable
from orchestrator.http import Connections, Endpoint, Timeouts
from orchestrator.policy import Ask
from orchestrator.providers.wire import Reply, Request

JSON: Final[Mapping[str, str]] = {"content-type": "application/json; charset=utf-8"}
LARGEST_REPLY: Final = 256 * 1024


class Dialect(Protocol):
    """How one kind of receiver is spoken to. Pure."""

    def encode(self, note: Notification, now: float) -> Request:
        """The POST of one Notification; `now` (unix seconds) for what is signed."""
        ...

    def accept(self, reply: Reply) -> None:
        """Return if it was taken; else raise a CallError: Transient to be tried again, Permanent not to."""
        ...


class Posted:
    """The innermost call: one try. `clock` gives unix seconds."""

    def __init__(self, endpoint: Endpoint, dialect: Dialect, timeout: float, clock: Callable[[], float]) -> None:
        self._endpoint = endpoint
        self._dialect = dialect
        self._timeouts = Timeouts(connect=timeout, first_token=None, between_tokens=None, whole=timeout)
        self._clock = clock

    async def __call__(self, ask: Ask[Notification]) -> None:
        """Send one Notification once. Raises CallError."""
        reply = await self._endpoint.post(self._dialect.encode(ask.input, self._clock()), self._timeouts)
        self._dialect.accept(reply)

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()


def endpoint(base: str, given: HookSettings, *, loopback: bool) -> Endpoint:
    """The way to a hook: to public addresses, unless its settings or the switch for development say otherwise; any port."""
    if given.proxy:
        return Endpoint(base, limit=LARGEST_REPLY)
    rules = Rules(given.hosts, ports=None, loopback=loopback, private=given.private, connect=given.timeout)
    return Endpoint(base, limit=LARGEST_REPLY, connections=_Outward(URL(base), rules))


class _Outward(Connections):
    """An Endpoint's connections through the egress, past any proxy. Time and size are the Endpoint's business."""

    def __init__(self, url: URL, rules: Rules) -> None:
        super().__init__(url)
        self._proxy = self._proxy_auth = None
        self._rules = rules

    def session(self) -> aiohttp.ClientSession:
        """As the Endpoint's own."""
        if self._session is None:
            self._session = session(self._rules)
        return self._session


def divided(url: str, place: str) -> tuple[str, str]:
    """A hook's URL as the endpoint's base and the path with its query. ConfigError, without the URL: it may hold a key."""
    scheme, mark, rest = url.strip().partition("://")
    host, slash, path = rest.partition("/")
    host, question, query = host.partition("?") if not slash else (host, "", "")
    if scheme not in {"http", "https"} or not mark or not host or "@" in host:
        raise ConfigError(f"{place} is no http(s) URL: write it whole, as the receiver shows it")
    path, _, _ = f"{slash}{path}{question and '/?' + query}".partition("#")
    return f"{scheme}://{host}", path or "/"


def accept_status(reply: Reply) -> None:
    """Raise the CallError that this HTTP status is; a 2xx is none."""
    status = reply.status
    if 200 <= status < 300:
        return
    if status == 429:
        raise RateLimited("RATE_LIMITED", "the receiver asks for fewer calls", retry_after=_after(reply), status=status)
    if status >= 500 or status == 408:
        raise Unavailable(
            "HOOK_FAILED", f"the receiver answered HTTP {status}", retry_after=_after(reply), status=status
        )
    if status in {401, 403}:
        raise Unauthorised("HOOK_KEY", f"the receiver refuses the key: HTTP {status}", status=status)
    raise Rejected(
        "HOOK_REJECTED", f"the receiver refuses the message: HTTP {status}; check the hook's url", status=status
    )


def json_of(reply: Reply) -> Any:
    """The body as JSON; None when it is none. Whatever JSON it is comes back as it is."""
    try:
        return json.loads(reply.body[:LARGEST_REPLY])
    except (ValueError, RecursionError):
        return None


def _after(reply: Reply) -> float | None:
    """Retry-After in seconds, if it is a number; at most ten minutes."""
    text = reply.headers.get("retry-after", "").strip()
    return min(float(text), 600.0) if text.isascii() and text.isdigit() and len(text) < 8 else None
